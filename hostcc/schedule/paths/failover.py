"""After a failure only the flows that it has cut off move; the others keep their paths.

`rescue` does that in any fabric (what a host prepares for its own flows, routing.ahead, is made
with it).  `prepare` answers for whole Clos fabrics that know of no jobs, one plan for each single
spine and link that carries traffic (routing paper, 3.4).  Where there are jobs, what follows for
their order and levels is in schedule.prepared.
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
    """One thing that can fail: a spine, or the link of a ToR and a spine."""

    kind: str
    spine: int
    tor: int = -1

    def after(self, clos: Clos) -> Clos:
        """The fabric when it has failed."""
        if self.kind == SPINE:
            return closes.without_spines(clos, [self.spine])
        return closes.without_links(clos, [(self.tor, self.spine)])


@dataclass(frozen=True)
class PreparedFailover:
    """What to do when it fails."""

    failure: Failure
    spine: Ints
    """(F,) for all flows; -1: within a ToR, or cut off."""
    moved: Ints
    """Flows that change their spine."""
    cut_off: Ints
    """Flows that no path is left for."""
    peak: float
    """The largest load over capacity afterwards."""


# Not called by the agent yet: it waits for the work on plans.
def prepare(clos: Clos, flows: Flows, spine: Ints) -> Iterator[PreparedFailover]:
    """A plan for every failure that would touch a flow of the routing `spine` (F,)."""
    outward = flows.src != flows.dst
    used = np.unique(spine[outward])
    for index in used.tolist():
        yield answer(clos, flows, spine, Failure(SPINE, index))
    ends = np.concatenate([flows.src[outward], flows.dst[outward]])
    cells = np.unique(ends * clos.spines + np.tile(spine[outward], 2))
    for cell in cells.tolist():
        tor, index = divmod(cell, clos.spines)
        yield answer(clos, flows, spine, Failure(LINK, index, tor))


def rescue(fabric: Fabric, table: Ints, demand: Floats, choice: Ints) -> tuple[Ints, Ints]:
    """Flows whose candidate in `choice` (F,) is barred, and the choice after these were placed
    anew, longest first; -1: no path is left.

    `table`, `demand` (F,): as in fabric.loads.
    """
    stranded = np.flatnonzero(~fabric.usable[table, choice])
    placed = choice.copy()
    placed[stranded] = CUT_OFF
    order = stranded[np.argsort(-demand[stranded], kind="stable")]
    return stranded, greedy.place(fabric, table, demand, order.tolist(), placed)


def answer(clos: Clos, flows: Flows, spine: Ints, failure: Failure) -> PreparedFailover:
    """What to do when `failure` happens to the routing `spine`."""
    left = failure.after(clos)
    outward = flows.src != flows.dst
    fabric, table = closes.fabric(left, flows)
    demand = fabrics.whole(flows.demand)
    hit, choice = rescue(fabric, table, demand, np.where(outward, spine, 0))
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
