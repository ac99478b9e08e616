"""Reads what queue pairs send over time, from files of bins that processes with the shim own.

A process makes `PREFIX-bins.PID` (plan.h: struct hcc_rdma_bins) beside its file of counters.
Anybody can put anything there, so everything read is bounded and checked, and the owner is
returned: the caller decides whom to believe.  A file of another version is none.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hostcc.limits import is_job_name
from hostcc.verbs.plan_region import DEVICE_BYTES, NAME_BYTES, QPS
from hostcc.verbs.process_counts import bins_prefix, files_of

MAGIC, VERSION = 0x736E696263636F68, 1
BIN_SHIFT, RING, LATE, RINGS_AT = 20, 2048, 512, 1 << 17
BIN_NS = 1 << BIN_SHIFT
"""Length of a bin, nanoseconds of CLOCK_MONOTONIC."""
SETTLE_BINS = 48
"""A thread that is preempted while it counts has 50 ms to finish."""
SLACK_BINS = 64
"""The oldest bins of a ring may be emptied while they are read."""
MAX_BIN_BYTES = 1 << 36
"""What one queue pair can send in a bin: more is garbage."""
_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64
Ints = npt.NDArray[np.int64]


class SeriesEntry(ctypes.Structure):
    """struct hcc_rdma_series."""

    _fields_ = (
        ("qpn", _u32), ("source", _u32), ("newest", _u64), ("open_ns", _u64),
        ("dgid", ctypes.c_uint8 * 16), ("device", ctypes.c_char * DEVICE_BYTES),
        ("padding", _u32 * 7),
    )  # fmt: skip


class BinsEntry(ctypes.Structure):
    """struct hcc_rdma_bins."""

    _fields_ = (
        ("magic", _u64), ("version", _u32), ("pid", _u32), ("name", ctypes.c_char * NAME_BYTES),
        ("rows", _u32), ("reserved", _u32), ("left_out", _u64), ("padding", _u64 * 3),
        ("row", SeriesEntry * QPS),
    )  # fmt: skip


FILE_BYTES = RINGS_AT + QPS * RING * 8
_HEAD = BinsEntry.row.offset
_ROW = np.dtype(SeriesEntry)


@dataclass(frozen=True, eq=False)
class BinFile:
    """The open file of one process, and what it says of its rows now."""

    job: str
    """Job's name, as the process says."""
    pid: int
    uid: int
    """Owner of the file."""
    left_out: int
    """Queue pairs whose bytes are in no ring."""
    rows: npt.NDArray[np.void]
    """Rows that were ever used, as SeriesEntry; shape (n,)."""
    fd: int

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)

    def complete(self, now_bin: int) -> int:
        """Return the number of the first bin that may still change at `now_bin`."""
        until = now_bin - SETTLE_BINS
        since = self.rows["open_ns"].astype(np.uint64)
        waiting = since[since != 0] >> np.uint64(BIN_SHIFT)
        oldest = min((int(bin_) for bin_ in waiting), default=until)
        return max(min(until, oldest), until - LATE)

    def read(self, begin: int, end: int) -> tuple[npt.NDArray[np.intp], Ints]:
        """Return rows that sent something from bin `begin` to before `end`, and the bytes of each
        in each bin, shape (rows, end - begin).

        Expects at most `RING - SLACK_BINS` bins, the newest of which is `complete`.
        """
        newest = self.rows["newest"].astype(np.uint64)
        # A ring that has gone on for a whole turn has none of these bins any more.
        those = np.flatnonzero((newest >= np.uint64(begin)) & (newest < np.uint64(begin + RING)))
        found = np.zeros((len(those), end - begin), np.int64)
        for place, row in enumerate(those.tolist()):
            count = min(end, int(newest[row]) + 1) - begin
            found[place, :count] = self._ring(row, begin, count)
        return those, found

    def _ring(self, row: int, begin: int, count: int) -> Ints:
        first, base = begin % RING, RINGS_AT + row * RING * 8
        tail = min(count, RING - first)
        data = os.pread(self.fd, tail * 8, base + first * 8)
        data += os.pread(self.fd, (count - tail) * 8, base) if count > tail else b""
        values = np.zeros(count, np.uint64)
        known = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
        values[: len(known)] = known
        return np.minimum(values, np.uint64(MAX_BIN_BYTES)).astype(np.int64)


def bin_files(counts: Path) -> list[tuple[Path, int]]:
    """List (file, process) of all processes that keep bins; `counts`: prefix of the counters."""
    return files_of(bins_prefix(counts))


def open_bins(path: Path, pid: int) -> BinFile | None:
    """Open the file of a process; None where there is none of this version."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    found = None
    with suppress(OSError):
        facts = os.fstat(fd)
        if stat.S_ISREG(facts.st_mode) and facts.st_size == FILE_BYTES:
            found = _opened(fd, os.pread(fd, ctypes.sizeof(BinsEntry), 0), pid, facts.st_uid)
    if found is None:
        os.close(fd)
    return found


def _opened(fd: int, data: bytes, pid: int, uid: int) -> BinFile | None:
    if len(data) < ctypes.sizeof(BinsEntry):
        return None
    head = BinsEntry.from_buffer_copy(data)
    if (head.magic, head.version) != (MAGIC, VERSION):
        return None
    rows = np.frombuffer(data, _ROW, offset=_HEAD)[: min(head.rows, QPS)]
    name = bytes(head.name).decode(errors="replace")
    return BinFile(name if is_job_name(name) else "", pid, uid, int(head.left_out), rows, fd)


def complete(files: Sequence[BinFile], now_bin: int) -> int:
    """Return the same as `BinFile.complete` of several processes together."""
    return min((one.complete(now_bin) for one in files), default=now_bin - SETTLE_BINS)
