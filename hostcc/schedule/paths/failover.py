"""Failover: after a failure only the stranded flows move; the others keep their paths.

In any fabric.  daemon/steering/failover_moves.py prepares it for a host's own flows.
"""

from __future__ import annotations

import numpy as np

from hostcc.schedule.paths import greedy
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints

CUT_OFF = -1


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
