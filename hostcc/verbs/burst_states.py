"""Reads where processes with the shim are in their bursts, from their files of counters.

Cheap, for frequent calls: a file stays open, and 32 bytes of it are read.  It is its process's, so
all in it is a claim, and it is read and not mapped: who owns it may cut it short.
"""

from __future__ import annotations

import os
import stat
import struct
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from hostcc.verbs.plan_region import MAGIC, VERSION, CountsEntry

_HEAD = struct.pack("<QI", MAGIC, VERSION)
_WORDS = struct.Struct("<4Q")
_AT = CountsEntry.burst.offset
_PHASE = 3
"""Bits of the first word that are the phase."""


class Phase(IntEnum):
    """enum hcc_rdma_phase."""

    IDLE = 0
    HELD = 1
    SENDING = 2


class BurstState(NamedTuple):
    """Where a process is in its burst, as it says."""

    phase: Phase
    since_ns: int
    """CLOCK_MONOTONIC."""
    bursts: int
    """That have begun while its gate was armed."""
    holds: int
    """Of these, that waited."""
    held_ns: int
    """For how long in all."""


class BurstFile:
    """The open file of one process."""

    def __init__(self, fd: int, uid: int) -> None:
        self.uid = uid
        """Owner of the file."""
        self._fd = fd

    def read(self) -> BurstState | None:
        """Return where the process is now; None: what is there is no such state."""
        with suppress(OSError, struct.error, ValueError):
            burst, bursts, holds, held_ns = _WORDS.unpack(os.pread(self._fd, _WORDS.size, _AT))
            return BurstState(Phase(burst & _PHASE), burst & ~_PHASE, bursts, holds, held_ns)
        return None

    def is_current(self) -> bool:
        """Whether the file is still there: a program that another one replaces has a new one."""
        return os.fstat(self._fd).st_nlink > 0

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def open_bursts(path: Path) -> BurstFile | None:
    """Open a process's file of counters; None where there is none of this version."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with suppress(OSError):
        facts = os.fstat(fd)
        if stat.S_ISREG(facts.st_mode) and os.pread(fd, len(_HEAD), 0) == _HEAD:
            return BurstFile(fd, facts.st_uid)
    os.close(fd)
    return None
