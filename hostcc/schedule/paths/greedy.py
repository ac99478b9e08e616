"""Greedy path choice: one flow after the other on its least congested path (LPT).

For max-min fairness on a two-layer Clos (Cohen et al., Routing for Large ML Models, 2025). The
result is within a factor 2 of the best for equal demands, 3 - 2/m for m spines otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints


def place(
    fabric: Fabric,
    table: Ints,
    demand: Floats,
    flows: Iterable[int],
    choice: Ints,
    load: Floats | None = None,
    only: Ints | None = None,
) -> Ints:
    """Return (F,) `choice` with `flows` placed in their order; entries of -1 are not placed yet.

    A flow takes the first candidate with the least peak load over capacity, its own included. A
    flow without usable candidates stays at -1. `load` (L + 2,): present load of the links, if it is
    not that of `choice`. Flows of `table` -1 have one path, candidate 0, with the links `only` (F,
    H); PAD fills short ones.
    """
    choice = choice.copy()
    load = fabrics.loads(fabric, table, demand, choice) if load is None else load.astype(np.float64)
    load[-1] = np.inf
    capacity = fabric.capacity
    alike = bool(np.all(capacity[:-2] == capacity[:1]))
    dead = np.logical_not(fabric.usable.any(axis=1)).tolist()
    hops = fabric.table.transpose(0, 2, 1)
    tables, sizes = table.tolist(), demand.tolist()
    for flow in flows:
        if only is not None and tables[flow] < 0:
            choice[flow] = 0
            load[only[flow]] += sizes[flow]
            load[-2] = 0.0
            continue
        if dead[tables[flow]]:
            continue
        paths = hops[tables[flow]]
        use = load.take(paths)
        if not alike:
            use = (use + sizes[flow]) / capacity[paths]
        best = int(np.maximum.reduce(use, axis=0).argmin())
        choice[flow] = best
        load[paths[:, best]] += sizes[flow]
        load[-2] = 0.0
    return choice


def longest_first(fabric: Fabric, table: Ints, demand: Floats, key: Ints | None = None) -> Ints:
    """Return (F,) candidates by `place`, the largest demands first (LPT)."""
    empty = np.full(len(demand), -1, np.int64)
    return place(fabric, table, demand, fabrics.order(demand, table, key).tolist(), empty)


def listed_order(fabric: Fabric, table: Ints, demand: Floats) -> Ints:
    """Return (F,) candidates by `place`, in the given order: the routing paper's greedy."""
    empty = np.full(len(demand), -1, np.int64)
    return place(fabric, table, demand, range(len(demand)), empty)
