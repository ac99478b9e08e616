"""Receives the marks of jobs (hostcc.mark): who sent them, to which job they belong.

Anybody on this host may send anything.  The kernel says which process it was, that
process's cgroup says which job; what belongs to no job is dropped.  What we are shown has
to be sealed memory (memfd), so reading it neither blocks nor fails half-way.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import stat
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hostcc.mark import HELLO, MAGIC, SIZE, SLOTS
from hostcc.system import procfs, unix_socket
from hostcc.system.process_scan import read
from hostcc.system.quota import Owner, Quota

MAX_SENDERS = 1024
MAX_SENDERS_PER_JOB = 64
KEEP = 1024
"""Marks kept per process."""
OLDEST_NS = 3_600_000_000_000
"""Marks from longer ago are not believed, ns."""
_SEALS = 0x2 | 0x4  # F_SEAL_SHRINK | F_SEAL_GROW
_GET_SEALS = 1034
_CREDENTIALS = struct.Struct("iII")
_LAYOUT = struct.Struct(f"={2 + SLOTS}Q")


class Mark(NamedTuple):
    """A process said that an iteration ended."""

    job: str
    pid: int
    at_ns: int
    """CLOCK_MONOTONIC, ns."""


class MarkRequest(NamedTuple):
    """A message of somebody who wants to mark."""

    pid: int
    """0: of nobody knows who."""
    uid: int
    fd: int
    """Sealed memory; -1: nothing that marks could be read from, and closed."""


@dataclass
class _Sender:
    job: str
    owner: Owner
    pid: int
    started: int
    fd: int
    inode: int
    count: int = 0
    last_ns: int = 0
    times: deque[int] = field(default_factory=lambda: deque(maxlen=KEEP))


def new_times(raw: bytes, count: int, last_ns: int, now_ns: int) -> tuple[int, list[int]]:
    """(marks so far, times of the new ones) of a process's memory.  Pure.

    `count`, `last_ns`: what was known before.  Times that are not later than the one
    before, in the future or hours ago are left out, and so are those that the ring has
    lost.  A process that says nonsense gets nothing in.
    """
    if len(raw) != SIZE:
        return count, []
    magic, total, *ring = _LAYOUT.unpack(raw)
    if magic != MAGIC or total <= count:
        return count, []
    times = []
    for index in range(max(count, total - SLOTS), total):
        at = ring[index % SLOTS]
        if max(last_ns, now_ns - OLDEST_NS) < at <= now_ns:
            times.append(at)
            last_ns = at
    return total, times


def boundaries(times: Mapping[int, Sequence[int]]) -> list[float]:
    """Iteration boundaries of a job, seconds, from the marks of its processes (pid -> ns).

    The ranks of a job march in step, so one speaks for all: the one with the most marks,
    the lowest number among equals.
    """
    if not times:
        return []
    speaker = min(times, key=lambda pid: (-len(times[pid]), pid))
    return [at / 1e9 for at in times[speaker]]


class MarkReceiver:
    """The socket, and the memory of every process that was shown there.

    `job_of`: process -> job or None.  `quota`: of senders, by user.  `take` when the socket is
    readable, in a thread that nobody waits for: to close what a stranger has passed may take as
    long as he likes.  `admit` what came of it, and `poll` now and then: both are bounded and never
    wait.
    """

    def __init__(
        self,
        path: str,
        job_of: Callable[[int], str | None],
        quota: Callable[[], Quota] = lambda: Quota(MAX_SENDERS),
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._job_of = job_of
        self._quota = quota
        self._clock_ns = clock_ns
        self._path = None if path.startswith("@") else Path(path)
        self._senders: dict[int, _Sender] = {}
        self.refused = 0
        """Messages that were dropped."""
        self.over_quota = 0
        """Those of them that came from one sender too many."""
        self.over = ""
        """Why the last one of these was one."""
        self._socket = _bound(path)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    @property
    def senders(self) -> int:
        """Processes that marks are read from."""
        return len(self._senders)

    def fileno(self) -> int:
        """For whoever waits for the socket to be readable."""
        return self._socket.fileno()

    def close(self) -> None:
        """Let go of everything but the socket, which is for whoever takes messages to close."""
        for sender in self._senders.values():
            os.close(sender.fd)
        self._senders.clear()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def close_socket(self) -> None:
        """Take no more."""
        self._socket.close()

    def take(self) -> MarkRequest:
        """One message.  Raises BlockingIOError when there is none, and OSError."""
        data, ancillary, flags, _ = self._socket.recvmsg(
            64, socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(4)
        )
        pid, uid, fds = _unpack(ancillary)
        whole = data == HELLO and not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        if whole and len(fds) == 1 and pid > 0 and _sealed_inode(fds[0]) is not None:
            return MarkRequest(pid, uid, fds[0])
        for fd in fds:
            with suppress(OSError):  # of a file system in a process that has ended
                os.close(fd)
        return MarkRequest(pid if whole else 0, uid, -1)

    def admit(self, shown: MarkRequest) -> None:
        """Read marks from there from now on, if it is of a job."""
        if shown.fd >= 0 and self._admit(*shown):
            return
        self.refused += shown.pid not in self._senders
        if shown.fd >= 0:
            os.close(shown.fd)

    def poll(self) -> list[Mark]:
        """The marks since the last call; forgets processes that have ended."""
        found = list[Mark]()
        for sender in list(self._senders.values()):
            raw = os.pread(sender.fd, SIZE, 0)
            now = self._clock_ns()  # after it: what is in it is no mark of the future
            sender.count, times = new_times(raw, sender.count, sender.last_ns, now)
            if times:
                sender.last_ns = times[-1]
                sender.times.extend(times)
                found += [Mark(sender.job, sender.pid, at) for at in times]
            if self._started(sender.pid) != sender.started:
                self._drop(sender)
        return found

    def times(self, job: str) -> dict[int, list[int]]:
        """pid -> its marks that are kept, ns, of the job's processes that live."""
        return {s.pid: list(s.times) for s in self._senders.values() if s.job == job}

    def _admit(self, pid: int, uid: int, fd: int) -> bool:
        """Whether the descriptor was taken over."""
        inode = _sealed_inode(fd)
        if inode is None:
            return False
        job, started = self._job_of(pid), self._started(pid)
        known = self._senders.get(pid)
        if known is not None:
            if job is not None and (known.inode, known.started) == (inode, started):
                known.job = job  # it has shown this before; it may have changed jobs
                return False
            self._drop(known)
        owner = uid or None
        if job is None or started is None or not self._room(job, owner):
            return False
        self._senders[pid] = _Sender(job, owner, pid, started, fd, inode)
        return True

    def _drop(self, sender: _Sender) -> None:
        del self._senders[sender.pid]
        os.close(sender.fd)

    def _room(self, job: str, owner: Owner) -> bool:
        of_job = sum(sender.job == job for sender in self._senders.values())
        held = Counter(sender.owner for sender in self._senders.values())
        if refusal := self._quota().refusal(owner, held):
            self.over, self.over_quota = refusal, self.over_quota + 1
        return of_job < MAX_SENDERS_PER_JOB and not refusal

    def _started(self, pid: int) -> int | None:
        found = procfs.stat(read(f"/proc/{pid}/stat", 4096))
        return None if found is None else found.started


