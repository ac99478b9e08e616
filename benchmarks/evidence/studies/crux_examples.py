"""Crux's worked examples: correction by iteration length and overlap, and levels of its figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.evidence.document import Evidence, Kind, Line, Request, Study, within
from hostcc.schedule import compression, kcut
from hostcc.schedule.contention_graph import ContentionGraph
from hostcc.schedule.correction import correction
from hostcc.sim.cluster_simulation import constant
from hostcc.sim.flowsim.run import Outcome, simulate
from hostcc.sim.flowsim.workload import Fabric, pack
from hostcc.sim.periodic import SimFlow, SimJob

SECONDS = 12.0
EXACT = 1e-9
Contended = tuple[int, int, tuple[tuple[int, int, float], ...]]
"""Jobs, levels, (job above, job below, intensity of the one above)."""
FIRST = ((2.0, 2.0, 2.0), (1.0, 1.0, 1.0))
SECOND = ((4.0, 2.0, 1.0), (2.0, 1.0, 3.0))
"""(Computation, computation before communication, communication alone) of each job, seconds."""
FIG_13: Contended = (4, 2, ((0, 1, 4.0), (2, 3, 2.0)))
FIG_14: Contended = (5, 3, ((0, 1, 5.0), (0, 4, 5.0), (0, 3, 5.0), (1, 2, 4.0), (4, 3, 2.0)))
"""Its edges are not published: these are chosen so that its levels are the only best ones."""


def played(jobs: Sequence[tuple[float, float, float]], first: int) -> Outcome:
    """Simulate two jobs on one link, both ready to communicate at 0; `first` has the level 0."""
    made = [
        SimJob(compute, start, (SimFlow(alone, (0,)),), start=-start)
        for compute, start, alone in jobs
    ]
    levels = [int(index != first) for index in range(len(jobs))]
    return simulate(Fabric.of([1.0]), pack(made), SECONDS, constant(levels))


def graph(jobs: int, edges: Sequence[tuple[int, int, float]]) -> ContentionGraph:
    """Return a contention graph."""
    table = np.array(edges)
    ends = table[:, :2].astype(np.int64)
    return ContentionGraph.of(jobs, ends[:, 0], ends[:, 1], table[:, 2])


def run(request: Request) -> Evidence:  # noqa: ARG001
    """Simulate the examples, and cut the figures' graphs."""
    return Evidence(
        lines=(*_example_1(), *_example_2(), *_figures()),
        missing=(
            "the edges of Figure 14: some that give its levels stand for them, so it is fitted",
        ),
        notes=(
            "Example 2 is a start-up effect: in steady state both orders are equal",
            "computing first instead of being ready to communicate at 0 gives other numbers",
        ),
    )


def _exact(setting: str, figure: str, published: float, here: float) -> Line:
    return within(setting, figure, published, here, tolerance=EXACT)


def _utilisation(setting: str, published: float, here: float) -> Line:
    met = round(here, 3) == published
    return Line(
        setting=setting,
        figure="utilisation",
        published=published,
        here=here,
        bar="the three digits that are given",
        met=met,
    )


def _example_1() -> list[Line]:
    lines = []
    orders = (
        (0, 0.375, (6.0, 9.0), (6.0, 3.0)),
        (1, 0.417, (8.0, 6.0), (4.0, 6.0)),
    )
    for first, share, idle, network in orders:
        found = played(FIRST, first)
        where = f"Example 1, job {first + 1} first"
        used = float(found.compute_seconds.sum() / (len(FIRST) * SECONDS))
        lines.append(_utilisation(where, share, used))
        for job in (0, 1):
            unused = SECONDS - float(found.compute_seconds[job])
            lines.append(_exact(where, f"GPUs of job {job + 1} idle, s", idle[job], unused))
            sent = float(found.sent[job])
            lines.append(_exact(where, f"network time of job {job + 1}, s", network[job], sent))
    table = np.array(FIRST)
    k = correction(table[:, 0], table[:, 1], table[:, 2], 0, SECONDS)
    return [*lines, _exact("Example 1", "k of job 2", 1.5, float(k[1]))]


def _example_2() -> list[Line]:
    return [
        _exact(
            f"Example 2, job {first + 1} first",
            "GPUs of job 2 idle, s",
            idle,
            SECONDS - float(played(SECOND, first).compute_seconds[1]),
        )
        for first, idle in ((0, 7.0), (1, 6.0))
    ]


def _figures() -> list[Line]:
    lines = []
    expected: tuple[tuple[str, Kind, Contended, tuple[int, ...]], ...] = (
        ("Fig. 13", "predicted", FIG_13, (0, 1, 0, 1)),
        ("Fig. 14", "fitted", FIG_14, (0, 1, 2, 2, 1)),
    )
    for name, kind, (jobs, levels, edges), published in expected:
        contention = graph(jobs, edges)
        ways = {
            "exact K-cut": kcut.exact(contention, levels),
            "Algorithm 1": compression.algorithm1(contention, np.arange(jobs), levels),
        }
        for way, found in ways.items():
            wrong = int(np.count_nonzero(found != np.array(published)))
            lines.append(
                Line(
                    setting=f"{name}, {way}",
                    figure="jobs on another level",
                    published=0.0,
                    here=float(wrong),
                    kind=kind,
                    bar="equal",
                    met=not wrong,
                    why=f"levels {' '.join(map(str, found.tolist()))}, 0 the highest",
                )
            )
    return lines


STUDIES = (
    Study(
        "crux-11-15",
        "Crux, Figures 11 to 14 and Examples 1 and 2",
        "two jobs on one link under both orders; levels of four and five jobs",
        run,
    ),
)
