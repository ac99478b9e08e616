"""A host with one RDMA device in a folder, and processes whose counters are files there.

Absent hardware: the device is a tree that mirrors sysfs, the counters are written by the test.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.job import JobRequest
from hostcc.config.sections.mltcp import MltcpConfig
from hostcc.config.sections.pcie import PcieConfig
from hostcc.config.sections.rdma import RdmaConfig
from hostcc.daemon.rdma.senders import SenderTracker
from hostcc.measure.discover.owners import Owners
from hostcc.mltcp.params import Mode
from hostcc.verbs import plan_region
from tests.daemon.profiling.hosts import ToyHost

HERE, THERE = "198.18.1.1", "198.18.2.1"
RATE = 25e9
"""Of the device, bytes per second."""


class Fixed(Owners):
    """Whose each process is, as told."""

    def __init__(self, jobs: dict[int, str]) -> None:
        object.__setattr__(self, "jobs", jobs)

    def of(self, pid: int) -> str | None:
        jobs: dict[int, str] = self.__dict__["jobs"]
        return jobs.get(pid)


class World:
    def __init__(self, folder: Path, devices: Iterable[str] = ("mlx5_0",), **rdma: Any) -> None:
        self.folder = folder
        places = {"plan": str(folder / "plan"), "counts": str(folder / "qp")}
        config = Config(
            agent=AgentConfig(network_namespaces="own", heartbeat_s=0.1, heartbeat_stale_s=1.5),
            mltcp=MltcpConfig(mode=Mode.MLTCP),
            rdma=msgspec.convert({**places, **rdma}, RdmaConfig),
            pcie=PcieConfig(semaphores=str(folder / "semaphores")),
        )
        self.host = ToyHost(folder, config)
        self.sysfs = folder / "infiniband"
        self.sysfs.mkdir()
        for device in devices:
            port = self.sysfs / device / "ports/1"
            (port / "gids").mkdir(parents=True)
            (port / "gids/3").write_text("0000:0000:0000:0000:0000:ffff:c612:0101\n")
            (port / "rate").write_text("200 Gb/sec (4X HDR)\n")
            (port / "gid_attrs/ndevs").mkdir(parents=True)
            (port / "gid_attrs/ndevs/0").write_text("eth0\n")
        self.owners: dict[int, str] = {}
        self.now = 100.0
        self.tracker = SenderTracker(
            self.host, lambda: Fixed(self.owners), self.sysfs, lambda: self.now
        )
        self.pids: list[int] = []

    def job(self, name: str, weight: float | None = None) -> None:
        table = self.host.engine.table if self.host.engine else self.host.act()
        table.register(name, JobRequest(weight=weight), os.getpid())

    def process(self, job: str, pid: int | None = None, device: str = "mlx5_0") -> Process:
        """`pid`: of a process that there is; each has one file."""
        pid = pid or os.getpid()
        self.owners[pid] = job
        return Process(self.folder / f"qp.{pid}", job, device)


class Process:
    """A process of a job with one queue pair."""

    def __init__(self, path: Path, job: str, device: str) -> None:
        self._path = path
        self.errors = 0
        self.completed, self.busy_s, self.open_at = 0, 0.0, 0.0
        self._counts = plan_region.CountsEntry(
            magic=plan_region.MAGIC, version=plan_region.VERSION, name=job.encode()
        )
        pair = self._counts.qp[7]
        pair.qpn, pair.device, pair.source = 7, device.encode(), 1 << 16 | 3
        pair.dgid[:] = plan_region.gid_of(THERE)
        self.count(0)

    def count(
        self,
        sent: int,
        port: int = 0,
        traffic_class: int = 0,
        iterations: int = 0,
        now: int = 0,
        longest: int = 0,
    ) -> None:
        pair = self._counts.qp[7]
        pair.bytes, pair.port, pair.traffic_class, pair.longest = sent, port, traffic_class, longest
        pair.errors, pair.completed = self.errors, self.completed
        pair.busy_ns, pair.open_ns = round(self.busy_s * 1e9), round(self.open_at * 1e9)
        self._counts.iterations, self._counts.iteration = iterations, now
        self._path.write_bytes(bytes(self._counts))


assert ctypes.sizeof(plan_region.CountsEntry) < 1 << 20
