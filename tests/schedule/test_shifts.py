"""Time-shifts of running jobs: given where they help, and then they do."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from hostcc.model import ClusterView, JobProfile
from hostcc.schedule.intensity import crossings
from hostcc.schedule.problem import build
from hostcc.schedule.shifts import MAX_PART_JOBS, Shifts, shifts
from hostcc.sim.cluster_simulation import constant, simulate
from hostcc.sim.periodic import SimFlow, SimJob
from tests.schedule.paths import problems
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit


def of(view: ClusterView) -> Shifts:
    problem = build(view)
    return shifts(problem, crossings(problem, problem.table_start[problem.flow_table]))


def pair(phase: float, measured: float = 1.0, **more: float) -> list[JobProfile]:
    """Two jobs that compute 0.6 s and send for 0.4 s, the second `phase` seconds later."""
    one = {"compute": 0.6, "period_s": measured, **more}
    return [job("a", phase_s=0.0, **one), job("b", phase_s=phase, **one)]


def iterations(profiles: list[JobProfile], comm: float, found: Shifts) -> list[int]:
    """In 100 s, without any priorities."""
    jobs = [
        SimJob(
            one.compute_s,
            one.comm_start_s,
            (SimFlow(comm, (0,)),),
            (one.phase_s or 0.0) + shift,
        )
        for one, shift in zip(profiles, found.seconds.tolist(), strict=True)
    ]
    return simulate(jobs, [1.0], constant([0] * len(jobs)), 0.0, 100.0).iterations


@pytest.mark.parametrize("phase", [0.0, 0.1, 0.3, 0.9])
def test_bursts_that_collide_are_moved_apart(phase: float) -> None:
    profiles = pair(phase)
    found = of(one_link(profiles, [0.4, 0.4]))
    assert found.seconds[0] == 0
    assert 0.39 <= (phase + found.seconds[1]) % 1.0 <= 0.61
    assert found.reason[1].startswith("interleaved")
    assert min(iterations(profiles, 0.4, found)) >= 98


def test_the_place_within_a_slowed_iteration_is_kept() -> None:
    # In step, each at half the rate: 1.4 s; on their own 1.0 s.
    found = of(one_link(pair(0.0, measured=1.4), [0.4, 0.4]))
    assert 0.39 <= found.seconds[1] <= 0.61


def test_what_fits_already_stays() -> None:
    found = of(one_link(pair(0.5), [0.4, 0.4]))
    assert found.seconds.tolist() == [0, 0]
    assert "interleaved already" in found.reason[0]


@pytest.mark.parametrize("known", [(), (0,), (1,)])
def test_nobody_is_told_to_wait_where_it_is_not_known_when_iterations_begin(
    known: tuple[int, ...],
) -> None:
    """As in the view that hosts agree on: they may be interleaved already."""
    profiles = [
        one if number in known else dataclasses.replace(one, phase_s=None)
        for number, one in enumerate(pair(0.3))
    ]
    found = of(one_link(profiles, [0.4, 0.4]))
    assert found.seconds.tolist() == [0, 0]
    assert not any(words.startswith("interleaved") for words in found.reason)
    assert "not known" in found.reason[0]
    later = re.search(r"begin ([0-9.]+) s after those of a; ", found.reason[1])
    assert later is not None
    # What is said of the two together is true: so far apart they do not meet.
    started = [dataclasses.replace(one, phase_s=0.0) for one in profiles]
    apart = Shifts(np.array([0.0, float(later[1])]), ("", ""))
    assert min(iterations(started, 0.4, apart)) >= 98


@pytest.mark.parametrize(
    ("profiles", "size", "words"),
    [
        (pair(0.0, measured=0.0), 0.4, "iteration time of a is unknown"),
        (pair(0.0, confidence=0.1), 0.4, "a was not measured long enough"),
        (pair(0.0), 0.9, "at best"),
        (
            [
                job(f"j{n}", compute=0.6, period_s=0.7, phase_s=0.0)
                for n in range(MAX_PART_JOBS + 1)
            ],
            0.1,
            "more than 8 jobs",
        ),
        (
            [job("a", compute=0.01, period_s=0.02), job("b", compute=1.0, period_s=1.01)],
            0.01,
            "no short common multiple",
        ),
    ],
)
def test_no_shift_and_why(profiles: list[JobProfile], size: float, words: str) -> None:
    found = of(one_link(profiles, [size] * len(profiles)))
    assert not found.seconds.any()
    assert words in found.reason[0]


def test_jobs_that_never_want_more_than_there_is() -> None:
    view = one_link(pair(0.0), [0.4, 0.4])
    other = dataclasses.replace(view.flows[0], id="g", src="c", dst="d")
    table = dataclasses.replace(view.tables[0], src="c", dst="d")
    table = dataclasses.replace(table, paths=(dataclasses.replace(table.paths[0], links=("far",)),))
    # Both send over a slower link of their own, so together they fill half of the shared one.
    found = of(
        dataclasses.replace(
            view,
            links=(("link", 4.0), ("far", 1.0)),
            flows=(*view.flows, other),
            tables=(*view.tables, table),
        )
    )
    assert found.seconds.tolist() == [0, 0] or found.reason[1] == ""


def test_a_loop_is_solved_as_one_link() -> None:
    # Each two of three jobs meet on a link of their own.
    ends = [((0, 1), (0, 2)), ((0, 1), (2, 1)), ((0, 2), (2, 1))]
    sizes = (0.1, 0.1, 0.2)
    jobs = [
        {"compute": 0.8, "flows": [(*one, size, "s0") for one in pairs]}
        for pairs, size in zip(ends, sizes, strict=True)
    ]
    view = problems.view(jobs, spines=1)
    profiles = tuple(dataclasses.replace(one, period_s=1.0, phase_s=0.0) for one in view.jobs)
    problem = build(dataclasses.replace(view, jobs=profiles))
    found = shifts(problem, crossings(problem, problem.table_start[problem.flow_table]))
    assert len(set(np.round(found.seconds, 2).tolist())) == 3
    assert all(reason.startswith("interleaved") for reason in found.reason)


def test_nobody() -> None:
    assert of(ClusterView()).reason == ()
