"""The settings of `hostcc bench shifts`: jobs on a fabric, and what is expected of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostcc.lab.scenario import Scenario, from_document

COMPUTE_MS, COMM_MS = 132.0, 88.0
RATE_MBIT = 200
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
    """Computing and communicating alone of each, milliseconds."""
    goal: Goal = Goal(1.03, 1.08)
    flows: int = 1
    varied_percent: float = 0.0
    """By so much computing times of a ring vary, either way."""
    command: tuple[str, ...] = ()
    """Instead of a ring."""
    fabric: Mapping[str, Any] = field(default_factory=dict)
    places: Sequence[tuple[str, str]] = ()
    """Two hosts of each job; none: one under each of two leaves."""


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
    "multiple": Case(((144.0, 96.0), (84.0, 36.0)), MEAN_GOAL),
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
    "unfit-periods": Case(((144.0, 96.0), (96.0, 64.0)), NO_WORSE),
    "unfit-shares": Case(((72.0, 168.0),) * 2, NO_WORSE),
}
"""Name -> case.  chain: the second job shares a link with either of the others."""


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
                _job(case, f"job-{at + 1}", times, on)
                for at, (times, on) in enumerate(zip(case.jobs, places, strict=True))
            ],
            "variant": [
                {"name": "hostcc", "agent": {"paths": paths}},
                {"name": "no-shifts", "agent": {"paths": paths, "shifts": {"enabled": False}}},
            ],
        },
        name,
    )


def _job(case: Case, name: str, times: tuple[float, float], on: Sequence[str]) -> dict[str, Any]:
    job: dict[str, Any] = {"name": name, "on": list(on), "flows": case.flows}
    job["compute_ms"], job["comm_ms"] = times
    if case.command:
        return {**job, "command": list(case.command), "barrier": True}
    return {**job, "pattern": "allreduce", "jitter_percent": case.varied_percent}
