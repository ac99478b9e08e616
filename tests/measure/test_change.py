"""Whether the end of a series is like nothing before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.measure import change
from hostcc.measure.change import FEWEST, novelty
from hostcc.measure.series import Floats

pytestmark = pytest.mark.unit


def pieces(*lengths: int, burst: int = 40) -> Floats:
    """Iterations of so many bins, each of which ends with a burst."""
    return np.concatenate([np.where(np.arange(n) >= n - burst, 1000.0, 0.0) for n in lengths])


PAST = pieces(*[100] * 16)


def test_the_same_again_is_not_new() -> None:
    assert novelty(np.concatenate((PAST, pieces(100, 100, 100))), len(PAST), 100.0) < 0.1


@pytest.mark.parametrize("burst", [10, 90])
def test_another_amount_is_new(burst: int) -> None:
    end = pieces(100, 100, burst=burst)
    assert novelty(np.concatenate((PAST, end)), len(PAST), 100.0) > 1
    # Also when it begins with one that is as it was.
    end = np.concatenate((pieces(100), end))
    assert novelty(np.concatenate((PAST, end)), len(PAST), 100.0) > 1
    assert novelty(np.concatenate((PAST, end[:200])), len(PAST), 100.0) < 1


def test_what_was_seen_before_is_not_new() -> None:
    """A part of a longer pattern is no change, however unlike the iteration before it is."""
    longer = np.concatenate((pieces(100, 100, 100), pieces(100, burst=90)))
    values = np.tile(longer, 6)
    whole = len(values) - 100
    assert novelty(values, whole - 300, 100.0) < 0.1
    assert novelty(values, whole, 100.0) < 0.1


LATE, CHECKPOINT = pieces(190), np.concatenate((np.full(70, 700.0), pieces(100)))


@pytest.mark.parametrize(
    "end", [LATE, CHECKPOINT, np.concatenate((pieces(140, 100), LATE))], ids=len
)
def test_a_disturbance_is_not_new(end: Floats) -> None:
    """Neither while it lasts nor afterwards."""
    values = np.concatenate((PAST, end, pieces(100, 100, 100)))
    for until in range(len(PAST), len(values), 20):
        assert novelty(values[:until], len(PAST), 100.0) < 1


@pytest.mark.parametrize("length", [70, 80, 125, 150, 200])
def test_another_length_is_new_when_it_has_come_again(length: int) -> None:
    values = np.concatenate((PAST, pieces(length, length, length)))
    assert novelty(values[: len(PAST) + length], len(PAST), 100.0) < 1
    assert novelty(values, len(PAST), 100.0) > 1


def test_of_a_restless_job_more_has_to_be_new() -> None:
    """Every other of its iterations is disturbed, each differently."""
    rng = np.random.default_rng(3)
    lengths = [100 + int(rng.integers(20, 90)) * (number % 2) for number in range(24)]
    restless = pieces(*lengths)
    end = pieces(100, 100, 100, burst=80)
    quiet = novelty(np.concatenate((PAST, end)), len(PAST), 100.0)
    assert 1 < novelty(np.concatenate((restless, end)), len(restless), 100.0) < quiet - 0.2


def test_what_is_new_does_not_depend_on_when_the_usual_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of ends that take many steps, as the past does, some are new and some are not."""
    rng = np.random.default_rng(11)
    found = []
    for number in range(24):
        lengths = 100 + rng.integers(20, 90, 24) * (np.arange(24) % 2)
        end = pieces(*(100 + rng.integers(20, 90, 3)), burst=(40, 80)[number % 2])
        past = pieces(*lengths.tolist())
        found.append((np.concatenate((past, end)), float(len(past))))
    early = [novelty(*one, 100.0) for one in found]
    monkeypatch.setattr(change, "CHECK_EVERY", 10**6)
    late = [novelty(*one, 100.0) for one in found]
    assert [one > 1 for one in early] == [one > 1 for one in late]
    assert {one > 1 for one in late} == {True, False}
    assert early != late, "of none was it known early"


def test_nothing_is_new_to_a_short_past() -> None:
    few = pieces(*[100] * (FEWEST - 1))
    assert novelty(np.concatenate((few, np.zeros(200))), len(few), 100.0) == 0
    assert novelty(np.concatenate((PAST, np.full(40, 1000.0))), len(PAST), 100.0) == 0
    assert novelty(np.zeros(2000), 1600.0, 100.0) == 0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0, 1000), min_size=3, max_size=12),
    st.integers(12, 90),
    st.integers(0, 60),
)
def test_what_repeats_is_never_new_whatever_period_is_assumed(
    shape: list[float], period: int, shift: int
) -> None:
    """Of a series that repeats itself no end is new, and no scale matters."""
    values = np.tile(np.repeat(np.array(shape), 4), 2000 // (4 * len(shape)))[:1800]
    since = float(1800 - 2 * period - shift % period)
    found = novelty(values, since, float(period))
    assert found <= 1
    assert novelty(values * 1e6, since, float(period)) == pytest.approx(found, abs=0.01)


def short_bursts(lengths: Sequence[int], sizes: Sequence[float]) -> Floats:
    """Bursts of three values, each after so many values of silence."""
    values = [
        np.append(np.zeros(length - 3), np.full(3, size / 3))
        for length, size in zip(lengths, sizes, strict=True)
    ]
    return np.concatenate(values)


SHORT_PERIOD, LEARNED = 240, 20


@pytest.mark.parametrize("again", [1.1, 1.3])
def test_of_short_bursts_one_that_is_sent_again_in_part_is_nothing_new(again: float) -> None:
    sizes = [1.0] * LEARNED + [again, 1.0]
    values = short_bursts([SHORT_PERIOD] * len(sizes), sizes)
    assert novelty(values, LEARNED * SHORT_PERIOD, SHORT_PERIOD) < 1


@pytest.mark.parametrize(("length", "size"), [(1.0, 0.4), (1.4, 1.0), (0.7, 0.7)])
def test_of_short_bursts_others_are_new(length: float, size: float) -> None:
    lengths = [SHORT_PERIOD] * LEARNED + [round(length * SHORT_PERIOD)] * 4
    values = short_bursts(lengths, [1.0] * LEARNED + [size] * 4)
    assert novelty(values, LEARNED * SHORT_PERIOD, SHORT_PERIOD) > 1


@pytest.mark.filterwarnings("error")
def test_after_silence_anything_is_new() -> None:
    values = short_bursts([SHORT_PERIOD] * (LEARNED + 4), [0.0] * LEARNED + [1e9] * 4)
    assert novelty(values, LEARNED * SHORT_PERIOD, SHORT_PERIOD) > 1
    assert novelty(0 * values, LEARNED * SHORT_PERIOD, SHORT_PERIOD) <= 1
