"""Reads the counters of processes with the transport shim, from files that they own.

A process makes `hostcc-qp.PID` (plan.h: struct hcc_rdma_counts), or `hostcc-qp.SPACE-PID` in a
PID namespace of its own, whose inode SPACE is.  It keeps that file locked, so the kernel says who
it is here.  Anybody can put anything there, so files are bounded and checked, and their owner is
returned: the caller decides whom to believe.
"""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import os
import re
import stat
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hostcc.limits import is_job_name
from hostcc.verbs.plan_region import MAGIC, VERSION, CountEntry, CountsEntry

DEFAULT_COUNTS = Path("/dev/shm/hostcc-qp")
MAX_COUNT_FILES = 4096
MAX_FILES_PER_USER = 1024
"""Processes of one user that are read."""
LOCKED_S = 60.0
"""A process has locked the file that it makes after this time, seconds."""
_NUMBERS = re.compile(r"(?:[0-9]{1,10}-)?[0-9]{1,9}\Z")
_LOCK = struct.Struct("hhqqi4x")
"""struct flock, as 64-bit Linux has it: type, whence, start, length, process."""
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_HEAD = CountsEntry.qp.offset
_ENTRY = np.dtype(CountEntry)


Genuine = Callable[[str, int, int], bool]
"""Tells whether to believe a file with (job, process, owner of the file)."""


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
    completed: int = 0
    """Messages that have completed; 0: none, or not counted."""
    busy_s: float = 0.0
    """Seconds that these took, one after the other."""
    open_at: float = 0.0
    """Since when nothing has completed, CLOCK_MONOTONIC, seconds; 0: nothing is under way."""


@dataclass(frozen=True)
class ProcessCount:
    """Counters of one process of a job."""

    job: str
    """Job's name, as the process says."""
    pid: int
    """Process id, as this PID namespace has it."""
    iterations: int
    paced_s: float
    qps: tuple[QpCount, ...]
    iteration: int = 0
    """Bytes in the current iteration."""
    uid: int = 0
    """Owner of the file."""
    left_alone: int = 0
    """Queue pairs without room in the shim: not steered, or not counted and paced."""
    path: Path = Path()
    """The file."""


def read_counts(
    prefix: Path = DEFAULT_COUNTS, genuine: Genuine | None = None
) -> tuple[ProcessCount, ...]:
    """Read the counters of all processes with the shim; other files are skipped.

    `genuine`: asked before the queue pairs of a file are read, which takes long where it has many.
    """
    found = []
    for path, pid in files_of(prefix):
        head, uid = _bytes_of(path, _HEAD)
        job = _name_in(head)
        if genuine is not None and not genuine(job, pid, uid):
            continue
        data, owner = _bytes_of(path)
        if len(data) == ctypes.sizeof(CountsEntry) and owner == uid and _name_in(data) == job:
            one = _process(data, pid, uid, path)
            if one is not None:
                found.append(one)
    return tuple(found)


def read_iteration(path: Path) -> int | None:
    """Read the bytes of one process in its current iteration: cheap, for frequent calls."""
    data, _ = _bytes_of(path, _HEAD)
    if len(data) < _HEAD:
        return None
    at = CountsEntry.iteration.offset
    return int.from_bytes(data[at : at + 8], "little")


def sweep(prefix: Path = DEFAULT_COUNTS) -> int:
    """Remove files of killed processes, those of bins too; returns how many."""
    removed = 0
    for path, _ in [*_named(prefix), *_named(bins_prefix(prefix))]:
        if _is_left(path):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def bins_prefix(prefix: Path) -> Path:
    """Return what files of bins are called before their process's number; `prefix`: counters."""
    return prefix.with_name(f"{prefix.name}-bins")


def files_of(prefix: Path) -> list[tuple[Path, int]]:
    """List (file, process) of the files that are somebody's, by name; each process has one.

    Others' files that are named after it do not take its place: an owner has one for it, too.
    """
    found: dict[tuple[int, int], Path] = {}
    for path, owner in _named(prefix):
        if (pid := _process_of(path)) is not None:
            found.setdefault((pid, owner), path)
    return [(path, pid) for (pid, _), path in found.items()]


def user_of(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return whose process that is now; None: there is none.  A genuine file has this owner."""
    try:
        return (proc / str(pid)).stat().st_uid
    except OSError:
        return None


def _named(prefix: Path) -> list[tuple[Path, int]]:
    # The files PREFIX.PID and PREFIX.SPACE-PID and their owners, by name; nobody's crowd hides
    # those of others.
    start = len(prefix.name) + 1
    listed = prefix.parent.glob(f"{prefix.name}.*")
    owned, found = Counter[int](), list[tuple[Path, int]]()
    for path in sorted(one for one in listed if _NUMBERS.match(one.name[start:])):
        with suppress(OSError):
            owner = path.lstat().st_uid
            owned[owner] += 1
            if owned[owner] <= MAX_FILES_PER_USER:
                found.append((path, owner))
    return found[:MAX_COUNT_FILES]


def _end(path: Path) -> str:
    return path.name.rpartition(".")[2]


def _process_of(path: Path) -> int | None:
    # The number in a name is one of ours, unless there is a namespace before it.
    space, _, number = _end(path).rpartition("-")
    if not space:
        return int(number)
    with suppress(OSError):
        fd = os.open(path, _FLAGS)
        try:
            # Only who may write a file can have a lock that reading conflicts with.
            asked = _LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = _LOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
            return pid if kind == fcntl.F_WRLCK and pid > 0 else None
        finally:
            os.close(fd)
    return None


def _is_left(path: Path) -> bool:
    # Whether the process that has made a file is gone.
    if "-" not in _end(path):
        return not Path("/proc", _end(path)).exists()
    if _process_of(path) is not None:
        return False
    with suppress(OSError):
        # Who makes one has not locked it yet; a time that is not now cannot be trusted.
        return abs(time.time() - path.lstat().st_mtime) > LOCKED_S
    return False


def _bytes_of(path: Path, most: int = ctypes.sizeof(CountsEntry) + 1) -> tuple[bytes, int]:
    # A job's file and whose it is, or nothing: anybody can put a pipe or a link there.
    try:
        fd = os.open(path, _FLAGS)
    except OSError:
        return b"", 0
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        return (file.read(most) if stat.S_ISREG(facts.st_mode) else b""), facts.st_uid


def _name_in(data: bytes) -> str:
    # The job that a file names, of which at least the head is there; empty: none.
    at, size = CountsEntry.name.offset, CountsEntry.name.size
    name = data[at : at + size].partition(b"\0")[0].decode(errors="replace")
    return name if is_job_name(name) else ""


def _process(data: bytes, pid: int, uid: int, path: Path) -> ProcessCount | None:
    head = CountsEntry.from_buffer_copy(data)
    if (head.magic, head.version) != (MAGIC, VERSION):
        return None
    entries = np.frombuffer(data, _ENTRY, offset=_HEAD)
    return ProcessCount(
        _name_in(data),
        pid,
        int(head.iterations),
        head.paced_ns / 1e9,
        tuple(_pair(row) for row in entries[entries["qpn"] != 0]),
        int(head.iteration),
        uid,
        int(head.left_alone),
        path,
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
        int(row["completed"]),
        int(row["busy_ns"]) / 1e9,
        int(row["open_ns"]) / 1e9,
    )


def address_of(gid: bytes) -> str:
    """Return the address that a RoCEv2 GID (16 bytes) stands for; empty for no GID."""
    if not any(gid):
        return ""
    address = ipaddress.IPv6Address(gid)
    return str(address.ipv4_mapped or address)
