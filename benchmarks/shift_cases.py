"""The settings of `hostcc bench shifts`: jobs on a fabric, and what is expected of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.evidence.thesis_jobs import thesis
from hostcc.lab.scenario import Scenario, from_document

COMPUTE_MS, COMM_MS = 132.0, 88.0
RATE_MBIT = 200
CHANGE_ITERATION = 60
"""Jobs that are there from the start take turns by then."""
PAUSE_MS = 10_000.0
DDP = ("python3", "-m", "hostcc.lab.ddp_worker")


@dataclass(frozen=True)
class Goal:
    """What has to be reached once the jobs take turns, in times the time alone.

    None in all: no slower than the best of the other variants, since the jobs do not fit.
    """

    mean: float | None = None
    p99: float | None = None


@dataclass(frozen=True)
class Case:
    """Jobs on one fabric."""

    jobs: Sequence[tuple[float, float]] = ((COMPUTE_MS, COMM_MS),) * 2
    """Computing of each, and communicating with the spine to itself, milliseconds."""
    goal: Goal = Goal(1.03, 1.08)
    flows: int = 1
    varied_percent: float = 0.0
    """By so much computing times of a ring vary, either way."""
    command: tuple[str, ...] = ()
    """Instead of a ring."""
    fabric: Mapping[str, Any] = field(default_factory=dict)
    places: Sequence[tuple[str, str]] = ()
    """Two hosts of each job; none: one under each of two leaves."""
    change: Mapping[str, Any] = field(default_factory=dict)
    """Of the first job, keys of the lab's scenarios."""
    action: str = ""
    """What happens to the last job."""

    @property
    def change_at(self) -> int:
        """The iteration of the first job in which something changes; 0: nothing does."""
        return CHANGE_ITERATION if self.change or self.action else 0

    def alone_ratio(self, job: int) -> float:
        """A job's time alone after the change over the one before, by number of the job."""
        if job:
            return 1.0
        compute_ms, comm_ms = self.jobs[job]
        factor = float(self.change.get("change_bytes_factor", 1.0))
        return (compute_ms + factor * comm_ms) / (compute_ms + comm_ms)


def _snapshot(*names: str, goal: Goal) -> Case:
    """Jobs of Cassini's snapshots: with their times, and rates in proportion to the link's."""
    shapes = [thesis().shape(name) for name in names]
    parts = [shape.gbit / thesis().link.gbit for shape in shapes]
    return Case(
        [
            (1e3 * shape.compute_s, 1e3 * shape.send_s * part)
            for shape, part in zip(shapes, parts, strict=True)
        ],
        goal,
        flows=4,
        fabric={"host_mbit": [RATE_MBIT * part for part in parts] * 2},
    )


