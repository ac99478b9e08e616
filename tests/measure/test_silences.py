"""Iterations found by cutting a series at silences: equal intervals, or equal sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import synthetic
from hostcc.measure import pattern_watch as w
from hostcc.measure.period import detect
from hostcc.measure.series import Floats, Ints, part, series
from hostcc.measure.silences import Rhythm, bursts, dividing, exchanges, rhythm
from tests.measure.jobs import MS

pytestmark = pytest.mark.unit

RATE = 100.0
SILENCE, SENT = 130, 600_000


def laid(table: list[tuple[float, float]], bins: int, seed: int = 1) -> Floats:
    """Bursts (from, to) at one rate beside data loading of a fifth of it."""
    rows = np.array([(begin, end, RATE) for begin, end in table])
    noise = np.random.default_rng(seed).gamma(6.0, 0.2 * RATE / 6.0, bins)
    return synthetic.binned(rows, 1.0, bins) + noise


def heard(table: list[tuple[float, float]], bins: int) -> Rhythm:
    found = rhythm(laid(table, bins))
    assert found is not None
    return found


def regular(count: int, period: float, length: float) -> list[tuple[float, float]]:
    return [(k * period + 7.3, k * period + 7.3 + length) for k in range(count)]


@pytest.mark.parametrize("period", [12.0, 40.0, 333.3])
def test_exchanges_beside_loading(period: float) -> None:
    found = heard(regular(11, period, 0.4 * period), int(11 * period))
    assert found.likely > 0.9
    assert found.interval == pytest.approx(period, rel=0.02)
    phases = (found.starts - 7.3) / period % 1
    assert phases == pytest.approx(0.7, abs=0.08)
    assert len(found.starts) >= 8


def test_a_late_worker_divides_an_exchange() -> None:
    """Each fourth iteration waits within its exchange for longer than it computes."""
    table, now = [], 10.0
    for number in range(12):
        now += 30
        if number % 4 == 1:
            part = 5 + number
            table += [(now, now + part), (now + part + 40 + number, now + 60 + number)]
            now += 60 + number
        else:
            table.append((now, now + 20))
            now += 20
    found = heard(table, int(now) + 10)
    assert found.likely > 0.8
    assert found.interval == pytest.approx(50, rel=0.02)
    assert 9 <= len(found.starts) <= 11


def test_another_job_in_the_link_changes_lengths_only() -> None:
    """The same bytes at half the rate take twice as long; computing does not."""
    rows, now = [], 5.0
    for number in range(11):
        now += 40
        slow = number % 4 in (1, 2)
        rows.append((now, now + (40 if slow else 20), RATE / 2 if slow else RATE))
        now = rows[-1][1]
    values = synthetic.binned(np.array(rows), 1.0, int(now) + 5)
    found = rhythm(values + np.random.default_rng(1).gamma(6.0, 0.02 * RATE, len(values)))
    assert found is not None
    assert found.likely > 0.8
    assert found.interval == pytest.approx(70, abs=11)
    assert len(found.starts) == 10


def test_bursts_within_an_iteration_are_none() -> None:
    """Five bursts and a longer silence: the bursts are not the iterations."""
    table = [
        (start + 12 * burst, start + 12 * burst + 6)
        for start in np.arange(11) * 100.0
        for burst in range(5)
    ]
    found = heard(table, 1100)
    assert found.likely > 0.8
    assert found.interval == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize("name", synthetic.APERIODIC)
def test_what_has_no_rhythm(name: str) -> None:
    wrong = 0
    for seed in range(30):
        made = synthetic.APERIODIC[name](np.random.default_rng([9, seed]))
        found = rhythm(made.series.total)
        wrong += found is not None and found.likely >= 0.8
    assert wrong <= 1


def test_bursts_begin_between_bins() -> None:
    values = synthetic.binned(np.array([(3.25, 7.5, 10.0), (12.0, 12.75, 10.0)]), 1.0, 20)
    found = bursts(values, values > 5)
    assert found.begins == pytest.approx([3.25, 12.0], abs=0.26)
    assert found.ends == pytest.approx([7.5, 12.75], abs=0.26)
    assert found.sent == pytest.approx([42.5, 7.5])


def test_the_dividing_rate_is_between_high_and_low() -> None:
    values = np.concatenate((np.full(60, 3.0), np.full(40, 90.0)))
    assert 3 < dividing(values) < 90
    assert dividing(np.zeros(50)) == 0.0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=400))
def test_any_series(counts: list[int]) -> None:
    values = np.asarray(counts, dtype=np.float64)
    found = rhythm(values)
    if found is not None:
        assert 0 <= found.likely <= 1
        assert found.interval > 0
        assert (np.diff(found.starts) > 0).all()
        again = rhythm(values * 3)
        assert again is not None
        assert again.likely == pytest.approx(found.likely, abs=0.3)


def iteration(rng: np.random.Generator, size: int = SENT, pauses: int = 3) -> Ints:
    """Computing, then bursts of any lengths and rates with pauses of any length between them."""
    weights = rng.uniform(0.2, 1, pauses + 1)
    pieces: list[Ints] = [np.zeros(SILENCE, dtype=np.int64)]
    for number, weight in enumerate(weights):
        length = int(rng.integers(15, 60))
        pieces.append(np.full(length, int(size * weight / weights.sum() / length)))
        if number < pauses:
            pieces.append(np.zeros(int(rng.integers(2, 70)), dtype=np.int64))
    return np.concatenate(pieces)


def job(seed: int, iterations: int = 20, size: int = SENT) -> Ints:
    rng = np.random.default_rng(seed)
    return np.concatenate([iteration(rng, size) for _ in range(iterations)])


def test_iterations_without_a_shape() -> None:
    """Of some the pauses are as long as the silences by chance: those are not given a number."""
    found = [(job(seed), detect(series(job(seed), None, MS))) for seed in range(30)]
    known = [(made, one) for made, one in found if one.periodic]
    assert len(known) >= 27
    for made, one in known:
        assert one.irregular
        assert one.mean_period_s == pytest.approx(len(made) * 0.001 / 20, rel=0.1)
        assert one.bytes_per_iteration == pytest.approx(SENT, rel=0.02)
        assert one.confidence < 1.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_exchanges_of_any_size_are_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = np.concatenate(
        [
            iteration(rng, int(rng.integers(1, 4) * SENT / 3 * rng.uniform(0.5, 1.5)))
            for _ in range(20)
        ]
    )
    told = exchanges(made.astype(np.float64))
    assert told is None or not told.plausible()


def test_computing_takes_as_long_every_time() -> None:
    rng = np.random.default_rng(3)
    made = [np.r_[np.zeros(int(rng.exponential(120)) + 5), np.full(30, 1000.0)] for _ in range(30)]
    told = exchanges(np.concatenate(made))
    assert told is None or not told.plausible()


def test_halves_that_take_turns_are_parts() -> None:
    half = [np.r_[np.zeros(100), np.full(40, 1000.0)], np.r_[np.zeros(100), np.full(40, 1040.0)]]
    told = exchanges(np.concatenate(half * 10))
    assert told is not None
    assert told.parts
    assert not told.plausible()


def test_a_pause_as_long_as_a_silence_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    pieces = [iteration(rng, pauses=0) for _ in range(20)]
    pieces[7] = np.concatenate((pieces[7][:-10], np.zeros(140, dtype=np.int64), pieces[7][-10:]))
    told = exchanges(np.concatenate(pieces).astype(np.float64))
    assert told is not None
    assert told.share == pytest.approx(1, abs=0.01)
    assert len(told.starts) == 19  # nothing precedes the first


@pytest.mark.parametrize("values", [np.zeros(0), np.zeros(50), np.ones(50), np.r_[np.zeros(9), 5]])
def test_nothing_to_tell(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    assert exchanges(values) is None


def test_a_job_without_a_shape_is_followed_and_its_change_noticed() -> None:
    made = series(np.concatenate((job(1, 60), job(2, 60, 2 * SENT))), None, MS)
    half = len(job(1, 60))
    watch = w.begin(MS)
    for at in range(0, half, 500):
        watch = w.update(watch, part(made, at, min(half, at + 500)))
    assert watch.found.irregular
    assert watch.changes == 0
    for at in range(half, len(made), 500):
        watch = w.update(watch, part(made, at, at + 500))
    assert watch.changes >= 1
    assert watch.found.bytes_per_iteration == pytest.approx(2 * SENT, rel=0.02)


def test_exchanges_that_are_whole_at_the_ends_count() -> None:
    """The silence before the first, and after the last, is not in the series."""
    made = job(7)
    sent = np.flatnonzero(made)
    whole = exchanges(made[sent[0] - 1 : sent[-1] + 2].astype(np.float64))
    assert whole is not None
    assert len(whole.intervals) == 20
    assert len(whole.starts) == 19
    cut = exchanges(made[sent[0] + 60 : sent[-1] - 60].astype(np.float64))
    assert cut is not None
    assert len(cut.intervals) == len(cut.starts) - 1 == 18


def test_where_no_silence_separates_two_their_bytes_do() -> None:
    rng = np.random.default_rng(11)
    parts = [iteration(rng) for _ in range(20)]
    parts[8] = parts[8][SILENCE - 20 :]
    told = exchanges(np.concatenate(parts).astype(np.float64))
    assert told is not None
    begins = np.cumsum([0] + [len(one) for one in parts])[1:-1]
    ends = told.starts - SILENCE / 2
    assert len(told.starts) == len(begins)
    assert np.abs(ends - begins).max() <= 3
