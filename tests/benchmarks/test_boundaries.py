"""Boundaries held against what a job did: the verdicts, and one small run from end to end."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from benchmarks import boundaries
from benchmarks.boundary_judge import SeenBoundaries, compared, first_sends, told
from benchmarks.boundary_watch import SeenStarts
from hostcc.lab import scenario
from hostcc.lab.launch import Iteration
from hostcc.measure.series import ByteSeries

STEPS = [Iteration(n, 0.2, 0.2 * n, 0.2 * n + 0.2) for n in range(10)]
"""Ten iterations of 200 ms: 100 of computing, of which a header comes after 80, then a burst."""
FIRST_S, BURST_S = 0.08, 0.1
RUNS = 12
"""On a machine that is busy with something else iterations are not alike."""


def sent() -> ByteSeries:
    one = np.zeros(200, np.int64)
    one[:10] = 5000  # the end of the last one's
    one[80] = 48
    one[100:] = 5000
    tx = np.tile(one, 10)
    return ByteSeries(1_000_000, 0, tx, np.zeros_like(tx))


@pytest.mark.unit
def test_a_job_begins_to_send_after_its_longest_silence() -> None:
    found = first_sends(sent(), STEPS)
    starts = np.array([step.start for step in STEPS])
    assert np.allclose(found[:, 0] - starts, FIRST_S)
    assert np.allclose(found[:, 1] - starts, BURST_S)
    silent = ByteSeries(1_000_000, 0, np.zeros(2000, np.int64), np.zeros(2000, np.int64))
    assert np.isnan(first_sends(silent, STEPS)).all()


@pytest.mark.unit
def test_right_is_once_an_iteration_at_its_first_bytes() -> None:
    sends, begins = first_sends(sent(), STEPS), [step.start for step in STEPS]

    def judged(*at_s: float) -> SeenBoundaries:
        return compared("h", sorted(b + a for b in begins for a in at_s), STEPS, sends)

    for good in (FIRST_S, BURST_S, FIRST_S - 0.009, BURST_S + 0.009):
        assert (judged(good).seen, judged(good).invented) == (10, 0)
    for bad in (FIRST_S - 0.011, BURST_S + 0.011):
        assert (judged(bad).seen, judged(bad).invented) == (0, 10)
    twice = judged(FIRST_S, BURST_S)
    assert (twice.seen, twice.invented, twice.seen_percent) == (10, 10, 100)
    assert compared("h", [], STEPS, sends).seen == 0
    outside = compared("h", [-1.0, 5.0], STEPS, sends)
    assert (outside.invented, outside.late_ms) == (0, None)


@pytest.mark.unit
def test_status_is_compared_with_the_iterations_between_two_looks() -> None:
    recent = {"mean_period_s": 0.22, "p99_period_s": None}
    found = told(
        0.3, {"iterations": 7, "recent": recent}, 1.5, {"iterations": 12, "recent": recent}, STEPS
    )
    assert found.iterations == pytest.approx(5 / 6)
    assert found.mean == pytest.approx(1.1)
    assert found.p99 is None


@pytest.mark.unit
def test_a_start_that_is_corrected_counts_once_and_a_missed_look_is_made_up() -> None:
    seen = SeenStarts()
    for count, start, period in ((0, 0, 0), (0, 5, 0), (0, 7, 0), (1, 20, 13), (3, 60, 19)):
        seen.add({"iterations": count, "iteration_start_ns": start, "period_ns": period})
    assert seen.starts_ns == {0: 7, 1: 20, 2: 41, 3: 60}
    assert seen.ends == 3


def is_right(seen: SeenBoundaries) -> bool:
    return (seen.seen, seen.invented) == (seen.iterations, 0)


@pytest.mark.kernel
def test_a_job_alone() -> None:
    wanted = scenario.load(scenario.find("two-jobs"))
    alone = msgspec.structs.replace(wanted, job=wanted.job[:1])
    found: list[SeenBoundaries] = []
    while len(found) < RUNS and not (found and is_right(found[-1])):
        (rest,) = boundaries.measure(alone, "hostcc", 10, 10, 1 + len(found)).rest
        found.append(rest)
    assert is_right(found[-1]), found
