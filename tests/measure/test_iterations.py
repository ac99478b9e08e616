"""New iterations beside those that were learned."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.synthetic import Dirt, Shape, job
from hostcc.measure.iterations import (
    Iteration,
    Reference,
    changed_from,
    completed,
    deviating_run,
    first_suspect,
    reference,
)
from hostcc.measure.period import detect
from hostcc.measure.series import ByteSeries, joined, part, series
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit

LEARNED = regular(100, 14)
ONE = Shape(0.2, np.array([0.95]), np.array([0.05]), np.array([1.0]))
TWO = Shape(0.2, np.array([0.3, 0.63]), np.array([0.02, 0.05]), np.array([1.0, 0.5]))


def after(more: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Iteration]:
    """The iterations that are found in what comes after the learned ones."""
    found = detect(LEARNED)
    known = reference(LEARNED, found)
    assert known is not None
    assert found.starts is not None
    whole = joined(LEARNED, series(more // 2, more // 2, MS, LEARNED.end_ns))
    return completed(whole, float(found.starts[-1]), known)


def pieces(
    *lengths: int, burst: int = 40, high: int = 1000
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate([np.where(np.arange(n) >= n - burst, high, 0) for n in lengths])


def test_the_same_again() -> None:
    found = after(pieces(*[100] * 6))
    assert len(found) >= 5
    for one in found:
        assert not one.deviates
        assert one.length == pytest.approx(1, abs=0.02)
        assert one.sent == pytest.approx(1, abs=0.01)


def test_a_late_one_and_a_bigger_one() -> None:
    late = after(pieces(100, 160, 100, 100))
    assert [one.by_length for one in late[1:4]] == [False, True, False]
    assert late[2].length == pytest.approx(1.6, abs=0.03)
    assert not any(one.by_bytes for one in late)
    bigger = after(np.concatenate((pieces(100), pieces(100, high=1300), pieces(100, 100))))
    assert [one.by_bytes for one in bigger[2:5]] == [False, True, False]
    assert bigger[3].sent == pytest.approx(1.3, abs=0.02)


def test_silence_loses_the_thread() -> None:
    found = after(np.zeros(700, dtype=np.int64))
    assert len(found) >= 4
    assert all(one.lost and one.deviates for one in found[1:])


def test_nothing_is_said_before_it_can_be_seen() -> None:
    found = detect(LEARNED)
    known = reference(LEARNED, found)
    assert known is not None
    assert found.starts is not None
    assert completed(part(LEARNED, 0, int(found.starts[-1]) + 20), found.starts[-1], known) == []
    assert reference(LEARNED, detect(part(LEARNED, 0, 120))) is None


def follow(*ends: int, burst: int = 40, past: int = 20) -> bool:
    """Whether iterations of such lengths, after many of 100 bins, are called a change."""
    learned = regular(100, past)
    found = detect(learned)
    known = reference(learned, found)
    assert known is not None
    assert found.starts is not None
    more = pieces(*ends, burst=burst)
    whole = joined(learned, series(more // 2, more // 2, MS, learned.end_ns))
    first = first_suspect(completed(whole, float(found.starts[-1]), known))
    return first is not None and changed_from(whole, first.start, float(len(whole)), known)


@pytest.mark.parametrize("ends", [(150,) * 4, (70,) * 5, (120,) * 4, (200,) * 4])
def test_another_length_is_a_change(ends: tuple[int, ...]) -> None:
    assert follow(*ends)
    assert not follow(*ends, past=6), "hardly anything is known yet"


def test_another_amount_is_a_change() -> None:
    assert follow(*[100] * 4, burst=60)
    assert follow(*[100] * 4, burst=20)


@pytest.mark.parametrize("ends", [(100, 180, 100, 100), (100, 100, 100), (100, 190, 150, 100, 100)])
def test_stragglers_are_no_change(ends: tuple[int, ...]) -> None:
    assert not follow(*ends)


def test_what_was_so_before_is_hardly_ever_a_change() -> None:
    """Iterations that are late time and again, followed by some of the same."""
    rng = np.random.default_rng(7)
    asked = called = 0
    for _ in range(100):
        lengths = rng.choice([100, 100, 100, 150, 210], int(rng.integers(24, 40))).tolist()
        learned = series(pieces(*lengths), None, MS)
        found = detect(learned)
        known = reference(learned, found) if found.periodic else None
        if known is None:
            continue
        whole = joined(learned, series(pieces(*lengths[-6:]), None, MS, learned.end_ns))
        assert found.starts is not None
        first = first_suspect(completed(whole, float(found.starts[-1]), known))
        if first is not None:
            asked += 1
            called += changed_from(whole, first.start, float(len(whole)), known)
    assert asked > 40
    assert called <= asked / 20


def test_the_first_that_deviates_is_suspected() -> None:
    usual, odd = Iteration(0.0, 1.0, 1.0), Iteration(1.0, 1.3, 1.0, by_length=True)
    later = Iteration(2.0, 1.3, 1.0, by_length=True)
    assert first_suspect([]) is None
    assert first_suspect([usual, usual]) is None
    assert first_suspect([usual, odd, later]) is odd
    assert first_suspect([odd, later, usual]) is odd
    assert first_suspect([odd, usual, usual]) is None
    assert list(deviating_run([odd, later, usual])) == []


def test_a_job_that_sends_nothing_any_more_has_changed() -> None:
    found = detect(LEARNED)
    known = reference(LEARNED, found)
    assert known is not None
    for silent, ceased in ((550, False), (700, True)):
        nothing = np.zeros(silent, dtype=np.int64)
        whole = joined(LEARNED, series(nothing, nothing, MS, LEARNED.end_ns))
        end = float(len(whole))
        assert changed_from(whole, float(len(LEARNED)), end, known) == ceased


def test_silence_tells_computing_where_others_send() -> None:
    """A burst at half the rate takes longer; the silence before it does not."""
    found = detect(LEARNED)
    known = reference(LEARNED, found)
    assert known is not None
    assert known.silent == pytest.approx(0.6, abs=0.02)
    slow = np.where(np.arange(140) >= 60, 500, 0)
    late = after(np.concatenate((pieces(100), slow, pieces(100, 100))))
    one = next(one for one in late if one.length > 1.2)
    assert one.length == pytest.approx(1.4, abs=0.05)
    assert one.silent == pytest.approx(0.6, abs=0.03)
    assert one.sent == pytest.approx(1.0, abs=0.02)


def learned(of: ByteSeries) -> tuple[float, Reference]:
    """Where what comes after a series begins, in bins, and what it has to resemble."""
    found = detect(of)
    known = reference(of, found)
    assert known is not None
    assert found.starts is not None
    return float(found.starts[-1]), known


def test_all_of_many_iterations_are_found_at_once() -> None:
    of = regular(100, 60)
    start, known = learned(part(of, 0, 2000))
    found = completed(of, start, known)
    assert 60 - 20 - 1 <= len(found) <= 60 - 20 + 1
    assert not any(one.deviates for one in found)
    assert [one.start for one in found] == pytest.approx(
        [start + 100 * number for number in range(len(found))], abs=2
    )


def bursty(shape: Shape, seed: int, then: Shape | None = None) -> ByteSeries:
    """Forty iterations, the last ten of another shape if one is given."""
    rng = np.random.default_rng([seed, 7])
    dirt = Dirt(jitter=0.005)
    return job(shape, dirt, rng, iterations=40, bin_s=0.001, then=then, change_at=30).series


@pytest.mark.parametrize("shape", [ONE, TWO])
@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_is_mostly_silent_is_followed(shape: Shape, seed: int) -> None:
    of = bursty(shape, seed)
    found = completed(of, *learned(part(of, 0, 3000)))
    assert len(found) >= 20
    assert sum(one.deviates for one in found) <= 3


@pytest.mark.parametrize(
    "then",
    [
        Shape(0.25, np.array([0.96]), np.array([0.04]), np.array([1.0])),
        Shape(0.2, np.array([0.9]), np.array([0.1]), np.array([1.0])),
        Shape(0.2, np.array([0.45, 0.5]), np.array([0.025, 0.025]), np.array([1.0, 1.0])),
    ],
    ids=["longer", "more", "another shape"],
)
@pytest.mark.parametrize("seed", range(4))
def test_iterations_deviate_from_a_change_on(then: Shape, seed: int) -> None:
    of = bursty(ONE, seed, then)
    start, known = learned(part(of, 0, 3000))
    found = completed(of, start, known)
    changed_at = start + round((30 * 200 - start) / 200) * 200
    until = [one for one in found if one.start + one.length * known.period <= changed_at + 100]
    assert len(until) >= 13
    assert sum(one.deviates for one in until) <= 1
    assert sum(one.deviates for one in found) >= 4


def test_iterations_are_missed_once_a_job_falls_silent() -> None:
    nothing = np.zeros(5000, np.int64)
    for of in (regular(100, 40), bursty(ONE, 0)):
        start, known = learned(part(of, 0, len(of) // 2))
        whole = joined(of, series(nothing, nothing, MS, of.end_ns))
        usual = [one for one in completed(whole, start, known) if not one.deviates]
        assert 15 <= len(usual) <= 21
        assert usual[-1].start < len(of)
        silent = series(nothing, nothing, MS, 0)
        assert all(one.deviates for one in completed(silent, 0.0, known))