DDP_GOAL, MEAN_GOAL = Goal(1.04, 1.15), Goal(1.04)
UNEVEN_GOAL, NO_WORSE = Goal(1.06), Goal()
CASES: Mapping[str, Case] = {
    **{f"rings-{flows}": Case(flows=flows) for flows in (1, 2, 4, 8, 16)},
    "ddp": Case(goal=DDP_GOAL, command=DDP),
    "three-ddp": Case(((154.0, 66.0),) * 3, DDP_GOAL, command=DDP),
    "six": Case(((204.0, 36.0),) * 6, MEAN_GOAL, flows=32),
    "500-mbit": Case(goal=MEAN_GOAL, flows=8, fabric={"rate_mbit": 500}),
    "1-gbit": Case(goal=MEAN_GOAL, flows=8, fabric={"rate_mbit": 1000}),
    "10-ms": Case(goal=MEAN_GOAL, flows=8, fabric={"base_rtt_us": 10_000}),
    "multiple": Case(((186.0, 54.0), (90.0, 30.0)), MEAN_GOAL),
    "chain": Case(
        ((COMPUTE_MS, COMM_MS),) * 3,
        MEAN_GOAL,
        fabric={"leaves": 4, "hosts_per_leaf": 2},
        places=(("h1", "h5"), ("h2", "h3"), ("h4", "h7")),
    ),
    **{
        f"varied-{percent:g}": Case(goal=UNEVEN_GOAL, varied_percent=percent)
        for percent in (5.0, 12.0)
    },
    **{
        f"apart-{percent:g}": Case(
            ((COMPUTE_MS, COMM_MS), (COMPUTE_MS * (1 + percent / 100), COMM_MS)), UNEVEN_GOAL
        )
        for percent in (0.3, 2.0)
    },
    "arrives": Case(goal=MEAN_GOAL, action="start-job"),
    "leaves": Case(goal=MEAN_GOAL, action="stop-job"),
    "doubles": Case(((198.0, 22.0), (143.0, 88.0)), MEAN_GOAL, change={"change_bytes_factor": 2.0}),
    "pauses": Case(goal=MEAN_GOAL, change={"change_pause_ms": PAUSE_MS}),
    "unfit-multiple": Case(((144.0, 96.0), (84.0, 36.0)), NO_WORSE),
    "unfit-periods": Case(((144.0, 96.0), (96.0, 64.0)), NO_WORSE),
    "unfit-shares": Case(((72.0, 168.0),) * 2, NO_WORSE),
    "snapshot-1": _snapshot("wrn101-800", "vgg16-1400", goal=MEAN_GOAL),
    "snapshot-2": _snapshot("vgg19-1400", "vgg16-1700", "resnet50-1600", goal=MEAN_GOAL),
    "snapshot-3": _snapshot("vgg19-1400 at 1024", "vgg16-1400 at 1200", goal=NO_WORSE),
    # Nothing but its score is published: two jobs that fill the link for 60 % of the time have it.
    "snapshot-4": Case(((96.0, 144.0),) * 2, NO_WORSE, flows=4),
    # No shape is published: a group of Table 3.1 that has the score.
    "snapshot-5": _snapshot("bert-8", "vgg19-1400", "wrn101-800", goal=NO_WORSE),
}
"""Name -> case.  chain: the second job shares a link with either of the others.  snapshot-*: of
Table 4.3 of Rajasekaran's thesis."""


def scenario_of(name: str) -> Scenario:
    """The lab's scenario of a case, with the variants that are compared."""
    case = CASES[name]
    count = len(case.jobs)
    places = case.places or [(f"h{at + 1}", f"h{at + 1 + count}") for at in range(count)]
    fabric = {"kind": "leaf-spine", "spines": 1, "hosts_per_leaf": count, "rate_mbit": RATE_MBIT}
    paths = {"enabled": True}
    return from_document(
        {
            "title": f"{name}: jobs that share a link",
            "gossip": True,
            "fabric": {**fabric, **case.fabric},
            "job": [
                _job(case, at, times, on)
                for at, (times, on) in enumerate(zip(case.jobs, places, strict=True))
            ],
            "action": _actions(case),
            "variant": [
                {"name": "hostcc", "agent": {"paths": paths}},
                {"name": "no-shifts", "agent": {"paths": paths, "shifts": {"enabled": False}}},
            ],
        },
        name,
    )


def _actions(case: Case) -> list[dict[str, Any]]:
    if not case.action:
        return []
    run = f"{case.action} {_name(len(case.jobs) - 1)}"
    return [{"run": run, "at_iteration": case.change_at}]


def _name(at: int) -> str:
    return f"job-{at + 1}"


def _job(case: Case, at: int, times: tuple[float, float], on: Sequence[str]) -> dict[str, Any]:
    job: dict[str, Any] = {"name": _name(at), "on": list(on), "flows": case.flows}
    job["compute_ms"], job["comm_ms"] = times
    if case.change and not at:
        job |= {"change_at_iteration": case.change_at, **case.change}
    if case.command:
        return {**job, "command": list(case.command), "barrier": True}
    return {**job, "pattern": "allreduce", "jitter_percent": case.varied_percent}
