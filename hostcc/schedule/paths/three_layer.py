"""Path choice on three-layer Clos: ToRs and aggregation switches in pods, planes of cores.

Aggregation switch a of every pod is linked to the C cores of plane a. A path between pods is a
plane and a core of it; one within a pod is a plane. Starting points: two colourings (ToRs by
planes, then in each plane pods by cores), and largest first. Local search improves them. Equal
demands on equal links nearly always end at the bound; the result says whether they do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule.errors import ViewError
from hostcc.schedule.paths import colouring, greedy, local_search
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints

MAX_LINKS = 1 << 20
STEPS = 300
BOUND_REACHED = 1 + 1e-9


@dataclass(frozen=True)
class Clos3:
    """P pods with T ToRs and A aggregation switches each, and A planes of C cores."""

    low: Floats
    """(2, P, T, A) capacity between ToR and aggregation: [0] up, [1] down; 0: none, or failed."""
    high: Floats
    """(2, P, A, C) capacity between aggregation and the cores of its plane."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(P, T, A, C)."""
        pods, tors, planes = self.low.shape[1:]
        return int(pods), int(tors), int(planes), int(self.high.shape[3])


@dataclass(frozen=True)
class Routing3:
    """A routing; candidate a C + c is core c of plane a; within a pod, candidate a C is plane a."""

    choice: Ints
    """(F,) 0 for flows within a ToR."""
    peak: float
    bound: float

    @property
    def optimal(self) -> bool:
        """Whether no better routing can exist."""
        return self.peak <= self.bound * BOUND_REACHED


def uniform(pods: int, tors: int, planes: int, cores: int, capacity: float = 1.0) -> Clos3:
    """Return a Clos3 with equal links."""
    low = np.full((2, pods, tors, planes), float(capacity))
    return Clos3(low, np.full((2, pods, planes, cores), float(capacity)))


def fabric(clos: Clos3, src: Ints, dst: Ints) -> tuple[Fabric, Ints]:
    """Return the candidates of pairs that occur; ToR t of pod p is p T + t. Raises ViewError."""
    pods, tors, planes, cores = clos.shape
    count = pods * tors
    if len(src) and not (min(src.min(), dst.min()) >= 0 and max(src.max(), dst.max()) < count):
        raise ViewError(f"flow: expected ToRs from 0 to {count - 1}")
    if clos.low.size + clos.high.size > MAX_LINKS:
        raise ViewError(f"Clos: expected at most {MAX_LINKS} links")
    pairs, at = np.unique(src * count + dst, return_inverse=True)
    one, two = (ends[:, None] for ends in np.divmod(pairs, count))
    plane, core = (axis[None, :] for axis in np.divmod(np.arange(planes * cores), cores))
    half, upper = clos.low.size // 2, clos.low.size
    quarter = clos.high.size // 2
    above = (np.zeros_like(one) + plane) * cores + core
    table = np.stack(
        [
            one * planes + plane,
            upper + one // tors * planes * cores + above,
            upper + quarter + two // tors * planes * cores + above,
            half + two * planes + plane,
        ],
        axis=2,
    )
    links = clos.low.size + clos.high.size
    near = (one // tors == two // tors)[:, 0]
    table[near, :, 1:3] = links
    table[near[:, None] & (core > 0)] = links + 1
    local = (one == two)[:, 0]
    table[local] = links + 1
    table[local, 0] = links
    capacity = np.concatenate([clos.low.ravel(), clos.high.ravel()])
    return fabrics.make(capacity, table), at.reshape(-1)


def route(clos: Clos3, src: Ints, dst: Ints, demand: Floats, key: Ints | None = None) -> Routing3:
    """Choose a path for every flow; `key` (F,) ranks of names break ties between equal flows.

    Raises ViewError for impossible flows, and for pairs without a path.
    """
    made, table = fabric(clos, src, dst)
    integer_demands = fabrics.integer_demands(demand)
    if not np.all(made.usable[table].any(axis=1)):
        raise ViewError("flow: expected a path between its ToRs, got none")
    order = fabrics.order(integer_demands, src * (clos.shape[0] * clos.shape[1]) + dst, key)
    at, sizes = table[order], integer_demands[order]
    least = bound(clos, src, dst, integer_demands)
    best, lowest = np.zeros(len(order), np.int64), np.inf
    empty = np.full(len(order), -1, np.int64)
    for start in (_coloured(clos, made, at, src[order], dst[order]), empty):
        placed = greedy.place(made, at, sizes, np.flatnonzero(start < 0).tolist(), start)
        found = local_search.improve(made, at, sizes, placed, floor=least, steps=STEPS)
        height = fabrics.peak(made, fabrics.loads(made, at, sizes, found))
        if height < lowest:
            best, lowest = found, height
        if lowest <= least * BOUND_REACHED:
            break
    choice = np.zeros(len(order), np.int64)
    choice[order] = best
    demand = np.asarray(demand, np.float64)
    reached = fabrics.peak(made, fabrics.loads(made, table, demand, choice))
    return Routing3(choice, reached, min(reached, bound(clos, src, dst, demand)))


def bound(clos: Clos3, src: Ints, dst: Ints, demand: Floats) -> float:
    """Return a lower bound of the largest load over capacity of any routing.

    The maximum of each ToR's and each pod's traffic over its capacity, and each flow over the
    widest link of its ToRs. Equal demands on equal links are rounded up.
    """
    tors = clos.shape[1]
    best = 0.0
    units = np.unique(demand[src != dst])
    for direction, ends in ((0, src), (1, dst)):
        for cells, where, out in (
            (clos.low[direction].reshape(-1, clos.shape[2]), ends, src != dst),
            (
                clos.high[direction].reshape(clos.shape[0], -1),
                ends // tors,
                src // tors != dst // tors,
            ),
        ):
            total = np.bincount(where[out], demand[out], len(cells))
            for sent, links in zip(total.tolist(), cells, strict=True):
                if sent > 0 and links.sum() > 0:
                    best = max(best, _over(sent, links, units))
        widest = clos.low[direction].reshape(-1, clos.shape[2]).max(axis=1)[ends]
        alone = demand[(src != dst) & (widest > 0)] / widest[(src != dst) & (widest > 0)]
        best = max(best, float(alone.max(initial=0.0)))
    return best


def _over(sent: float, links: Floats, units: Floats) -> float:
    alive = links[links > 0]
    if len(units) == 1 and units[0] > 0 and np.all(alive == alive[0]):
        flows = round(sent / float(units[0]))
        return -(-flows // len(alive)) * float(units[0]) / float(alive[0])
    return float(sent / alive.sum())


def _coloured(clos: Clos3, made: Fabric, table: Ints, src: Ints, dst: Ints) -> Ints:
    """Return (F,) candidates by two colourings; -1 where a failed link is in the way."""
    _, tors, planes, cores = clos.shape
    choice = np.zeros(len(src), np.int64)
    out = np.flatnonzero(src != dst)
    if not len(out):
        return choice
    left, right = (colouring.split(ends[out], planes) for ends in (src, dst))
    plane = colouring.colour(left, right, planes)
    choice[out] = plane * cores
    far = out[src[out] // tors != dst[out] // tors]
    level = choice[far] // cores
    ends = [colouring.split(side[far] // tors * planes + level, cores) for side in (src, dst)]
    if len(far):
        choice[far] += colouring.colour(ends[0], ends[1], cores)
    blocked = np.logical_not(made.usable[table, choice])
    choice[blocked] = -1
    return choice
