"""Namespaces of processes; those of the network held open, so that they cannot vanish half-way."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_NAMESPACES = 1024


def all_pids() -> Iterator[int]:
    """List the processes that /proc shows."""
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                yield int(entry.name)


def pid_namespace() -> int:
    """Return the number of our PID namespace.  Raises OSError."""
    return Path("/proc/self/ns/pid").stat().st_ino


@contextmanager
def opened(pids: Iterable[int]) -> Iterator[list[Path | None]]:
    """Open the distinct network namespaces of `pids`: paths, and None for our own, always first.

    A process that is gone, or may not be looked at, is skipped.
    """
    seen = {Path("/proc/self/ns/net").stat().st_ino}
    fds: list[int] = []
    try:
        for pid in pids:
            name = Path(f"/proc/{pid}/ns/net")
            try:
                if name.stat().st_ino in seen:
                    continue
                fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            fds.append(fd)
            seen.add(os.fstat(fd).st_ino)
            if len(fds) >= MAX_NAMESPACES:
                break
        yield [None, *(Path(f"/proc/self/fd/{fd}") for fd in fds)]
    finally:
        for fd in fds:
            os.close(fd)
