"""Failover: after a failure only the stranded flows move; the others keep their paths.

`reroute_stranded` does that in any fabric; daemon/steering/failover.py uses it for a host's own
flows. `prepare` plans for whole Clos fabrics without jobs, one plan for each spine and link that
carries traffic (routing paper, 3.4). For order and levels of jobs after a failure, see
schedule/failure_plans.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import greedy, local_search, two_layer
from hostcc.schedule.paths.clos import Clos, Flows
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints

SPINE, LINK = "spine", "link"
STEPS = 60
CUT_OFF = -1


@dataclass(frozen=True)
class Failure:
    """A spine, or the link between a ToR and a spine, that can fail."""

    kind: str
    spine: int
    tor: int = -1

    def after(self, clos: Clos) -> Clos:
        """Return the fabric after the failure."""
        if self.kind == SPINE:
            return closes.without_spines(clos, [self.spine])
        return closes.without_links(clos, [(self.tor, self.spine)])


@dataclass(frozen=True)
class PreparedFailover:
    """The routing to use after a failure."""

    failure: Failure
    spine: Ints
    """(F,) for all flows; -1: within a ToR, or without any path."""
    moved: Ints
    """Flows that change their spine."""
    cut_off: Ints
    """Flows without any remaining path."""
    peak: float
    """Largest load over capacity after the failure."""


# Not called by the agent yet: it waits for the work on plans.
def prepare(clos: Clos, flows: Flows, spine: Ints) -> Iterator[PreparedFailover]:
    """Yield a plan for every failure that would affect a flow of the routing `spine` (F,)."""
    outward = flows.src != flows.dst
    used = np.unique(spine[outward])
    for index in used.tolist():
        yield prepare_one(clos, flows, spine, Failure(SPINE, index))
    ends = np.concatenate([flows.src[outward], flows.dst[outward]])
    cells = np.unique(ends * clos.spines + np.tile(spine[outward], 2))
    for cell in cells.tolist():
        tor, index = divmod(cell, clos.spines)
        yield prepare_one(clos, flows, spine, Failure(LINK, index, tor))


def reroute_stranded(
    fabric: Fabric, table: Ints, demand: Floats, choice: Ints
) -> tuple[Ints, Ints]:
    """Return the flows whose candidate in `choice` (F,) is barred, and the choice after re-placing
    them.

    The largest are placed first; CUT_OFF: no path is left. `table`, `demand` (F,): as in
    fabric.loads.
    """
    stranded = np.flatnonzero(~fabric.usable[table, choice])
    placed = choice.copy()
    placed[stranded] = CUT_OFF
    order = stranded[np.argsort(-demand[stranded], kind="stable")]
    return stranded, greedy.place(fabric, table, demand, order.tolist(), placed)


def prepare_one(clos: Clos, flows: Flows, spine: Ints, failure: Failure) -> PreparedFailover:
    """Return the plan for `failure` of the routing `spine`."""
    left = failure.after(clos)
    outward = flows.src != flows.dst
    fabric, table = closes.fabric(left, flows)
    demand = fabrics.integer_demands(flows.demand)
    hit, choice = reroute_stranded(fabric, table, demand, np.where(outward, spine, 0))
    stranded, cut = hit[choice[hit] >= 0], hit[choice[hit] < 0]
    on = np.flatnonzero(choice >= 0)
    movable = np.zeros(len(on), np.bool_)
    movable[np.searchsorted(on, stranded)] = True
    choice[on] = local_search.improve(
        fabric, table[on], demand[on], choice[on], steps=STEPS, movable=movable
    )
    choice[~outward] = -1
    rest = Flows(flows.src[on], flows.dst[on], flows.demand[on])
    peak = two_layer.peak(left, rest, choice[on])
    return PreparedFailover(failure, choice, stranded, cut, peak)
