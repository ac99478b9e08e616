"""Who is at risk of contention, and who is served last, while a cluster is replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostcc.sim.flowsim.workload import Floats


@dataclass
class RiskRecord:
    """Means over time; a job is at risk while it shares a link that its jobs could fill."""

    gpus: Sequence[int]
    """(J,)"""
    seconds: float = 0.0
    """In which some job ran."""
    _since: float = 0.0
    _running: Sequence[int] = ()
    _risky: frozenset[int] = frozenset()
    _lowest: frozenset[int] = frozenset()
    _jobs: float = 0.0
    """Seconds times share of jobs."""
    _gpus: float = 0.0
    _ever: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.lowest: Floats = np.zeros(len(self.gpus))
        """(J,) seconds at the lowest level in use, below a contender."""
        self.present: Floats = np.zeros(len(self.gpus))
        """(J,) seconds."""

    def now(self, time: float, running: Sequence[int]) -> None:
        """Count what held until a time; from then on these jobs run."""
        span = time - self._since
        if span > 0 and self._running:
            here = [job for job in self._running if job in self._risky]
            self.seconds += span
            self._jobs += span * len(here) / len(self._running)
            whole = sum(self.gpus[job] for job in self._running)
            self._gpus += span * sum(self.gpus[job] for job in here) / whole
            self.present[list(self._running)] += span
            self.lowest[[job for job in self._running if job in self._lowest]] += span
        self._since, self._running = time, tuple(running)

    def planned(self, jobs: Sequence[int], risky: NDArray[np.bool_], levels: Sequence[int]) -> None:
        """A plan is made: which of its jobs share links, and their levels, 0 the highest."""
        here = [(job, level) for job, level, at in zip(jobs, levels, risky, strict=True) if at]
        self._risky = frozenset(job for job, _ in here)
        self._ever |= self._risky
        last = max((level for _, level in here), default=0)
        self._lowest = frozenset(job for job, level in here if level == last and last)

    def figures(self) -> Mapping[str, Any]:
        """Return shares of jobs and GPUs that run, means over time, and how many ever."""
        over = max(self.seconds, 1e-9)
        return {
            "jobs": self._jobs / over,
            "gpus": self._gpus / over,
            "jobs_ever": len(self._ever),
            "gpus_ever": sum(self.gpus[job] for job in self._ever),
        }
