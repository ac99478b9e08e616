"""Reads the counters of processes with the transport shim, from files that they own.

A process makes `hostcc-qp.PID` (plan.h: struct hcc_rdma_counts).  Anybody can put anything
there, so files are bounded and checked, and their owner is returned: the caller decides whom to
believe.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hostcc.limits import is_job_name
from hostcc.verbs.plan_region import MAGIC, VERSION, CountEntry, CountsEntry

DEFAULT_COUNTS = Path("/dev/shm/hostcc-qp")
MAX_COUNT_FILES = 4096
_HEAD = CountsEntry.qp.offset
_ENTRY = np.dtype(CountEntry)


@dataclass(frozen=True)
class QpCount:
    """Counters of one queue pair, by its process."""

    qpn: int
    port: int
    """UDP source port that was requested; 0: none."""
    traffic_class: int
    moves: int
    failed: int
    bytes: int
    iteration: int
    """Bytes in the current iteration."""
    device: str = ""
    device_port: int = 0
    gid_index: int = 0
    """Index of the device's own GID."""
    destination: str = ""
    """Address (RoCE over IPv4) or GID."""
    longest: int = 0
    """Bytes of its longest message; 0: none yet, or a shim that does not count that."""
    errors: int = 0
    """Completions that failed, but for flushed ones."""


@dataclass(frozen=True)
class ProcessCount:
    """Counters of one process of a job."""

    job: str
    """Job's name, as the process says."""
    pid: int
    """Process id, from the file's name."""
    iterations: int
    paced_s: float
    qps: tuple[QpCount, ...]
    iteration: int = 0
    """Bytes in the current iteration."""
    uid: int = 0
    """Owner of the file."""
    left_alone: int = 0
    """Queue pairs without room in the shim: not steered, or not counted and paced."""


def read_counts(prefix: Path = DEFAULT_COUNTS) -> tuple[ProcessCount, ...]:
    """Read the counters of all processes with the shim; other files are skipped."""
    found = []
    for path, pid in files_of(prefix):
        data, uid = _bytes_of(path)
        if len(data) == ctypes.sizeof(CountsEntry):
            one = _process(data, pid, uid)
            if one is not None:
                found.append(one)
    return tuple(found)


def read_iteration(pid: int, prefix: Path = DEFAULT_COUNTS) -> int | None:
    """Read the bytes of one process in its current iteration: cheap, for frequent calls."""
    data, _ = _bytes_of(prefix.with_name(f"{prefix.name}.{pid}"), _HEAD)
    if len(data) < _HEAD:
        return None
    at = CountsEntry.iteration.offset
    return int.from_bytes(data[at : at + 8], "little")


def sweep(prefix: Path = DEFAULT_COUNTS) -> int:
    """Remove files of killed processes, those of bins too; returns how many."""
    removed = 0
    for path, pid in [*files_of(prefix), *files_of(bins_prefix(prefix))]:
        if not Path("/proc", str(pid)).exists():
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def bins_prefix(prefix: Path) -> Path:
    """Return what files of bins are called before their process's number; `prefix`: counters."""
    return prefix.with_name(f"{prefix.name}-bins")


def files_of(prefix: Path) -> list[tuple[Path, int]]:
    """List (file, process) of the files `PREFIX.PID`, by name."""
    found = []
    for path in sorted(prefix.parent.glob(f"{prefix.name}.*"))[:MAX_COUNT_FILES]:
        pid = path.name.rpartition(".")[2]
        if pid.isascii() and pid.isdecimal() and len(pid) < 10:
            found.append((path, int(pid)))
    return found


def user_of(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return whose process that is now; None: there is none.  A genuine file has this owner."""
    try:
        return (proc / str(pid)).stat().st_uid
    except OSError:
        return None


def _bytes_of(path: Path, most: int = ctypes.sizeof(CountsEntry) + 1) -> tuple[bytes, int]:
    # A job's file and whose it is, or nothing: anybody can put a pipe or a link there.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b"", 0
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        return (file.read(most) if stat.S_ISREG(facts.st_mode) else b""), facts.st_uid


def _process(data: bytes, pid: int, uid: int) -> ProcessCount | None:
    head = CountsEntry.from_buffer_copy(data)
    if (head.magic, head.version) != (MAGIC, VERSION):
        return None
    entries = np.frombuffer(data, _ENTRY, offset=_HEAD)
    name = bytes(head.name).decode(errors="replace")
    return ProcessCount(
        name if is_job_name(name) else "",
        pid,
        int(head.iterations),
        head.paced_ns / 1e9,
        tuple(_pair(row) for row in entries[entries["qpn"] != 0]),
        int(head.iteration),
        uid,
        int(head.left_alone),
    )


def _pair(row: np.void) -> QpCount:
    source = int(row["source"])
    return QpCount(
        int(row["qpn"]),
        int(row["port"]),
        int(row["traffic_class"]),
        int(row["moves"]),
        int(row["failed"]),
        int(row["bytes"]),
        int(row["iteration"]),
        row["device"].tobytes().partition(b"\0")[0].decode(errors="replace"),
        source >> 16,
        source & 0xFFFF,
        address_of(row["dgid"].tobytes()),
        int(row["longest"]),
        int(row["errors"]),
    )


def address_of(gid: bytes) -> str:
    """Return the address that a RoCEv2 GID (16 bytes) stands for; empty for no GID."""
    if not any(gid):
        return ""
    address = ipaddress.IPv6Address(gid)
    return str(address.ipv4_mapped or address)
