"""Takes the snapshot that discovery works on: /proc and the tops of the cgroup trees.

Bounded in number and size.  Processes that end meanwhile are skipped.  A process stuck in the
kernel can hold up reading its command line, so this belongs in a thread.  A second scan reads two
short files per known process; one that is not full reads only the list of processes, so that one
user's crowd of processes cannot make scans expensive.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hostcc.system import procfs
from hostcc.system.processes import Process, Snapshot

MAX_PROCESSES = 65536
MAX_GROUPS = 16384
"""cgroups listed near the tops of all trees together."""
TOP_LEVELS = 2
"""Levels of cgroups listed: enough for where Slurm keeps its jobs."""
SETTLING_SCANS = 3
"""Scans that read a new process in full: it may still become another program."""
MAX_NEW_PER_USER = 256
"""New processes of one user, at most, that a scan reads which is not full."""
_STAT, _STATUS, _CGROUP, _ENVIRON = 4096, 8192, 65536, 131072


class Scanner:
    """Takes snapshots; for one thread at a time."""

    def __init__(
        self, proc: Path = Path("/proc"), host: str | None = None, environ: bool = True
    ) -> None:
        self._proc = str(proc)
        self._host = socket.gethostname() if host is None else host
        self._environ = environ
        self._known: dict[int, tuple[Process, int]] = {}
        # Entries that are no process to us: threads of the kernel, and what has ended.
        self._none: set[int] = set()

    def snapshot(self, *, full: bool = True) -> Snapshot:
        """Return the processes and groups of this host.  Raises OSError when /proc cannot be read.

        Not `full`: of processes that are known well, only whether they are there.
        """
        with os.scandir(self._proc) as entries:
            pids = sorted(int(entry.name) for entry in entries if entry.name.isdigit())
        looked_at = pids[:MAX_PROCESSES]
        self._none = set() if full else self._none.intersection(pids)
        to_read, all_new = (set(looked_at), True) if full else self._to_read(looked_at)
        known: dict[int, tuple[Process, int]] = {}
        for pid in looked_at:
            entry = self._look(pid) if pid in to_read else self._known.get(pid)
            if entry is not None:
                known[pid] = entry
            elif pid in to_read:
                self._none.add(pid)
        self._known = known
        groups, all_groups = self._tops()
        return Snapshot(
            host=self._host,
            processes=tuple(process for process, _ in known.values()),
            groups=groups,
            complete=len(pids) <= MAX_PROCESSES and all_groups and all_new,
        )

    def process(self, pid: int) -> Process | None:
        """Read one process; None: there is none."""
        found = self._look(pid)
        return found[0] if found is not None else None

    def forget(self, pids: Iterable[int]) -> None:
        """Read these processes anew at the next scan."""
        for pid in pids:
            self._known.pop(pid, None)

    def _to_read(self, pids: list[int]) -> tuple[set[int], bool]:
        # Those that are not well known, as far as they are not too many of one user; whether
        # there is none of which nothing is known.
        looks = {pid: self._known[pid][1] if pid in self._known else 0 for pid in pids}
        fresh = [pid for pid in pids if looks[pid] < SETTLING_SCANS and pid not in self._none]
        by_user = Counter[int]()
        chosen, all_new = set[int](), True
        for pid in sorted(fresh, key=lambda pid: (looks[pid], pid)):
            uid = self._user(pid)
            by_user[uid] += 1
            if by_user[uid] <= MAX_NEW_PER_USER:
                chosen.add(pid)
            elif not looks[pid]:
                all_new = False
        return chosen, all_new

    def _user(self, pid: int) -> int:
        # Whose a process is, cheaply; root's if that cannot be seen.
        if pid in self._known:
            return self._known[pid][0].uid
        try:
            return os.stat(f"{self._proc}/{pid}").st_uid  # noqa: PTH116 - a Path takes as long again
        except OSError:
            return 0

    def _look(self, pid: int) -> tuple[Process, int] | None:
        stat = procfs.stat(self._read(f"{pid}/stat", _STAT))
        if stat is None:
            return None
        group, v1_groups = procfs.cgroups(self._read(f"{pid}/cgroup", _CGROUP))
        old, looks = self._known.get(pid, (None, 0))
        if (
            old is not None
            and looks >= SETTLING_SCANS
            and (old.started, old.comm) == (stat.started, stat.comm)
            and (old.group, old.v1_groups) == (group, v1_groups)
        ):
            if old.parent != stat.parent:
                old = replace(old, parent=stat.parent)  # its parent ended
            return old, looks
        uid = procfs.real_uid(self._read(f"{pid}/status", _STATUS))
        if uid is None:
            return None
        same = old is not None and old.started == stat.started
        return Process(
            pid=pid,
            parent=stat.parent,
            started=stat.started,
            uid=uid,
            comm=stat.comm,
            cmdline=procfs.cmdline(self._read(f"{pid}/cmdline", 4096)),
            group=group,
            v1_groups=v1_groups,
            environ=self._variables(pid),
        ), (looks + 1 if same else 1)

    def _variables(self, pid: int) -> dict[str, str]:
        return procfs.environ(self._read(f"{pid}/environ", _ENVIRON)) if self._environ else {}

    def _read(self, name: str, limit: int) -> bytes:
        return read(f"{self._proc}/{name}", limit)

    def _tops(self) -> tuple[frozenset[str], bool]:
        info = self._read("self/mountinfo", 1 << 20).decode(errors="replace")
        found: set[str] = set()
        for mount in procfs.mounts(info):
            level = [""]
            for _ in range(TOP_LEVELS):
                level = [below for at in level for below in _children(mount.where, at)]
                found.update(level[: MAX_GROUPS - len(found)])
                if len(found) >= MAX_GROUPS:
                    return frozenset(found), False
        return frozenset(found), True


def read(path: str, limit: int) -> bytes:
    """Read the first `limit` bytes of a file; empty when it is gone or may not be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        parts, left = [], limit
        while left > 0 and (part := os.read(fd, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _children(mount: str, at: str) -> list[str]:
    try:
        with os.scandir(mount + at) as entries:
            return [f"{at}/{e.name}" for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
