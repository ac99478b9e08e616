"""Watches cgroups for processes that come or go: one poll(2) for all of them.

The kernel marks `cgroup.events` of a v2 group as changed until it is read again, also when the
group is removed (kernfs_generic_poll).
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hostcc.system.cgroups import EVENTS_BYTES


class GroupEvents:
    """Watches cgroups, with one descriptor for each."""

    def __init__(self) -> None:
        self._poll = select.poll()
        # Group -> (its id, descriptor).
        self._held: dict[Path, tuple[int, int]] = {}
        self._by_fd: dict[int, Path] = {}
        # Groups that cannot be watched -> their ids.
        self._blind: dict[Path, int] = {}

    def watch(self, groups: Mapping[Path, int]) -> None:
        """Watch these groups (path -> id) from now on, and no others."""
        for path, (number, _) in list(self._held.items()):
            if groups.get(path) != number:
                self._drop(path)
        self._blind = {path: number for path, number in groups.items() if path not in self._held}

    def stirred(self) -> set[Path]:
        """Return the groups that are new here, changed since the last call, gone, or cannot be
        watched."""
        if self._blind:
            self._blind = {
                path: number for path, number in self._blind.items() if not self._hold(path, number)
            }
        happened = {self._by_fd[fd]: fd for fd, _ in self._poll.poll(0)}
        for fd in happened.values():
            with suppress(OSError):  # it was removed, and stays changed
                os.pread(fd, EVENTS_BYTES, 0)
        return self._blind.keys() | happened.keys()

    def close(self) -> None:
        """Close all descriptors."""
        self.watch({})

    def _hold(self, path: Path, number: int) -> bool:
        try:
            fd = os.open(f"{path}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it is gone, or there are too many descriptors
            return False
        # One that nobody has read yet counts as changed.
        self._poll.register(fd, select.POLLPRI)
        self._held[path], self._by_fd[fd] = (number, fd), path
        return True

    def _drop(self, path: Path) -> None:
        _, fd = self._held.pop(path)
        del self._by_fd[fd]
        self._poll.unregister(fd)
        os.close(fd)
