"""Two-layer Clos networks (leaf and spine) as two matrices, with lower bounds on the load."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hostcc.schedule.errors import ViewError
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints

MAX_TORS = 4096
MAX_SPINES = 4096


@dataclass(frozen=True)
class Clos:
    """T ToRs and S spines.

    Link ToR t -> spine s has index t S + s, the one back T S + t S + s.
    """

    up: Floats
    """(T, S) capacity from ToR to spine; 0: no link, or a failed one."""
    down: Floats
    """(T, S) capacity from spine to ToR."""

    @property
    def tors(self) -> int:
        """Number of ToRs, T."""
        return int(self.up.shape[0])

    @property
    def spines(self) -> int:
        """Number of spines, S."""
        return int(self.up.shape[1])


@dataclass(frozen=True)
class Flows:
    """F flows between ToRs."""

    src: Ints
    """(F,) sending ToR."""
    dst: Ints
    """(F,) receiving ToR; a flow within a ToR uses no spine."""
    demand: Floats
    """(F,) bytes, bytes/s or any other unit; not negative."""
    key: Ints | None = None
    """(F,) rank of the flow's name, which breaks ties."""


def make(up: Floats, down: Floats) -> Clos:
    """Return a checked Clos. Raises ViewError."""
    up, down = np.array(up, np.float64), np.array(down, np.float64)
    if up.ndim != 2 or up.shape != down.shape:
        raise ViewError("Clos: expected two matrices of ToRs times spines")
    if up.shape[0] > MAX_TORS or up.shape[1] > MAX_SPINES:
        raise ViewError(f"Clos: expected at most {MAX_TORS} ToRs and {MAX_SPINES} spines")
    for matrix in (up, down):
        if not np.all((matrix >= 0) & (matrix <= fabrics.MAX_DEMAND)):
            raise ViewError("Clos: capacity: expected finite numbers >= 0")
    return Clos(up, down)


def uniform(tors: int, spines: int, capacity: float = 1.0) -> Clos:
    """Return a Clos with every ToR linked to every spine by equal links."""
    matrix = np.full((tors, spines), float(capacity))
    return make(matrix, matrix)


def without_spines(clos: Clos, spines: Iterable[int]) -> Clos:
    """Return the Clos after spines have failed."""
    failed = list(spines)
    up, down = clos.up.copy(), clos.down.copy()
    up[:, failed] = down[:, failed] = 0.0
    return replace(clos, up=up, down=down)


def without_links(clos: Clos, links: Iterable[tuple[int, int]]) -> Clos:
    """Return the Clos after links (ToR, spine) have failed, in both directions."""
    up, down = clos.up.copy(), clos.down.copy()
    for tor, spine in links:
        up[tor, spine] = down[tor, spine] = 0.0
    return replace(clos, up=up, down=down)


def check(clos: Clos, flows: Flows) -> None:
    """Check flows. Raises ViewError for unknown ToRs, pairs without a path, and NaN."""
    sizes = {len(flows.src), len(flows.dst), len(flows.demand)}
    if flows.key is not None:
        sizes.add(len(flows.key))
    if len(sizes) != 1:
        raise ViewError("flows: expected arrays of one length")
    if not np.all((flows.demand >= 0) & (flows.demand <= fabrics.MAX_DEMAND)):
        raise ViewError("flow: demand: expected finite numbers >= 0")
    for ends in (flows.src, flows.dst):
        if len(ends) and not (ends.min() >= 0 and ends.max() < clos.tors):
            raise ViewError(f"flow: expected ToRs from 0 to {clos.tors - 1}")
    pairs, at = pairs_of(clos, flows)
    src, dst = np.divmod(pairs, max(1, clos.tors))
    cut = ~((clos.up[src] > 0) & (clos.down[dst] > 0)).any(axis=1) & (src != dst)
    if cut.any():
        flow = int(np.flatnonzero(cut[at])[0])
        raise ViewError(
            f"flow {flow}: expected a spine that links ToRs {flows.src[flow]} and "
            f"{flows.dst[flow]}, got none"
        )


def pairs_of(clos: Clos, flows: Flows) -> tuple[Ints, Ints]:
    """Return the distinct pairs as src T + dst, and (F,) which of them each flow has."""
    pairs, at = np.unique(flows.src * max(1, clos.tors) + flows.dst, return_inverse=True)
    return pairs, at.reshape(-1)