def _bound(path: str) -> socket.socket:
    """For everybody: jobs run as anybody.  Raises HostccError and OSError."""
    if not path.startswith("@"):
        return unix_socket.bind(Path(path), socket.SOCK_DGRAM, "marks socket", everybody=True)
    made = socket.socket(
        socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    )
    try:
        made.bind("\0" + path[1:])
    except BaseException:
        made.close()
        raise
    return made


def _unpack(ancillary: Iterable[tuple[int, int, bytes]]) -> tuple[int, int, list[int]]:
    """(sender's pid or 0, its uid, descriptors)."""
    pid, uid, fds = 0, 0, array.array("i")
    for level, kind, data in ancillary:
        if level != socket.SOL_SOCKET:
            continue
        if kind == socket.SCM_CREDENTIALS and len(data) >= _CREDENTIALS.size:
            pid, uid, _ = _CREDENTIALS.unpack_from(data)
        elif kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return pid, uid, list(fds)


def _sealed_inode(fd: int) -> int | None:
    """The inode of memory whose size is right and fixed; None for any other file.

    Only memory can have seals, so what passes is no pipe, device or network file.
    """
    try:
        seals = fcntl.fcntl(fd, getattr(fcntl, "F_GET_SEALS", _GET_SEALS))
        status = os.fstat(fd)
    except OSError:
        return None
    fine = seals & _SEALS == _SEALS and stat.S_ISREG(status.st_mode) and status.st_size == SIZE
    return status.st_ino if fine else None
