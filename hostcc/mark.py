"""Exact iteration boundaries, for training scripts that want to give them; always optional.

    import hostcc.mark
    for batch in data:
        ...
        hostcc.mark.iteration()

A call writes the time into memory that the agent reads, and costs well below a
microsecond.  It never raises and never waits, with or without an agent.  Every few
seconds the process shows the agent that memory (a memfd, over a datagram socket), so an
agent that starts later or again finds it.  docs/discovery.md has the format.

This file needs nothing but Python's own library: it is loaded into other people's jobs.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import sys
import time
from array import array

SOCKET = "/run/hostcc/marks.sock"
"""Where the agent listens, unless the environment variable HOSTCC_MARK_SOCKET is set."""
HELLO = b"hostcc-mark/1"
SLOTS = 256
"""Times kept: this many iterations may pass between two reads by the agent."""
SIZE = 8 * (2 + SLOTS)
"""Bytes: the magic number, the number of marks, and a ring of times (ns), in host byte order."""
MAGIC = 0x31_4B52_414D_4343_48
HELLO_EVERY_NS = 5_000_000_000

_now = time.monotonic_ns
_count = 0
_hello_at = 0
_fd = -1
_view: memoryview | None = None
explicit = False
"""Whether the script marks by itself; then the optimiser hook does nothing."""


def iteration() -> None:
    """End an iteration and begin the next. Call it once per iteration, in any rank."""
    global explicit
    explicit = True
    record()


def record() -> None:
    """Write a mark; for hooks."""
    global _count
    try:
        now = _now()
        if now >= _hello_at:
            _hello(now)
        if _view is not None:
            _view[2 + _count % SLOTS] = now
            _count += 1
            _view[1] = _count
    except Exception:  # noqa: BLE001, S110 - no training run ends because of a mark
        pass


def _hello(now: int) -> None:
    """Show the agent this process's memory; create it first if needed."""
    global _hello_at, _fd, _view
    _hello_at = now + HELLO_EVERY_NS  # first, so that failing costs little
    if _view is None:
        _fd, _view = _memory()
    name = os.environ.get("HOSTCC_MARK_SOCKET") or SOCKET
    address = "\0" + name[1:] if name.startswith("@") else name
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [_fd]))
    with (
        contextlib.suppress(OSError),  # nobody listens: the mark itself counts all the same
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
    ):
        sock.setblocking(False)
        sock.sendmsg([HELLO], [rights], 0, address)


def _memory() -> tuple[int, memoryview]:
    """Create memory of fixed size: the agent does not read memory that could shrink."""
    import fcntl

    fd = os.memfd_create("hostcc-mark", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, SIZE)
        # F_ADD_SEALS, and F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW of linux/fcntl.h.
        fcntl.fcntl(fd, getattr(fcntl, "F_ADD_SEALS", 1033), 0x1 | 0x2 | 0x4)
        view = memoryview(mmap.mmap(fd, SIZE)).cast("Q")
    except BaseException:
        os.close(fd)
        raise
    view[0] = MAGIC
    return fd, view


def _forget() -> None:
    """Drop the parent's memory after a fork: the child makes its own at its first mark."""
    global _count, _hello_at, _fd, _view, explicit
    fd, _fd, _view = _fd, -1, None
    _count, _hello_at, explicit = 0, 0, False
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.close(fd)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

if __name__ == "__main__":
    from hostcc.injob.torch_hook import main

    sys.exit(main(sys.argv[1:]))
