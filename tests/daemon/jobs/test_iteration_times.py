"""Iteration times out of what the congestion control took for ends of iterations."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from prometheus_client import core

from hostcc.answers.status import JobStatus, Recent
from hostcc.config.sections.job import JobRequest
from hostcc.daemon.jobs.iteration_times import (
    INTERVALS_KEPT,
    MAX_START_UP_INTERVALS,
    Interval,
    Iteration,
    IterationTimes,
    recent,
)
from hostcc.daemon.jobs.sockets import Job
from hostcc.mltcp.params import JobParams, Mode
from tests.fakes import EVENT

pytestmark = pytest.mark.unit

SIZE, PERIOD_S = 4_000_000, 0.27
WHOLE = Interval(PERIOD_S, SIZE)
TWO = Interval(2 * PERIOD_S, 2 * SIZE)
ROW = JobStatus(
    name="a",
    mode="mltcp",
    variant="hostcc",
    congestion_control="hcc",
    weight=1.0,
    static_weight=None,
    processes=0,
    flows=1,
    bytes_acked=0,
    iterations=0,
    bytes_per_iteration=None,
    period_s=None,
    communication_s=None,
    stance="learning",
    direction="unknown",
    plain_reason=None,
    recent=Recent(0, 0, None, None),
    iterations_by_bytes=None,
)


def seen(*intervals: Interval) -> IterationTimes:
    """The history of job `a` after these."""
    history, jobs = IterationTimes(), {1: Job("a", 1, JobRequest())}
    ended = np.zeros(len(intervals), EVENT)
    ended["slot"] = 1
    ended["bytes"] = [int(size) for _, size in intervals]
    ended["period_ns"] = [round(period * 1e9) for period, _ in intervals]
    history.add(ended, jobs)
    return history


def fed(*intervals: Interval, measured: Iteration | None = None) -> JobStatus:
    """The status row of a job after these."""
    history = seen(*intervals)
    sent = sum(size for _, size in intervals)
    (row,) = history.annotate(
        [msgspec.structs.replace(ROW, bytes_acked=int(sent))], lambda _: measured
    )
    return row


def histogram(of: IterationTimes) -> dict[str, float]:
    """Samples of the exported histogram by name, buckets by their bounds."""
    (family,) = of.families(core)
    return {
        one.labels.get("le", one.name.removeprefix("hostcc_job_iteration_seconds_")): one.value
        for one in family.samples
        if one.labels["training_job"] == "a"
    }


def test_the_histogram_leaves_the_start_up_out_and_ends_with_the_job() -> None:
    history = seen(Interval(10.4, SIZE), WHOLE, WHOLE, *[WHOLE] * 20, TWO, TWO)
    found = histogram(history)
    assert found["count"] == found["+Inf"] == 24
    assert found["sum"] == pytest.approx(24 * PERIOD_S)
    assert found["0.2"] == 0
    history.add(np.zeros(0, EVENT), {})
    assert histogram(history) == {}


def test_start_up_is_no_iteration() -> None:
    """Ten seconds of imports and rendezvous, and the model's first exchange with what follows."""
    row = fed(Interval(0.01, SIZE), Interval(10.4, SIZE), *[WHOLE] * 60)
    assert row.recent.p99_period_s == pytest.approx(PERIOD_S)
    assert row.recent.iterations == 60


def test_missed_ends_are_no_long_iterations() -> None:
    """Of 128 iterations 54 pairs came as one; the figures say of how many they are."""
    several = [TWO, TWO, TWO, WHOLE] * 18
    known = Iteration(PERIOD_S, SIZE)
    late = fed(Interval(10.4, SIZE), *several, measured=known).recent.p99_period_s
    assert late is not None
    assert late < 1
    row = fed(*several, measured=known)
    assert row.recent.p99_period_s == pytest.approx(PERIOD_S)
    assert (row.recent.iterations, row.recent.left_out) == (18, 51)  # after the first
    assert row.recent.mean_period_s == pytest.approx(PERIOD_S)
    assert row.iterations_by_bytes == 126


