"""The best possible path assignment by integer programming (HiGHS through SciPy).

For tests and benchmarks only: the daemon does not need SciPy, and a solution takes minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.errors import HostccError
from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths.clos import Clos, Flows
from hostcc.schedule.paths.fabric import Ints


@dataclass(frozen=True)
class Optimum:
    """What the solver knows of the smallest largest load over capacity."""

    least: float
    """No routing has less."""
    found: float
    """A routing with this exists; infinite when the solver found none in time."""
    spine: Ints | None = None
    """(F,) that routing, -1 for flows within a ToR; None: none was found."""

    @property
    def exact(self) -> bool:
        """Whether the two meet."""
        return self.found <= self.least * (1 + 1e-6)


def solve(clos: Clos, flows: Flows, *, seconds: float, relative_gap: float = 1e-7) -> Optimum:
    """Solve it.  Flows of the same ends and demand are one commodity with a count.

    Raises HostccError where SciPy is not installed.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array
    except ImportError:
        raise HostccError("the optimum needs SciPy: install hostcc[dev]") from None
    closes.check(clos, flows)
    outward = flows.src != flows.dst
    columns = np.stack([flows.src, flows.dst, flows.demand], axis=1)[outward]
    kinds, of_kind, count = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    spines = np.full(len(flows.src), -1, np.int64)
    if not len(kinds):
        return Optimum(0.0, 0.0, spines)
    src, dst, demand = kinds[:, 0].astype(np.int64), kinds[:, 1].astype(np.int64), kinds[:, 2]
    open_ = (clos.up[src] > 0) & (clos.down[dst] > 0)
    kind, spine = np.nonzero(open_)
    unit = float(demand.max() / max(clos.up.max(), clos.down.max()))
    cells = clos.tors * clos.spines
    variable = np.arange(len(kind))
    rows = np.concatenate(
        [kind, len(kinds) + src[kind] * clos.spines + spine,
         len(kinds) + cells + dst[kind] * clos.spines + spine]
    )  # fmt: skip
    capacity = np.concatenate([clos.up.ravel(), clos.down.ravel()])
    loaded = rows[len(kind) :] - len(kinds)
    values = np.concatenate(
        [np.ones(len(kind)), np.tile(demand[kind], 2) / (capacity[loaded] * unit)]
    )
    used = np.unique(loaded)
    rows = np.concatenate([rows, len(kinds) + used])
    values = np.concatenate([values, -np.ones(len(used))])
    where = np.concatenate([np.tile(variable, 3), np.full(len(used), len(kind))])
    keep = np.unique(rows, return_inverse=True)
    matrix = coo_array((values, (keep[1], where)), shape=(len(keep[0]), len(kind) + 1))
    low = np.concatenate([count, np.full(len(used), -np.inf)])
    high = np.concatenate([count, np.zeros(len(used))])
    upper = np.append(count[kind].astype(np.float64), np.inf)
    answer = milp(
        np.append(np.zeros(len(kind)), 1.0),
        constraints=LinearConstraint(matrix.tocsr(), low, high),
        bounds=Bounds(np.zeros(len(kind) + 1), upper),
        integrality=np.append(np.ones(len(kind)), 0),
        options={"time_limit": seconds, "mip_rel_gap": relative_gap},
    )
    least = closes.bound(clos, flows)
    if answer.mip_dual_bound is not None and np.isfinite(answer.mip_dual_bound):
        least = max(least, float(answer.mip_dual_bound) * unit)
    if answer.x is None:
        return Optimum(least, np.inf)
    found = float(answer.x[-1]) * unit
    # Flows of a kind take its spines in turn, as many each as the solution says.
    flow = np.flatnonzero(outward)[np.argsort(of_kind.reshape(-1), kind="stable")]
    spines[flow] = np.repeat(spine, np.rint(answer.x[:-1]).astype(np.int64))
    return Optimum(min(least, found), found, spines)
