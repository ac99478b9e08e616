"""Who schedules a replayed cluster: named combinations of the methods of hostcc.schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hostcc.model import ClusterView
from hostcc.schedule.plan import Known, Options, Solution, solve, solve_for_agents

RAMP_STEPS = 16
RAMP_SLOPE, RAMP_INTERCEPT = 1.75, 0.25
"""Of MLTCP's F(bytes_ratio), as in hostcc.mltcp.params, which this layer cannot import."""


@dataclass(frozen=True)
class Scheduler:
    """What one way of scheduling sets."""

    options: Options
    agents: bool = False
    """Whether plans are made as agents make them."""
    levels: bool = True
    """Whether switches serve levels."""
    compressed: bool = True
    """Without: each job has the level of its rank."""
    weights: bool = False
    """Whether the plan's weights are set."""
    stays: bool = False
    """Whether flows keep their paths unless a gain is stated."""
    shifts: bool = False
    """Whether iterations begin where the shifts of the plan say."""
    ramp: tuple[float, ...] = (1.0,)
    """Factors of weight by the share of bytes that is sent."""
    shared: bool = True
    """Without: every job has the links for itself."""

    def solved(
        self,
        view: ClusterView,
        levels: int,
        before: Solution | None,
        known: Known | None = None,
    ) -> Solution:
        """Return the solution of a view; `before` and `known`: earlier ones of this scheduler.

        Raises ViewError and OptionsError.
        """
        options = replace(self.options, levels=levels)
        if self.agents:
            return solve_for_agents(view, options, before, known)
        return solve(view, options, before)


def mltcp_ramp() -> tuple[float, ...]:
    """Return F at the middle of each step."""
    middles = (np.arange(RAMP_STEPS) + 0.5) / RAMP_STEPS
    return tuple((RAMP_SLOPE * middles + RAMP_INTERCEPT).tolist())


def _ecmp(order: str, compression: str) -> Options:
    return Options(paths="ecmp", order=order, compression=compression, simulations=0)


SCHEDULERS: Mapping[str, Scheduler] = {
    "alone": Scheduler(_ecmp("hash", "balanced"), levels=False, shared=False),
    "ecmp": Scheduler(_ecmp("hash", "balanced"), levels=False),
    "sincronia": Scheduler(_ecmp("sincronia", "sincronia")),
    "varys": Scheduler(_ecmp("varys", "balanced")),
    "tacclstar": Scheduler(Options(paths="taccl", order="hash", compression="balanced")),
    "cassini": Scheduler(_ecmp("hash", "balanced"), levels=False, shifts=True),
    "mltcp": Scheduler(_ecmp("hash", "balanced"), levels=False, ramp=mltcp_ramp()),
    "crux-pa": Scheduler(_ecmp("crux", "balanced"), compressed=False),
    "crux-ps-pa": Scheduler(
        Options(paths="crux", order="crux", compression="balanced"), compressed=False
    ),
    "crux-full": Scheduler(Options(paths="crux", order="crux", compression="algorithm1")),
    "hostcc": Scheduler(Options(), agents=True),
    "hostcc-weights": Scheduler(Options(), agents=True, levels=False, weights=True),
    "hostcc-stay": Scheduler(Options(), agents=True, stays=True),
}