def test_without_the_meter_the_usual_bytes_are_the_measure() -> None:
    row = fed(*[WHOLE, WHOLE, TWO] * 10)
    assert (row.recent.iterations, row.recent.left_out) == (20, 10)
    assert row.recent.p99_period_s == pytest.approx(PERIOD_S)
    assert row.recent.mean_period_s == pytest.approx(PERIOD_S)
    assert row.iterations_by_bytes is None


def test_a_slow_iteration_is_one() -> None:
    """A checkpoint or a straggler moves the bytes of an iteration, and is what a tail is for."""
    row = fed(*[WHOLE] * 20, Interval(3.0, SIZE), *[WHOLE] * 20)
    assert row.recent.p99_period_s == pytest.approx(3.0)
    assert row.recent.left_out == 0


def test_pieces_of_a_start_up_do_not_end_it() -> None:
    """Small intervals that are alike, as where a burst was taken for several."""
    pieces = [Interval(0.008, SIZE // 10)] * 5
    row = fed(*pieces, Interval(0.06, SIZE), Interval(3.0, SIZE), *[WHOLE] * 20)
    assert row.recent.p99_period_s == pytest.approx(PERIOD_S)
    assert (row.recent.iterations, row.recent.left_out) == (20, 0)


def test_a_job_that_repeats_nothing_is_shown_in_the_end() -> None:
    odd = [Interval(0.1 * 3**n, SIZE) for n in range(MAX_START_UP_INTERVALS)]
    assert fed(*odd[:-1]).recent == Recent(0, 0, None, None)
    assert fed(*odd).recent.iterations == MAX_START_UP_INTERVALS


def test_bounded_and_of_late() -> None:
    row = fed(*[WHOLE] * INTERVALS_KEPT, *[Interval(0.3, SIZE)] * INTERVALS_KEPT)
    assert row.recent.iterations == INTERVALS_KEPT
    assert row.recent.mean_period_s == pytest.approx(0.3)


def test_nothing_is_known() -> None:
    assert recent(()) == Recent(0, 0, None, None)
    assert recent([WHOLE] * 2, Iteration(0.3, None)) == Recent(2, 0, 0.3, PERIOD_S)
    assert recent([TWO] * MAX_START_UP_INTERVALS, Iteration(PERIOD_S, SIZE)) == Recent(
        0, MAX_START_UP_INTERVALS, PERIOD_S, None
    )


def test_intervals_that_began_in_another_mode_do_not_count() -> None:
    """In mode off nobody sees ends: the first one after it would end an interval of minutes."""
    history, jobs = IterationTimes(), {1: Job("a", 1, JobRequest())}

    def ended(*periods_s: float) -> None:
        events = np.zeros(len(periods_s), EVENT)
        events["slot"], events["bytes"] = 1, SIZE
        events["period_ns"] = [round(period_s * 1e9) for period_s in periods_s]
        history.add(events, jobs)

    for mode, periods_s in (
        (Mode.MLTCP, [PERIOD_S] * 4), (Mode.OFF, []), (Mode.MLTCP, [60.0, 0.3, 0.3, 0.3]),
    ):  # fmt: skip
        jobs[1].params = JobParams("a", mode=mode)
        ended(*periods_s)
    (row,) = history.annotate([ROW], lambda _: None)
    assert (row.recent.iterations, row.recent.left_out) == (3, 0)
    assert row.recent.mean_period_s == pytest.approx(0.3)
    assert histogram(history)["sum"] < 1


def test_a_job_that_ends_in_mode_off_leaves_no_histogram() -> None:
    """Its intervals were forgotten with the mode that they were of, its histogram goes on."""
    history, jobs = seen(*[WHOLE] * 20), {1: Job("a", 1, JobRequest())}
    nothing = np.zeros(0, EVENT)
    for mode in (Mode.MLTCP, Mode.OFF):
        jobs[1].params = JobParams("a", mode=mode)
        history.add(nothing, jobs)
    assert histogram(history)["count"] == 17
    history.add(nothing, {})
    assert histogram(history) == {}
    assert history.totals("a") == (0, 0.0)
