"""Whose work is it: a GPU's use split between jobs by their processes.

Where the driver tells the SM use of each process, that is the measure; else processes
count alike.  Processes of no job take their part with them: it goes to nobody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

MAX_USE = 1e300
"""Of a process, in any unit: with more, sums would no longer be finite."""


def shares(
    pids: Sequence[int], pid_use: Mapping[int, float] | None, owners: Mapping[int, str]
) -> dict[str, float]:
    """Job -> its part of the GPU's use; all parts sum to at most 1.

    `pids`: processes with a context on the GPU.  `pid_use`: use of processes, in any unit,
    or None.  `owners`: process -> job.  A job that has a context but did nothing has part 0.
    """
    present = list(dict.fromkeys(pids))
    weights = {pid: _weight(use) for pid, use in (pid_use or {}).items()}
    if sum(weights.values()) <= 0:
        weights = dict.fromkeys(present, 1.0)
    # A process that ended between the two questions still did its work.
    total = sum(weights.values())
    parts = {owners[pid]: 0.0 for pid in present if pid in owners}
    for pid, weight in weights.items():
        job = owners.get(pid)
        if job is not None and weight > 0:
            parts[job] = parts.get(job, 0.0) + weight
    # Divided at the end, because a sum of rounded parts may exceed the whole.
    return {job: part / total if total > 0 else 0.0 for job, part in parts.items()}


def _weight(use: float) -> float:
    return min(use, MAX_USE) if math.isfinite(use) and use > 0 else 0.0
