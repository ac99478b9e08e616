"""What jobs send over RDMA on this host: `PlanPublisher` reads it, the whole package uses it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hostcc.daemon.rdma.pairs import Sender, Senders, elephants
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute
from hostcc.daemon.rdma.rates import Rates
from hostcc.daemon.supervisor import Host
from hostcc.measure.discover.owners import Owners
from hostcc.measure.rdma_counters import SYSFS

READ_S = 1.0
"""Between two readings of the counters."""


class SenderTracker:
    """Processes of jobs that send, their rates, and the PCIe links that they cross.

    `PlanPublisher` has counters read, `Turns` writes gates, links and capacities.
    """

    def __init__(
        self,
        host: Host,
        owners: Callable[[], Owners],
        sysfs: Path = SYSFS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._owners, self.sysfs = host, owners, sysfs
        self._clock = clock
        self._rates = Rates()
        self._due = 0.0
        self.senders: tuple[Sender, ...] = ()
        self.rates: Mapping[QueuePairRoute, float] = {}
        """Bytes per second, steady: for plans and other hosts."""
        self.gates: Mapping[str, tuple[tuple[str, int], ...]] = {}
        """Job -> (RDMA device, number of the PCIe link's semaphore)."""
        self.inside: Mapping[tuple[str, str], tuple[str, ...]] = {}
        """(Job, RDMA device) -> PCIe links that what it sends crosses."""
        self.capacities: Mapping[str, float] = {}
        """PCIe link -> bytes per second."""

    def disabled_reason(self) -> str:
        """Return why there are no counters to read, or nothing may act on them."""
        if not self._host.config.rdma.enabled:
            return "rdma.enabled is false"
        if self._host.engine is None:
            return "the agent only observes"
        return "" if self.sysfs.is_dir() and any(self.sysfs.iterdir()) else "no RDMA device"

    def look(self) -> bool:
        """Read the counters if that is due, and return whether it was."""
        now = self._clock()
        if now < self._due:
            return False
        self._due = now + READ_S
        counts = Path(self._host.config.rdma.counts)
        self.senders = Senders(counts, self._owners, self.sysfs).read()
        least = self._host.config.rdma.long_message_bytes
        self.rates = self._rates.take(elephants(self.senders, least), now)
        return True

    def processes(self) -> dict[str, dict[int, Path]]:
        """Return job -> its processes that have queue pairs -> their files of counters."""
        found: dict[str, dict[int, Path]] = {}
        for one in self.senders:
            if one.pairs:
                found.setdefault(one.job, {})[one.pid] = one.counts
        return found

    def speeds(self) -> dict[str, float]:
        """Return RDMA device -> bytes per second that jobs sent by it lately."""
        found: dict[str, float] = {}
        for way, rate in self._rates.lately.items():
            found[way.device] = found.get(way.device, 0.0) + rate
        return found

    def forget(self) -> None:
        """Start anew, without rates."""
        self._rates, self._due = Rates(), 0.0
        self.senders, self.rates = (), {}
