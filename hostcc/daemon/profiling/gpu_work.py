"""Work on GPUs, job by job, from the driver's samples and whose each process is."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence

from hostcc.answers.parts import GpuPart
from hostcc.daemon.supervisor import Host
from hostcc.measure.discover.owners import Owners
from hostcc.measure.gpu.nvml import Nvml
from hostcc.measure.gpu.poller import Driver, Poller
from hostcc.measure.work import Interval, attribute
from hostcc.model import Difference

MAX_INTERVALS = 1200
"""Intervals kept per job: two minutes in steps of 0.1 s."""
TICK_S = 1.0
STALLED = "the NVIDIA driver does not answer"


class Gpus:
    """What jobs did on this host's GPUs; looks only while there are jobs.

    `owners`: whose each process is now.  `jobs`: which jobs there are.
    """

    name = "gpu"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        owners: Callable[[], Owners],
        jobs: Callable[[], Collection[str]],
        driver: Callable[[], Driver] = Nvml,
    ) -> None:
        self._host = host
        self._owners = owners
        self._jobs = jobs
        self._driver = driver
        self._poller: Poller | None = None
        self._interval_s = 0.0
        self._kept: dict[str, deque[Interval]] = {}
        self._gpus = 0

    def disabled_reason(self) -> str:
        """Configured away, or nobody to look for?"""
        if not self._host.config.gpu.enabled:
            return "gpu.enabled is false"
        return "" if self._jobs() else "no jobs"

    def start(self) -> None:
        """Begin to look."""
        self._interval_s = self._host.config.gpu.interval_s
        self._poller = Poller(self._driver, self._interval_s)
        self._poller.start()

    async def tick(self) -> None:
        """Give what was seen to whom it belongs."""
        if self._interval_s != self._host.config.gpu.interval_s:
            self.stop()
            self.start()
        assert self._poller is not None
        samples = self._poller.take()
        pids = {pid for sample in samples for reading in sample.readings for pid in reading.pids}
        whose = self._owners().of_all(pids) if pids else {}
        for sample in samples:
            self._gpus = len(sample.readings)
            for job, interval in attribute(sample.readings, whose).items():
                self._kept.setdefault(job, deque(maxlen=MAX_INTERVALS)).append(interval)
        oldest, jobs = time.monotonic() - MAX_INTERVALS * self._interval_s, self._jobs()
        self._kept = {
            job: kept
            for job, kept in self._kept.items()
            if job in jobs and kept[-1].end_s >= oldest
        }

    def stop(self) -> None:
        """Let go of the driver."""
        if self._poller is not None:
            self._poller.stop(patience_s=0.2)
        self._poller, self._gpus, self._kept = None, 0, {}

    def verify(self) -> list[Difference]:
        """Nothing is changed here."""
        return []

    def view(self) -> GpuPart:
        """How many GPUs are read, or why none."""
        why = self.why
        return GpuPart(gpus=0 if why else self._gpus, reason=why or None)

    @property
    def why(self) -> str:
        """Why there is nothing to know; empty while there is."""
        if self._poller is None:
            return self.disabled_reason() or "not looked at yet"
        return STALLED if self._poller.stalled else self._poller.why

    def intervals(self, job: str) -> Sequence[Interval]:
        """What a job did, oldest first."""
        return tuple(self._kept.get(job, ()))
