"""Writes the plan for jobs with RDMA into shared memory: the agent's side of plan.h.

`PlanRegion.create` makes the region, `publish` changes jobs' entries, `beat` keeps it alive:
without a beat for `stale_s` the shims of the jobs let everything pass unchanged.
"""

from __future__ import annotations

import ctypes
import ipaddress
import mmap
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostcc.errors import HostccError, InputError
from hostcc.limits import is_job_name
from hostcc.pcie.layout import LEVELS, MAX_LINKS
from hostcc.system import region_file
from hostcc.system.region_file import RegionFile
from hostcc.verbs.ports import FIRST, LAST

DEFAULT_PATH = Path("/dev/shm/hostcc-rdma")
STALE_S = 3.0
MAGIC, VERSION = 0x6D64726363736F68, 3
MAX_JOBS, NAME_BYTES, PATHS, PORTS, F_POINTS, QPS = 256, 72, 32, 8, 33, 1024
GATES, DEVICE_BYTES = 16, 28
CLASS, RATE, GATE = 1, 2, 4
BACK = 1
"""Flag of a path: queue pairs go back to the one that they had."""
_u8, _u16, _u32, _u64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64


class PathEntry(ctypes.Structure):
    """struct hcc_rdma_path."""

    _fields_ = (
        ("dgid", _u8 * 16), ("ports", _u16 * PORTS), ("count", _u16), ("flags", _u16),
        ("reserved", _u16 * 2),
    )  # fmt: skip


class GateEntry(ctypes.Structure):
    """struct hcc_rdma_gate."""

    _fields_ = (("device", ctypes.c_char * DEVICE_BYTES), ("link", _u32))


class JobEntry(ctypes.Structure):
    """struct hcc_rdma_job."""

    _fields_ = (
        ("sequence", _u32), ("flags", _u32), ("name", ctypes.c_char * NAME_BYTES),
        ("traffic_class", _u32), ("level", _u32), ("gates", _u32), ("silence_us", _u32),
        ("rate", _u64), ("iteration_bytes", _u64), ("f_milli", _u32 * F_POINTS),
        ("paths", _u32), ("path", PathEntry * PATHS), ("gate", GateEntry * GATES),
        ("closed_until_ns", _u64), ("burst_period_ns", _u64), ("burst_silence_ns", _u64),
    )  # fmt: skip


_GATE_AT = JobEntry.closed_until_ns.offset


class Header(ctypes.Structure):
    """struct hcc_rdma_plan, without its jobs."""

    _fields_ = (
        ("magic", _u64), ("version", _u32), ("jobs", _u32), ("size", _u64), ("beat", _u64),
        ("stale_us", _u32), ("generation", _u32), ("long_bytes", _u64), ("padding", _u64 * 2),
    )  # fmt: skip


class CountEntry(ctypes.Structure):
    """struct hcc_rdma_count."""

    _fields_ = (
        ("qpn", _u32), ("port", _u32), ("traffic_class", _u32), ("moves", _u32),
        ("failed", _u32), ("source", _u32), ("bytes", _u64), ("iteration", _u64),
        ("dgid", _u8 * 16), ("device", ctypes.c_char * DEVICE_BYTES), ("longest", _u32),
        ("errors", _u32), ("reserved", _u32), ("completed", _u64), ("busy_ns", _u64),
        ("open_ns", _u64), ("padding", _u64),
    )  # fmt: skip


class CountsEntry(ctypes.Structure):
    """struct hcc_rdma_counts."""

    _fields_ = (
        ("magic", _u64), ("version", _u32), ("pid", _u32), ("name", ctypes.c_char * NAME_BYTES),
        ("iterations", _u64), ("paced_ns", _u64), ("iteration", _u64),
        ("left_alone", _u64), ("burst", _u64), ("bursts", _u64), ("holds", _u64),
        ("held_ns", _u64), ("padding", _u64 * 5), ("qp", CountEntry * QPS),
    )  # fmt: skip


@dataclass(frozen=True)
class Pacing:
    """A job's send rate as a function of its progress through an iteration."""

    rate: float
    """Bytes per second of this process at F = 1."""
    iteration_bytes: int
    """Bytes of this process in an iteration."""
    f: tuple[float, ...]
    """F at 33 evenly spaced bytes_ratios from 0 to 1."""


