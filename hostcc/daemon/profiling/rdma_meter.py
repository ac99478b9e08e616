"""Bytes that bypass sockets: of queue pairs by the shim, else of ports that one job uses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hostcc.answers.parts import RdmaPart
from hostcc.daemon.changes import kinds, mechanisms
from hostcc.daemon.profiling.queue_pair_meter import QueuePairMeter
from hostcc.daemon.profiling.routes import Route
from hostcc.daemon.profiling.tracks import Track, apart
from hostcc.daemon.supervisor import Host, in_thread
from hostcc.limits import is_job_name
from hostcc.log import get_logger
from hostcc.measure.destinations import Address
from hostcc.measure.discover.owners import Owners
from hostcc.measure.measured_profile import Link
from hostcc.measure.rdma_counters import (
    SYSFS,
    ByteFiles,
    HostRdma,
    Process,
    RdmaCounters,
    byte_files,
)
from hostcc.measure.series import Bins, ByteSeries
from hostcc.model import Change, Difference

log = get_logger("rdma")

TICK_S = 0.05
BIN_NS = 1 << 26
"""67 ms: the kernel keeps counters for some milliseconds, and reading them costs."""
OWNER_SCAN_S = 10.0
"""Between scans for the owners of queue pairs, seconds."""
Key = tuple[str, int]
"""Device, port."""


class BypassTraffic(NamedTuple):
    """What is known of a job's traffic that bypasses sockets."""

    track: Track
    links: Sequence[Link]
    """Ports that carry it, where it has no destinations."""
    ways: Mapping[Address, Route]
    """Destination -> the port that sends there."""


