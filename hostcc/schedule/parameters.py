"""Congestion-control weights of a plan, which express its order where switches know no priorities.

MLTCP's F(bytes_ratio) is multiplied by a weight (hostcc.mltcp.params.JobParams.weight). Among jobs
that share links it falls with the level. So jobs that the network serves alike still share in the
plan's order. The host keeps its own shape of F, and learns the totals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.problem import Floats, Ints

WEIGHT = "weight"
"""Name of the parameter in a plan."""
WEIGHT_SPAN = 4.0
"""Weight of the highest level divided by that of the lowest."""
WEIGHT_MIN, WEIGHT_MAX = 0.01, 100.0
"""Range of weights that a host accepts."""


def weights(level: Ints, owner: Floats, competing: NDArray[np.bool_]) -> Floats:
    """Return (J,) the owner's weight times a factor for the level.

    Over the levels that `competing` jobs use, the factor falls from sqrt(WEIGHT_SPAN) to 1 /
    sqrt(WEIGHT_SPAN) in equal ratios. It is 1 for the other jobs.
    """
    factor = np.ones(len(level))
    used, place = np.unique(level[competing], return_inverse=True)
    if len(used) > 1:
        # Rounded, because powers differ in their last digit between machines.
        steps = [round(WEIGHT_SPAN ** (0.5 - at / (len(used) - 1)), 4) for at in range(len(used))]
        factor[competing] = np.array(steps)[place.reshape(-1)]
    return np.clip(owner * factor, WEIGHT_MIN, WEIGHT_MAX)