@dataclass(frozen=True)
class RdmaJob:
    """Plan of one job with RDMA on this host."""

    name: str
    traffic_class: int | None = None
    """The whole byte, ECN bits 0 (DSCP << 2); None: the job's own."""
    ports: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(Destination address or GID, UDP source ports of its queue pairs, in turn); no port: they go
    back to the path that they had before."""
    pacing: Pacing | None = None
    level: int = 0
    """Level at the semaphores, 0 the highest."""
    gates: tuple[tuple[str, int], ...] = ()
    """(RDMA device or empty: any, link in the region of PCIe semaphores) of its queue pairs."""
    silence_s: float = 1e-3
    """A new iteration begins after no post for so long."""


@dataclass(frozen=True)
class BurstGate:
    """The gate of a job's bursts, while it is armed."""

    closed_until_ns: int
    """CLOCK_MONOTONIC; 0: it is open."""
    period_ns: int
    """From one burst to the next, at least 1; none is held for longer."""
    silence_ns: int
    """Nothing on its way for so long: the burst is over."""


class PlanRegion:
    """The plan in shared memory; for one writer."""

    def __init__(self, path: Path, mapped: mmap.mmap, jobs: int, file: RegionFile) -> None:
        self.path = path
        self._file = file
        self._mapped = mapped
        self._published: dict[int, tuple[str, bytes]] = {}
        self._header = Header.from_buffer(mapped)
        self._jobs = (JobEntry * jobs).from_buffer(mapped, ctypes.sizeof(Header))

    @classmethod
    def create(
        cls,
        path: Path = DEFAULT_PATH,
        jobs: int = MAX_JOBS,
        stale_s: float = STALE_S,
        long_bytes: int = 0,
    ) -> PlanRegion:
        """Make the region.  Jobs that have an older one open see it go stale.

        `long_bytes`: queue pairs with shorter messages only keep their path and class.
        """
        if not 1 <= jobs <= MAX_JOBS or not 0 < stale_s <= 60:
            raise InputError(f"jobs {jobs}, stale_s {stale_s}: expected 1 to {MAX_JOBS}, to 60 s")
        size = ctypes.sizeof(Header) + jobs * ctypes.sizeof(JobEntry)
        try:
            path.unlink(missing_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(path, flags, 0o644)
            try:
                os.fchmod(fd, 0o644)
                os.posix_fallocate(fd, 0, size)  # who writes to a hole of a full /dev/shm dies
                mapped = mmap.mmap(fd, size)
                file = RegionFile.opened(path, fd)
            except OSError:
                path.unlink(missing_ok=True)
                raise
            finally:
                os.close(fd)
        except OSError as error:
            raise HostccError(f"{path}: {error.strerror}") from None
        region = cls(path, mapped, jobs, file)
        header = region._header
        header.version, header.jobs, header.size = VERSION, jobs, size
        region.set(stale_s, long_bytes)
        region.beat()
        header.magic = MAGIC
        return region

    def set(self, stale_s: float, long_bytes: int) -> None:
        """Change what `create` was given, live."""
        self._header.stale_us = round(stale_s * 1e6)
        if self._header.long_bytes != long_bytes:
            self._header.long_bytes = long_bytes
            self._renew()  # another queue pair may be one that the plan is for

    def beat(self) -> None:
        """Write the agent's heartbeat."""
        self._header.beat = time.monotonic_ns()

    def publish(self, jobs: Sequence[RdmaJob]) -> None:
        """Write these jobs' entries, and remove others.  Raises InputError."""
        if len(jobs) > len(self._jobs) or len({job.name for job in jobs}) != len(jobs):
            raise InputError(f"jobs: expected at most {len(self._jobs)}, each once")
        entries = {job.name: _entry(job) for job in jobs}
        taken = [bytes(slot.name).decode(errors="replace") for slot in self._jobs]
        for index, name in enumerate(taken):
            if name and name not in entries:
                self._write(index, JobEntry())
                taken[index] = ""
        for name, entry in entries.items():
            index = taken.index(name) if name in taken else taken.index("")
            taken[index] = name
            self._write(index, entry)
        self._renew()

    def _renew(self) -> None:
        # Shims look at all of their queue pairs.
        self._header.generation = (self._header.generation + 1) & 0xFFFFFFFF

    def _write(self, index: int, entry: JobEntry) -> None:
        slot = self._jobs[index]
        sequence = slot.sequence | 1
        slot.sequence = sequence
        entry.sequence = sequence
        same = bytes(slot.name) == bytes(entry.name)  # then its gate stays as it is
        size = _GATE_AT if same else ctypes.sizeof(entry)
        ctypes.memmove(ctypes.byref(slot), ctypes.byref(entry), size)
        slot.sequence = (sequence + 1) & 0xFFFFFFFF
        name = bytes(slot.name).decode(errors="replace")
        self._published[index] = name, bytes(slot)[:_GATE_AT]

    def set_gate(self, job: str, gate: BurstGate | None) -> bool:
        """Write the gate of a job's bursts, None: it is not armed; returns whether the job has an
        entry."""
        slot = self._slot(job)
        if slot is None:
            return False
        armed = gate or BurstGate(0, 0, 0)
        slot.closed_until_ns, slot.burst_silence_ns = armed.closed_until_ns, armed.silence_ns
        slot.burst_period_ns = armed.period_ns
        return True

    def gate(self, job: str) -> BurstGate | None:
        """Read the gate of a job's bursts; None: it is not armed."""
        slot = self._slot(job)
        if slot is None or not slot.burst_period_ns:
            return None
        return BurstGate(slot.closed_until_ns, slot.burst_period_ns, slot.burst_silence_ns)

    def _slot(self, job: str) -> JobEntry | None:
        at = next((at for at, (name, _) in self._published.items() if name == job), None)
        return self._jobs[at] if at is not None and job else None

    def problem(self) -> str:
        """Say what is wrong with the file that jobs would open now; empty: nothing."""
        return self._file.problem(
            lambda facts: "others may write it" if facts.st_mode & 0o022 else ""
        )

    def altered(self) -> list[str]:
        """List jobs whose entries are not as they were published."""
        return [
            name
            for index, (name, raw) in sorted(self._published.items())
            if bytes(self._jobs[index])[:_GATE_AT] != raw
        ]

    def close(self) -> None:
        """Remove the region; the shims let everything pass unchanged at once."""
        self._header.beat = 0
        self._file.unlink()
        del self._header, self._jobs
        self._mapped.close()


def _entry(job: RdmaJob) -> JobEntry:
    if not is_job_name(job.name):
        raise InputError(f"{job.name!r:.80}: expected a job's name")
    entry = JobEntry(name=job.name.encode(), silence_us=max(1, round(job.silence_s * 1e6)))
    if job.traffic_class is not None:
        if not 0 <= job.traffic_class <= 0xFC or job.traffic_class & 3:
            raise InputError(f"{job.name}: traffic_class: expected DSCP << 2")
        entry.flags |= CLASS
        entry.traffic_class = job.traffic_class
    if job.pacing is not None:
        if job.pacing.rate < 1 or job.pacing.iteration_bytes < 1 or len(job.pacing.f) != F_POINTS:
            raise InputError(f"{job.name}: pacing: expected a rate, bytes and {F_POINTS} points")
        entry.flags |= RATE
        entry.rate, entry.iteration_bytes = int(job.pacing.rate), job.pacing.iteration_bytes
        entry.f_milli[:] = [min(max(round(value * 1000), 10), 100_000) for value in job.pacing.f]
    _add_gates(entry, job)
    if len(job.ports) > PATHS:
        raise InputError(f"{job.name}: ports: expected at most {PATHS} destinations")
    entry.paths = len(job.ports)
    for place, (destination, ports) in enumerate(job.ports):
        if len(ports) > PORTS or not all(FIRST <= port <= LAST for port in ports):
            raise InputError(f"{job.name}: ports: expected up to {PORTS} from {FIRST} to {LAST}")
        entry.path[place].dgid[:] = gid_of(destination)
        entry.path[place].count = len(ports)
        entry.path[place].flags = 0 if ports else BACK
        entry.path[place].ports[: len(ports)] = list(ports)
    return entry


def _add_gates(entry: JobEntry, job: RdmaJob) -> None:
    # Raises InputError.
    if len(job.gates) > GATES or not 0 <= job.level < LEVELS:
        raise InputError(f"{job.name}: gates: expected at most {GATES}, a level below {LEVELS}")
    entry.level, entry.gates = job.level, len(job.gates)
    entry.flags |= GATE if job.gates else 0
    for place, (device, link) in enumerate(job.gates):
        if len(device.encode()) >= DEVICE_BYTES or not 0 <= link < MAX_LINKS:
            raise InputError(f"{job.name}: gates: expected a device's short name and a link")
        entry.gate[place].device, entry.gate[place].link = device.encode(), link


def remove(path: Path) -> bool:
    """Remove the plan of a dead agent; returns whether there was one."""
    return region_file.remove(path, MAGIC)


def gid_of(address: str) -> bytes:
    """Make the RoCEv2 GID of an address: IPv4 is mapped into IPv6.  Raises InputError."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise InputError(f"{address!r:.60}: expected an IP address or GID") from None
    if isinstance(parsed, ipaddress.IPv4Address):
        return bytes(10) + b"\xff\xff" + parsed.packed
    return parsed.packed