class Rdma:
    """Reads the bins of jobs with the shim, and ports' counters for the others.

    Binds queue pairs to counters by process, to learn whose a port's bytes are.
    `owners`: whose each process is now.
    """

    name = "rdma"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        owners: Callable[[], Owners],
        counters: Callable[[], RdmaCounters] = HostRdma,
        sysfs: Path = SYSFS,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._host = host
        self._owners = owners
        self._make = counters
        self._sysfs = sysfs
        self._clock_ns = clock_ns
        self._pairs = QueuePairMeter(owners, sysfs)
        self._counters: RdmaCounters | None = None
        self._files: tuple[ByteFiles, ...] = ()
        self._why: dict[Key, str] = {}
        """Why a port's queue pairs are not told apart by process."""
        self._whose: dict[Key, frozenset[str]] = {}
        self._whose_due_ns = 0
        self._unanswered = False
        """Whether nobody could say whose they are when that was asked last."""
        self._analysing: asyncio.Task[None] | None = None
        self._last: dict[Key, tuple[int, int]] = {}
        self._bins: dict[str, list[int]] = {}
        """Job -> bytes sent and received in the bin that is not over."""
        self._bin = 0
        self._tracks: dict[str, Track] = {}
        self._ports: dict[str, set[Key]] = {}
        self._links: dict[Key, Link] = {}
        """Of each port, made once: links are told apart by identity."""

    def disabled_reason(self) -> str:
        """Is there anything to read?"""
        if not self._host.config.measure.enabled:
            return "measure.enabled is false"
        return "" if self._sysfs.is_dir() and any(self._sysfs.iterdir()) else "no RDMA device"

    def start(self) -> None:
        """Find the counters of bytes."""
        self._counters = self._make()
        self._files = tuple(byte_files(self._sysfs))
        self._links = {
            (one.device, one.port): Link(f"{one.device}/{one.port}", one.rate_bps)
            for one in self._files
        }
        self._last, self._whose_due_ns, self._unanswered = {}, 0, False
        self._pairs.start()
        self._bin = self._clock_ns() // BIN_NS

    async def tick(self) -> None:
        """Read; close bins that are over; now and then ask whose they are."""
        now_ns = self._clock_ns()
        if now_ns >= self._whose_due_ns:
            self._whose_due_ns = now_ns + int(OWNER_SCAN_S * 1e9)
            await self._ask_whose()
        read = {(one.device, one.port): one.read() for one in self._files}
        self._close_bins(now_ns // BIN_NS)
        for key, now in read.items():
            before, jobs = self._last.get(key), self._whose.get(key, frozenset())
            if now is None:
                continue
            self._last[key] = now
            (job,) = jobs if len(jobs) == 1 else ("",)
            if before is not None and is_job_name(job):
                self._add(job, key, before, now)
        await self._pairs.tick(Path(self._host.config.rdma.counts), now_ns)

    async def stop(self) -> None:
        """Undo the bindings."""
        if self._analysing is not None:
            self._analysing.cancel()
            self._analysing = None
        self._pairs.stop()
        for change in [one for one in self._host.journal.active.values() if one.what == kinds.RDMA]:
            await self._unbind(change)
        self._counters, self._files, self._whose = None, (), {}
        self._tracks, self._bins, self._ports, self._links = {}, {}, {}, {}

    def verify(self) -> list[Difference]:
        """Counters tell nobody who else has changed the mode of a port."""
        return []

    def view(self) -> RdmaPart:
        """Ports that count bytes, and why not more is known."""
        by_shim = self._pairs.names
        shared = {
            f"{device}/{port}": "several jobs use it: their bytes cannot be told apart"
            for (device, port), jobs in self._whose.items()
            if len(jobs) > 1 and not jobs <= {*by_shim}
        }
        why = {f"{device}/{port}": words for (device, port), words in self._why.items()}
        return RdmaPart(ports=len(self._files), by_shim=by_shim, unknown={**why, **shared})

    @property
    def below(self) -> Mapping[str, str]:
        """Port (`DEVICE/PORT`) -> the network device that carries it."""
        return self._pairs.below

    def track(self, job: str) -> BypassTraffic | None:
        """What is known of a job's RDMA traffic; None without any.

        Bins of the shim are finer than those of a port, and of this job alone.
        """
        if (counted := self._pairs.traffic(job)) is not None:
            return BypassTraffic(counted[0], (), counted[1])
        track = self._tracks.get(job)
        if track is None:
            return None
        ports = self._ports.get(job, set())
        links = [self._links[port] for port in ports] if len(ports) == 1 else []
        return BypassTraffic(track, links, {})

    # Whose.

    async def _ask_whose(self) -> None:
        assert self._counters is not None
        if self._host.engine is not None:
            for one in self._files:
                await self._bind(one.device, one.port)
        reading = await asyncio.to_thread(self._counters.read)
        # After one failure they are whose they were: a job would seem silent until the next scan.
        if reading.processes is not None or self._unanswered:
            self._whose = self._jobs_of(reading.processes or ())
        self._unanswered = reading.processes is None
        self._forget(self._clock_ns())

    def _forget(self, now_ns: int) -> None:
        """Keep nothing of jobs that have neither queue pairs nor sent anything lately."""
        there = {name for names in self._whose.values() for name in names}
        for name in self._tracks.keys() | self._bins.keys() | self._ports.keys():
            track = self._tracks.get(name)
            if name not in there and (track is None or not track.sending(now_ns)):
                for kept in (self._tracks, self._bins, self._ports):
                    kept.pop(name, None)

    def _jobs_of(self, processes: tuple[Process, ...]) -> dict[Key, frozenset[str]]:
        whose = self._owners().of_all({process.pid for process in processes})
        found: dict[Key, set[str]] = {}
        for process in processes:
            name = whose.get(process.pid, f"process {process.pid}")
            found.setdefault((process.device, process.port), set()).add(name)
        return {key: frozenset(names) for key, names in found.items()}

    async def _bind(self, device: str, port: int) -> None:
        assert self._counters is not None
        change = kinds.rdma_counters(device, port)
        if change.id in self._host.journal.active or (device, port) in self._why:
            return
        self._host.journal.begin(change)
        why = await in_thread(self._counters.bind_by_process, device, port)
        if why:
            self._host.journal.undone([change.id], f"failed: {why}")
            self._why[device, port] = why
            log.info("queue pairs are not told apart", device=device, port=port, reason=why)

    async def _unbind(self, change: Change) -> None:
        counters = self._counters or self._make()
        if why := await in_thread(mechanisms.unbind_counters, change, counters):
            device, port = kinds.port_of(change)
            log.warning("not undone", device=device, port=port, reason=why)
        else:
            self._host.journal.undone([change.id], "measuring ended")

    # Bytes.

    def _add(self, job: str, key: Key, before: tuple[int, int], now: tuple[int, int]) -> None:
        sent, taken = (max(0, new - old) for old, new in zip(before, now, strict=True))
        bins = self._bins.setdefault(job, [0, 0])
        bins[0] += sent
        bins[1] += taken
        self._ports.setdefault(job, set()).add(key)

    def _close_bins(self, now_bin: int) -> None:
        """Hand the bins that are over to the tracks; what was read late is in the first of them."""
        count = now_bin - self._bin
        if count <= 0:
            return
        for job in [job for job, sums in self._bins.items() if any(sums) or job in self._tracks]:
            tx, rx = np.zeros((2, count), np.int64)
            tx[0], rx[0] = self._bins[job]
            self._bins[job] = [0, 0]
            track = self._tracks.setdefault(job, Track(job))
            with apart(track):
                track.take(ByteSeries(BIN_NS, self._bin * BIN_NS, tx, rx))
        self._bin = now_bin
        self._start_analyses()

    def _start_analyses(self) -> None:
        """Look for patterns, in a thread: counters are to be read in time meanwhile."""
        if self._analysing is not None and not self._analysing.done():
            return
        due = list[tuple[Track, Bins]]()
        for track in [track for track in self._tracks.values() if track.due]:
            with apart(track):
                due.append((track, track.collect()))
        if due:
            self._analysing = asyncio.get_running_loop().create_task(_analyse(due))


async def _analyse(due: Sequence[tuple[Track, Bins]]) -> None:
    for track, new in due:
        with apart(track):
            await asyncio.to_thread(track.analyse, new)