def fabric(clos: Clos, flows: Flows) -> tuple[Fabric, Ints]:
    """Return the candidate paths of the pairs that occur, and each flow's pair.

    Candidate s is spine s. A pair within a ToR has only candidate 0, without links.
    """
    pairs, at = pairs_of(clos, flows)
    src, dst = np.divmod(pairs, max(1, clos.tors))
    spine = np.arange(clos.spines)
    cells = clos.tors * clos.spines
    table = np.stack(
        [src[:, None] * clos.spines + spine, cells + dst[:, None] * clos.spines + spine], axis=2
    )
    local = src == dst
    table[local] = 2 * cells + 1
    table[local, :1] = 2 * cells
    return fabrics.make(np.concatenate([clos.up.ravel(), clos.down.ravel()]), table), at


def bound(clos: Clos, flows: Flows) -> float:
    """Return a lower bound of the largest load over capacity of any routing.

    The maximum of: each ToR's traffic over its capacity; each flow over its widest path; and flows
    whose far ends share few spines with a ToR, over the links to those. Where a ToR has m equal
    links, more than k m flows put at least k + 1 of them on one link. Integer demands are rounded
    up to loads that can occur.
    """
    sent = flows.src != flows.dst
    src, dst, demand = flows.src[sent], flows.dst[sent], flows.demand[sent]
    if not len(demand):
        return 0.0
    best = 0.0
    best = max(best, _side(src, dst, demand, clos.up, clos.down))
    best = max(best, _side(dst, src, demand, clos.down, clos.up))
    pairs, at = pairs_of(clos, Flows(src, dst, demand))
    src, dst = np.divmod(pairs, clos.tors)
    widest = np.minimum(clos.up[src], clos.down[dst]).max(axis=1)
    best = max(best, float((demand / widest[at]).max()))
    return attainable(clos, flows, best)


def attainable(clos: Clos, flows: Flows, least: float) -> float:
    """Return the least load over capacity, from `least` on, that a link can have.

    Integer demands make multiples of their common divisor, over the capacity of a link.
    """
    sent = flows.src != flows.dst
    demand = flows.demand[sent]
    if not len(demand) or not np.all(demand % 1 == 0) or float(demand.sum()) >= fabrics.EXACT:
        return least
    unit = float(np.gcd.reduce(demand.astype(np.int64)))
    ends = [clos.up[np.unique(flows.src[sent])], clos.down[np.unique(flows.dst[sent])]]
    capacities = np.unique(np.concatenate(ends))
    capacities = capacities[capacities > 0]
    if unit <= 0 or not len(capacities):
        return least
    values = np.ceil(least * capacities / unit * (1 - 1e-12)) * unit / capacities
    return max(least, float(values.min()))


def _side(ends: Ints, far: Ints, demand: Floats, capacity: Floats, other: Floats) -> float:
    best = 0.0
    for tor in np.unique(ends):
        mine = ends == tor
        links = capacity[tor][capacity[tor] > 0]
        sizes = np.sort(demand[mine])[::-1]
        best = max(best, float(sizes.sum() / links.sum()))
        if len(links) and np.all(links == links[0]):
            best = max(best, _pigeonhole(sizes, len(links)) / float(links[0]))
        best = max(best, _reachable(far[mine], demand[mine], capacity[tor], other))
    return best


def _pigeonhole(sizes: Floats, links: int) -> float:
    """Return a bound: of the k m + 1 largest flows, k + 1 share a link."""
    best = 0.0
    for k in range(1, (len(sizes) - 1) // links + 1):
        best = max(best, float(sizes[k * links - k : k * links + 1].sum()))
    return best


def _reachable(far: Ints, demand: Floats, capacity: Floats, other: Floats) -> float:
    """Return a bound: flows whose far ends share few spines with this ToR, over those spines."""
    reach = (capacity > 0) & (other[far] > 0)
    if reach.all(axis=1).all() or np.array_equal(reach, np.broadcast_to(reach[0], reach.shape)):
        return 0.0
    best = 0.0
    for spines in np.unique(reach, axis=0):
        inside = ~(reach & ~spines).any(axis=1)
        best = max(best, float(demand[inside].sum() / capacity[spines].sum()))
    return best
