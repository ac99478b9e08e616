"""Congestion-control parameters of a plan: the order of priorities where switches know none.

MLTCP's F(bytes_ratio) is multiplied by a weight (hostcc.mltcp.params.JobParams.weight).  Among
jobs that share links it falls with the level, so that jobs which the network serves alike still
share in the plan's order; shape and totals stay as the host has them, which learns the totals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.problem import Floats, Ints

WEIGHT = "weight"
"""The name of the parameter."""
SPAN = 4.0
"""Weight of the highest level over that of the lowest."""
LEAST, MOST = 0.01, 100.0
"""What a host accepts."""


def weights(level: Ints, owner: Floats, competing: NDArray[np.bool_]) -> Floats:
    """(J,) the owner's weight, times sqrt(SPAN) on the highest of the levels that competing
    jobs have, down to 1 / sqrt(SPAN) on the lowest, in equal ratios; others: the owner's."""
    factor = np.ones(len(level))
    used, place = np.unique(level[competing], return_inverse=True)
    if len(used) > 1:
        # Powers differ in their last digit from one machine to another.
        steps = [round(SPAN ** (0.5 - at / (len(used) - 1)), 4) for at in range(len(used))]
        factor[competing] = np.array(steps)[place.reshape(-1)]
    return np.clip(owner * factor, LEAST, MOST)
