"""Which jobs go on as they did, from one reading to the next."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.measure import expectation
from hostcc.measure import pattern_watch as watching
from hostcc.measure.destinations import DESTINATION
from hostcc.measure.expectation import ExpectationTracker
from hostcc.measure.meter import MissingData, Window
from hostcc.measure.pattern_watch import Watch
from hostcc.measure.series import Ints
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit

LEARNED = 4000
JOBS = {3: "early", 5: "late", 9: "late"}
"""Slots; the second job has two."""


@pytest.fixture(scope="module")
def known() -> tuple[Ints, Watch]:
    """A job's bytes, and what is known of it after four seconds."""
    of = regular(240, 50, share=0.05)
    watch = watching.begin(of.bin_ns)
    for at in range(0, LEARNED, 200):
        watch = watching.update(watch, of.part(at, at + 200))
    assert watch.known is not None
    return of.tx + of.rx, watch


def window(sent: dict[int, Ints], begin: int, end: int, *, local: bool = False) -> Window:
    """What slots sent in some bins; half of it to each of two destinations."""
    who = np.zeros(2 * len(sent), DESTINATION)
    who["slot"] = np.repeat(list(sent), 2)
    who["local"] = local
    row, place, words = [], [], []
    for number, numbers in enumerate(sent.values()):
        (at,) = numbers[begin:end].nonzero()
        for half in (0, 1):
            row.append(np.full(len(at), 2 * number + half))
            place.append(at)
            words.append(numbers[begin:end][at] // 2)
    counts = np.zeros((sum(map(len, words)), 2), np.uint64)
    counts[:, 0] = np.concatenate(words)
    return Window(
        MS,
        begin * MS,
        end - begin,
        who,
        np.concatenate(row),
        np.concatenate(place),
        counts,
        MissingData(),
    )


def expecting(watch: Watch, sent: dict[int, Ints]) -> ExpectationTracker:
    made = ExpectationTracker()
    made.add_reading(window(sent, LEARNED - 500, LEARNED), JOBS)
    for name in set(JOBS.values()):
        made.expect(name, watch)
    return made


@pytest.mark.parametrize("step", [50, 500, 3000])
def test_jobs_go_on_however_they_are_read(known: tuple[Ints, Watch], step: int) -> None:
    sent, watch = known
    made = expecting(watch, {3: sent, 5: sent // 2, 9: sent // 2})
    for at in range(LEARNED, 10_000, step):
        made.add_reading(window({3: sent, 5: sent // 2, 9: sent // 2}, at, at + step), JOBS)
        for name in ("early", "late"):
            regular_until_ns = made.regular_until_ns(name)
            assert made.is_regular(name)
            assert regular_until_ns is not None
            # At first the iteration that was begun before is left out; short readings wait.
            behind = 240 if at + step > LEARNED + 480 else 720
            behind += 240 if step < 240 else 0
            assert (at + step - behind) * MS <= regular_until_ns <= (at + step) * MS


@pytest.mark.parametrize("step", [50, 500])
def test_one_that_does_not_is_told_from_the_others(known: tuple[Ints, Watch], step: int) -> None:
    sent, watch = known
    other = sent.copy()
    other[7000:] = 0
    every = {3: other, 5: sent // 2, 9: sent // 2}
    made, told = expecting(watch, every), 0
    for at in range(LEARNED, 10_000, step):
        made.add_reading(window(every, at, at + step), JOBS)
        assert made.is_regular("late")
        if not told and not made.is_regular("early"):
            told = at + step
    assert 7000 < told <= 7000 + 3 * 240 + step
    assert made.regular_until_ns("early") == pytest.approx(7000 * MS, abs=240 * MS)
    # Looked at again, as what it was, it does something else from the next iteration on.
    made.expect("early", watch)
    assert made.is_regular("early")
    made.add_reading(window(every, 10_000, 10_900), JOBS)
    assert not made.is_regular("early")


def test_readings_wait_until_they_are_an_iteration(known: tuple[Ints, Watch]) -> None:
    sent, watch = known
    every = {3: sent, 5: sent}
    made = expecting(watch, every)
    made.add_reading(window(every, LEARNED, LEARNED + 200), JOBS)
    assert made.until_ns == LEARNED * MS
    made.add_reading(window(every, LEARNED + 200, LEARNED + 250), JOBS)
    assert made.until_ns == (LEARNED + 250) * MS
    # What waits is lost with the bins after it.
    made.add_reading(window(every, LEARNED + 250, LEARNED + 300), JOBS)
    made.add_reading(window(every, LEARNED + 500, LEARNED + 800), JOBS)
    assert not made.is_regular("early")


def test_a_look_between_two_readings_loses_nothing(known: tuple[Ints, Watch]) -> None:
    sent, watch = known
    made = expecting(watch, {3: sent, 5: sent})
    for at in range(LEARNED, 9000, 100):
        made.add_reading(window({3: sent, 5: sent}, at, at + 100), JOBS)
        made.expect("early", watch)
        assert made.is_regular("early")


def test_bytes_over_loopback_and_of_others_do_not_count(known: tuple[Ints, Watch]) -> None:
    sent, watch = known
    made = expecting(watch, {3: sent, 5: sent})
    made.add_reading(window({3: sent, 5: sent, 7: sent}, LEARNED, 6000), JOBS)
    assert made.is_regular("early")
    made.add_reading(window({3: sent, 5: sent}, 6000, 7000, local=True), JOBS)
    assert not made.is_regular("early")


def test_after_a_gap_nothing_is_expected(known: tuple[Ints, Watch]) -> None:
    sent, watch = known
    made = expecting(watch, {3: sent, 5: sent})
    made.add_reading(window({3: sent, 5: sent}, LEARNED + 1, 6000), JOBS)
    assert not made.is_regular("early")
    assert made.regular_until_ns("early") is None
    made.expect("early", watch)
    made.add_reading(window({3: sent, 5: sent}, 6000, 8000), JOBS)
    assert made.is_regular("early")


def test_who_is_gone_and_who_is_not_known_are_not_expected(known: tuple[Ints, Watch]) -> None:
    sent, watch = known
    made = expecting(watch, {3: sent, 5: sent})
    made.keep({"late"})
    assert (made.is_regular("early"), made.is_regular("late")) == (False, True)
    assert made.regular_until_ns("early") is None
    made.expect("late", None)
    assert not made.is_regular("late")
    made.expect("late", watching.begin(MS))
    assert not made.is_regular("late")


def test_of_who_sends_more_than_can_be_kept_nothing_is_expected(
    known: tuple[Ints, Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, watch = known
    often = np.full(len(sent), 2)
    made = expecting(watch, {3: sent, 5: often})
    monkeypatch.setattr(expectation, "MAX_CELLS", 50)
    made.add_reading(window({3: sent, 5: often}, LEARNED, LEARNED + 245), JOBS)
    assert (made.is_regular("early"), made.is_regular("late")) == (True, False)
    made.add_reading(window({3: sent, 5: often}, LEARNED + 245, 6000), JOBS)
    assert made.is_regular("early")
