"""All jobs' iterations beside what is expected of them, at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.synthetic import Dirt, Shape, job
from hostcc.measure import pattern_watch as watching
from hostcc.measure.cells import cells
from hostcc.measure.expectation import DEVIATED, Expectation, Outcome, compared, expected
from hostcc.measure.pattern_watch import Watch
from hostcc.measure.series import NS, ByteSeries, Floats, Ints, part, series

pytestmark = [pytest.mark.unit, pytest.mark.slow]

ONE = Shape(0.2, np.array([0.95]), np.array([0.05]), np.array([1.0]))
TWO = Shape(0.31, np.array([0.3, 0.63]), np.array([0.02, 0.05]), np.array([1.0, 0.5]))
LEARNED = 4000
ITERATIONS = 40


def made(shape: Shape, seed: int, then: Shape | None = None) -> ByteSeries:
    rng = np.random.default_rng([seed, 11])
    dirt = Dirt(jitter=0.004)
    at = int(LEARNED * 0.001 / shape.period_s) + 4
    return job(shape, dirt, rng, iterations=ITERATIONS, bin_s=0.001, then=then, change_at=at).series


def learned(of: ByteSeries) -> Watch:
    watch = watching.begin(of.bin_ns, of.start_ns)
    for at in range(0, LEARNED, 200):
        watch = watching.update(watch, part(of, at, at + 200))
    assert watch.known is not None
    return watch


def counted(of: ByteSeries, since_ns: float) -> tuple[Floats, Floats]:
    """When anything was sent from a moment on, nanoseconds, and how much."""
    full = cells(of)
    at_ns = of.start_ns + (full.at.astype(np.float64) + 0.5) * of.bin_ns
    late = at_ns >= since_ns
    return at_ns[late], (full.sent + full.received)[late].astype(np.float64)


def beside(of: list[ByteSeries], watches: list[Watch], until_ns: float) -> Outcome:
    """`compared` of some jobs with all that they did until then."""
    rows = [expected(watch, watch.next_ns) for watch in watches]
    assert all(row is not None for row in rows)
    known = Expectation(*np.array(rows).T)
    parts = [counted(one, watch.next_ns) for one, watch in zip(of, watches, strict=True)]
    job_of: Ints = np.repeat(np.arange(len(of)), [len(at_ns) for at_ns, _ in parts])
    at_ns = np.concatenate([at_ns for at_ns, _ in parts])
    sent = np.concatenate([sent for _, sent in parts])
    before = at_ns < until_ns
    return compared(known, job_of[before], at_ns[before], sent[before], until_ns)


@pytest.mark.parametrize("shape", [ONE, TWO])
@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_goes_on_is_followed_to_its_end(shape: Shape, seed: int) -> None:
    of = made(shape, seed)
    watch = learned(of)
    found = beside([of], [watch], of.end_ns)
    (next_ns,) = found.next_ns
    assert found.deviates.tolist() == [False]
    assert found.regular_until_ns.tolist() == [next_ns]
    period_ns = shape.period_s * NS
    assert of.end_ns - 1.2 * period_ns < next_ns <= of.end_ns + 0.1 * period_ns
    # It is where the same job's iterations begin when they are looked at closely.
    after = watching.update(watch, part(of, LEARNED))
    assert after.changes == 0
    apart = (next_ns - after.next_ns) / period_ns
    assert apart == pytest.approx(round(apart), abs=0.06)


@pytest.mark.parametrize(
    "then",
    [
        Shape(0.26, np.array([0.96]), np.array([0.04]), np.array([1.0])),
        Shape(0.2, np.array([0.9]), np.array([0.1]), np.array([1.0])),
        Shape(0.2, np.array([0.45, 0.95]), np.array([0.025, 0.025]), np.array([1.0, 1.0])),
        Shape(0.2, np.array([0.95]), np.array([0.05]), np.array([0.0])),
    ],
    ids=["longer", "more", "another shape", "nothing"],
)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_done_otherwise_is_seen_in_three_iterations(then: Shape, seed: int) -> None:
    same, of = made(ONE, seed), made(ONE, seed, then)
    change_ns = of.start_ns + (int(LEARNED / 200) + 4) * 200_000_000
    watches = [learned(same), learned(of)]
    before = beside([same, of], watches, change_ns - 100_000_000)
    assert before.deviates.tolist() == [False, False]
    until_ns = change_ns + 3.5 * then.period_s * NS
    after = beside([same, of], watches, until_ns)
    assert after.deviates.tolist() == [False, True]
    # Until the change it went on; the iteration that it is in may be taken for either.
    assert after.regular_until_ns[1] == pytest.approx(change_ns, abs=0.3 * NS)
    assert after.regular_until_ns[0] > change_ns


@pytest.mark.parametrize("seed", range(3))
def test_jobs_have_nothing_to_do_with_each_other(seed: int) -> None:
    of = [made(ONE, seed), made(TWO, seed), made(ONE, seed + 1, TWO), made(ONE, seed + 2)]
    watches = [learned(one) for one in of]
    until_ns = min(one.end_ns for one in of)
    together = beside(of, watches, until_ns)
    alone = [beside([one], [watch], until_ns) for one, watch in zip(of, watches, strict=True)]
    assert together.next_ns.tolist() == [found.next_ns[0] for found in alone]
    assert together.regular_until_ns.tolist() == [found.regular_until_ns[0] for found in alone]
    assert together.deviates.tolist() == [found.deviates[0] for found in alone]
    assert together.deviates.tolist() == [False, False, True, False]


def test_an_iteration_that_is_not_complete_says_nothing() -> None:
    of = made(ONE, 1)
    watch = learned(of)
    found = beside([of], [watch], watch.next_ns + 0.99 * 0.2 * NS)
    assert found.next_ns.tolist() == found.regular_until_ns.tolist() == [watch.next_ns]
    assert found.deviates.tolist() == [False]


def test_what_came_before_is_left_out() -> None:
    watch = learned(made(ONE, 1))
    assert watch.known is not None
    row = expected(watch, watch.next_ns + 450_000_000)
    assert row is not None
    assert row[0] == pytest.approx(watch.next_ns + 3 * row[1])
    assert row[1] == pytest.approx(0.2 * NS, rel=0.01)
    assert row[-1] == watch.next_ns


def test_nothing_is_expected_of_a_job_whose_pattern_is_not_known() -> None:
    watch = watching.begin(1_000_000)
    assert expected(watch, 0) is None
    watch = watching.update(watch, series(np.ones(50), None, 1_000_000))
    assert expected(watch, 0) is None


def bursts(sizes: list[float]) -> tuple[Floats, Floats]:
    """One a second from half a second on: when, nanoseconds, and how much."""
    return (np.arange(len(sizes), dtype=np.float64) + 0.5) * NS, np.array(sizes, np.float64)


def of_bursts(doubt: float = 0.0) -> Expectation:
    regular_until_ns = -float(NS) if doubt else 0.0
    one = [0.0, float(NS), 0.5 * NS, 0.0, 100.0, 0.05 * NS, 0.1, doubt, regular_until_ns]
    return Expectation(*np.array([one]).T)


@pytest.mark.parametrize(
    ("sizes", "doubt", "then", "other", "sure"),
    [
        ([100, 100, 100], 0.0, 0.0, False, 3),
        ([100, 50, 100], 0.0, 0.0, False, 3),
        ([100, 100, 50], 0.0, DEVIATED, False, 2),
        ([50], 0.0, DEVIATED, False, 0),
        ([100, 50, 50], 0.0, DEVIATED, True, 1),
        ([100, 50, 50, 100, 50, 50], 0.0, DEVIATED, True, 1),
        ([50, 50, 100], 0.0, 0.0, True, 0),
        ([50, 100, 100], DEVIATED, 0.0, True, -1),
        ([150, 100, 100], DEVIATED, 0.0, True, -1),
        ([100, 50, 100], DEVIATED, 0.0, False, 3),
        ([100, 0, 0, 100], 0.0, 0.0, True, 1),
        ([], 0.0, 0.0, False, 0),
        ([], DEVIATED, DEVIATED, False, -1),
        # Only more: not the same, which segments that are sent again are, ...
        ([100, 100, 120], 0.0, 1.2, False, 2),
        ([100, 150, 120], 0.0, DEVIATED, False, 1),
        ([120], 1.5, DEVIATED, False, -1),
        ([100, 150, 120, 100], 0.0, 0.0, False, 4),
        # ... or the same, or three, or beside one that is less.
        ([100, 125, 120], 0.0, DEVIATED, True, 1),
        ([120], 1.25, DEVIATED, True, -1),
        ([100, 150, 120, 150, 100], 0.0, 0.0, True, 1),
        ([120, 150, 100], 1.5, 0.0, True, -1),
        ([100, 150, 50, 100], 0.0, 0.0, True, 1),
        ([100, 50, 150, 100], 0.0, 0.0, True, 1),
    ],
)
def test_two_or_three_in_a_row_are_something_else(
    sizes: list[float], doubt: float, then: float, other: bool, sure: int
) -> None:
    at_ns, sent = bursts(sizes)
    job = np.zeros(len(sizes), np.int64)
    found = compared(of_bursts(doubt), job, at_ns, sent, len(sizes) * NS)
    assert (found.doubt.tolist(), found.deviates.tolist()) == ([then], [other])
    assert found.next_ns.tolist() == [len(sizes) * NS]
    assert found.regular_until_ns.tolist() == [sure * NS]


REGULAR_UNTIL = [1.0, 2.0, 2.0, 4.2, 5.2, 6.2]
"""Until when the job below surely went on, after each of its iterations."""


@pytest.mark.parametrize("step", [1, 2, 6])
def test_a_late_iteration_moves_those_after_it(step: int) -> None:
    at_ns, sent = bursts([100.0] * 6)
    at_ns[2:] += 0.2 * NS
    known, found = of_bursts(), False
    for until in range(step, 7, step):
        now = compared(known, np.zeros(6, np.int64), at_ns, sent, until * NS + 0.3 * NS)
        known = replace(
            known, next_ns=now.next_ns, doubt=now.doubt, regular_until_ns=now.regular_until_ns
        )
        found = found or bool(now.deviates[0])
        if step == 1:
            assert known.regular_until_ns.tolist() == [pytest.approx(REGULAR_UNTIL[until - 1] * NS)]
    assert not found
    assert known.next_ns.tolist() == known.regular_until_ns.tolist() == [pytest.approx(6.2 * NS)]


def test_the_next_ones_are_expected_where_the_last_one_was() -> None:
    at_ns, sent = bursts([100, 100])
    found = compared(of_bursts(), np.zeros(2, np.int64), at_ns + 0.04 * NS, sent, 2 * NS)
    assert found.next_ns.tolist() == found.regular_until_ns.tolist() == [pytest.approx(2.04 * NS)]
    assert not found.deviates.any()
