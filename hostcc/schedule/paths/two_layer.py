"""Path choice on a two-layer Clos: exact for equal demands, near the bound for others.

Flows that share no ToR (as a sender or as a receiver) share no link. Such groups, the connected
components of the traffic, are routed independently, in parallel if the caller wants. A group that
has not changed need not be routed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import equal_demand, greedy, local_search
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.clos import Clos, Flows
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints

STEPS = 300
"""Inspections by the local search from each start, for groups of a few hundred flows."""
BOUND_REACHED = 1 + 1e-9

Part = tuple[Clos, Flows]
Mapper = Callable[[Callable[[Part], Ints], Iterable[Part]], Iterable[Ints]]


@dataclass(frozen=True)
class Routing:
    """Spines of the flows, and how good the routing is."""

    spine: Ints
    """(F,) -1 for flows within a ToR."""
    peak: float
    """Largest load over capacity of any link."""
    bound: float
    """Lower bound of that for any routing."""

    @property
    def optimal(self) -> bool:
        """Whether no better routing can exist."""
        return self.peak <= self.bound * BOUND_REACHED


def route(clos: Clos, flows: Flows, mapper: Mapper = map) -> Routing:
    """Choose a spine for every flow so that the most loaded link has as little load as possible.

    Optimal for equal demands over equal links. The result does not depend on the order of the
    flows, except between flows with the same ends, demand and key. `mapper` may be the map() of an
    executor. Raises ViewError for impossible flows.
    """
    closes.check(clos, flows)
    spine = np.full(len(flows.src), -1, np.int64)
    groups = components(flows)
    parts = [(clos, _subset(flows, group)) for group in groups]
    for group, found in zip(groups, mapper(route_component, parts), strict=True):
        spine[group] = found
    return Routing(spine, peak(clos, flows, spine), closes.bound(clos, flows))


def peak(clos: Clos, flows: Flows, spine: Ints) -> float:
    """Return the largest load over capacity; infinite if a flow uses a link that does not exist."""
    on = flows.src != flows.dst
    src, dst, demand, spine = flows.src[on], flows.dst[on], flows.demand[on], spine[on]
    highest = 0.0
    for ends, capacity in ((src, clos.up), (dst, clos.down)):
        load = np.bincount(ends * clos.spines + spine, demand, capacity.size)
        used = load > 0
        with np.errstate(divide="ignore"):
            use = load[used] / capacity.ravel()[used]
        highest = max(highest, float(use.max(initial=0.0)))
    return highest


def components(flows: Flows) -> list[Ints]:
    """Return flow indices by group, in canonical order (largest first) within a group.

    Flows within a ToR are in no group; groups come in the order of their lowest sender.
    """
    outward = np.flatnonzero(flows.src != flows.dst)
    if not len(outward):
        return []
    src, dst = flows.src[outward], flows.dst[outward]
    senders = int(src.max()) + 1
    label = fabrics.connected(senders + int(dst.max()) + 1, src, senders + dst)[src]
    last = outward if flows.key is None else flows.key[outward]
    order = np.lexsort((last, dst, src, -flows.demand[outward], label))
    starts = np.flatnonzero(np.diff(label[order])) + 1
    return np.split(outward[order], starts)


def route_component(part: Part) -> Ints:
    """Return (F,) spines for one group of flows, which must be in canonical order."""
    clos, flows = part
    unit = float(flows.demand[0])
    if unit == float(flows.demand[-1]):
        return equal_demand.route(clos, flows.src, flows.dst, unit or 1.0)
    fabric, table = closes.fabric(clos, flows)
    demand = fabrics.integer_demands(flows.demand)
    scale = float(demand[0]) / unit
    floor = closes.bound(clos, flows) * scale
    steps = STEPS if len(demand) <= STEPS else STEPS // 3 + len(demand) // 20
    best, lowest = None, np.inf
    for start in _starts(clos, flows, fabric, table, demand):
        found = local_search.improve(fabric, table, demand, start, floor=floor, steps=steps)
        height = fabrics.peak(fabric, fabrics.loads(fabric, table, demand, found))
        if height < lowest:
            best, lowest = found, height
        if lowest <= floor * BOUND_REACHED:
            break
    assert best is not None
    return best


def _starts(
    clos: Clos, flows: Flows, fabric: Fabric, table: Ints, demand: Floats
) -> Iterable[Ints]:
    yield greedy.place(fabric, table, demand, range(len(table)), np.full(len(table), -1, np.int64))
    counted = equal_demand.route(clos, flows.src, flows.dst, 1.0)
    yield counted


def _subset(flows: Flows, chosen: Ints | NDArray[np.bool_]) -> Flows:
    key = None if flows.key is None else flows.key[chosen]
    return Flows(flows.src[chosen], flows.dst[chosen], flows.demand[chosen], key)
