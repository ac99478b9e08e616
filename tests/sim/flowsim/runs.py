"""Short ways to simulate in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostcc.sim.cluster_simulation import constant
from hostcc.sim.flowsim.run import Options, Outcome, simulate
from hostcc.sim.flowsim.workload import Fabric, pack
from hostcc.sim.periodic import Controller, SimFlow, SimJob


def run(
    jobs: Sequence[SimJob],
    end: float,
    controller: Controller | Sequence[int] | None = None,
    *,
    capacity: Sequence[float] = (1.0,),
    delay: Sequence[float] = (),
    **options: Any,
) -> Outcome:
    """Simulate with proved rates; all iterations are recorded."""
    own = controller if controller is None or callable(controller) else constant(controller)
    settings: dict[str, Any] = {"checked": True, "recorded": range(len(jobs)), **options}
    return simulate(Fabric.of(capacity, delay), pack(jobs), end, own, Options(**settings))


def ends(found: Outcome, job: int) -> list[float]:
    """When iterations of a job ended."""
    times: list[float] = found.recorded_end[found.recorded_job == job].tolist()
    return times


def one_flow(size: float = 1.0, *links: int, **options: Any) -> tuple[SimFlow, ...]:
    """A flow over the first link, or others."""
    return (SimFlow(size, links or (0,), **options),)
