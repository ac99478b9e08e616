"""cgroup v2: where it is mounted, and the jobs' groups below `<cgroup_root>/hostcc`.

Hybrid hosts mount v1 at /sys/fs/cgroup and v2 elsewhere, so the mount is looked up.
Membership in v2 is independent of v1: moving a process here leaves its v1 limits alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from hostcc.errors import HostccError
from hostcc.limits import MAX_CGROUPS
from hostcc.system import procfs
from hostcc.system.descriptors import check_looked
from hostcc.system.process_scan import read
from hostcc.system.procfs import Stat
from hostcc.system.slices import at_once

BASE = "hostcc"
EVENTS_BYTES = 4096
"""Bytes read of `cgroup.events`; it is shorter."""
PF_EXITING = 0x4
"""Flag in /proc/PID/stat (linux/sched.h)."""
SIGKILL = 1 << 8
"""Its bit in the masks of /proc/PID/status."""
_ESCAPE = re.compile(r"\\([0-7]{3})")


def find_mount(mountinfo: Path = Path("/proc/self/mountinfo")) -> Path | None:
    """Find the cgroup2 mount point that shows most of the tree; None: there is none."""
    found: list[tuple[str, Path]] = []
    for line in mountinfo.read_text().splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) > 4 and kind and kind[0] == "cgroup2":
            where = _ESCAPE.sub(lambda m: chr(int(m[1], 8)), fields[4])
            found.append((fields[3], Path(where)))
    return min(found, key=lambda entry: len(entry[0]))[1] if found else None


def how_to_mount() -> str:
    """Say how to mount cgroup2, which may only be hidden."""
    try:
        hidden = Path("/proc/1/ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink()
    except OSError:
        hidden = False
    if hidden:
        return (
            "`ip netns exec` hides it: enter with nsenter --net=/run/netns/NAME, or "
            "mount -t cgroup2 none /sys/fs/cgroup first"
        )
    return "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"


def resolve_root(setting: str) -> Path:
    """Find the directory for jobs' groups.  Raises HostccError when it is not cgroup v2."""
    if setting == "auto":
        mount = find_mount()
        if mount is None:
            raise HostccError(f"no cgroup v2 is mounted; {how_to_mount()}")
        return mount
    root = Path(setting)
    if not (root / "cgroup.controllers").exists():  # a file that v1 groups do not have
        hint = "" if find_mount() else f"; none is mounted: {how_to_mount()}"
        raise HostccError(f"cgroup_root {root}: expected a cgroup v2 directory{hint}")
    return root


class CgroupTree:
    """Jobs' groups below one root.  Every method may raise OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.base = root / BASE
        self.nested: dict[str, Path] = {}
        """Groups of jobs that are below others', whose limits their processes keep."""

    def path(self, job: str) -> Path:
        """Return where a job's group is, or would be."""
        return self.nested.get(job, self.base / job)

    def create(self, path: Path) -> None:
        """Make a group, unless it is there."""
        if path.parent != self.base and path.parent.name == BASE:
            path.parent.mkdir(exist_ok=True, mode=0o755)
        path.mkdir(exist_ok=True, mode=0o755)

    def exists(self, path: Path) -> bool:
        """Check whether the group is there."""
        return path.is_dir()

    def identity(self, path: Path) -> int:
        """Return the group's id, by which sockets and BPF know it; 0 when it is gone."""
        try:
            return path.stat().st_ino
        except OSError as error:
            check_looked(error)
            return 0

    def remove(self, path: Path) -> bool:
        """Remove a group and empty groups below it; False while processes are in it."""
        for group in reversed(list(_walk(path))):
            try:
                group.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False
        if path.name and path == self.nested.get(path.name):
            with suppress(OSError):  # another job's is there, too
                path.parent.rmdir()
        return True

    def populated(self, path: Path) -> bool:
        """Check for a live process in the group or below.

        Like all that looks into groups here, raises OSError when there was no descriptor or memory
        to look with.
        """
        # Asked of every job twice a second: without a buffer and an encoding for it.
        try:
            file = os.open(f"{path}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            check_looked(error)
            return False
        try:
            return b"populated 1" in os.read(file, EVENTS_BYTES)
        except OSError:  # it was removed meanwhile
            return False
        finally:
            os.close(file)

    def ending(self, path: Path) -> bool:
        """Check whether all processes of the group are exiting, so that none can be moved."""
        if not self.populated(path) or any(map(_unnamed, _walk(path))):
            return False
        return not self.living(self.pids(path))

    def pids(self, path: Path) -> list[int]:
        """List the processes in the group and below."""
        return [pid for group in _walk(path) for pid in _members(group)]

    def processes(self, pids: Iterable[int] | None = None) -> dict[int, Stat]:
        """Return the live processes among `pids`; None: of the whole host."""
        if pids is None:
            pids = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]
        stats = ((pid, procfs.stat(read(f"/proc/{pid}/stat", 4096))) for pid in pids)
        return {pid: stat for pid, stat in stats if stat is not None}

    def living(self, pids: Iterable[int]) -> dict[int, Stat]:
        """List live processes, without those that have been killed and are about to end."""
        there = self.processes(pids)
        return {pid: stat for pid, stat in there.items() if not _dying(pid)}

    def ids(self, path: Path) -> list[int]:
        """List the ids of the group and of those below it."""
        return [number for group in _walk(path) if (number := self.identity(group))]

    def children(self) -> list[Path]:
        """List every job's group."""
        nested = sorted(path for path in self.nested.values() if path.is_dir())
        try:
            return sorted(entry for entry in self.base.iterdir() if entry.is_dir()) + nested
        except OSError as error:
            check_looked(error)
            return nested

    def home_of(self, pid: int) -> str:
        """Return the absolute path of a process's group; empty when that cannot be seen."""
        mount = self._mount
        inside = cgroup_of(pid)
        if mount is None or not inside or inside.startswith("/.."):
            return ""
        return str(mount / inside.lstrip("/"))

    def enter(self, path: Path, pid: int) -> bool:
        """Move a process into a group; returns whether it is there now."""
        return pid > 0 and _move(pid, path)

    def move_out(self, path: Path, origins: Mapping[int, str]) -> list[int]:
        """Move every process of a group to where it, or its nearest known ancestor, came from.

        Returns the processes that could not be moved.
        """
        return at_once(self.moving_out(path, origins))

    def moving_out(
        self, path: Path, origins: Mapping[int, str]
    ) -> Generator[None, None, list[int]]:
        """Move them like `move_out`, one process at each step."""
        stuck: list[int] = []
        for _ in range(8):  # processes fork while we look
            pids, stuck = self.pids(path), []
            for pid in pids:
                if not self._send_home(path, pid, origins):
                    stuck.append(pid)
                yield
            if not pids or stuck == pids:
                break
        return stuck

    @cached_property
    def _mount(self) -> Path | None:
        # Where the tree is mounted: to look it up takes as long as to move a process.
        return find_mount()

    def _send_home(self, path: Path, pid: int, origins: Mapping[int, str]) -> bool:
        home, mount = origin_of(pid, origins), self._mount
        targets = [Path(home)] if home else []
        targets += [path.parent.parent] if path in self.nested.values() else []
        targets += [self.root, *([mount] if mount else [])]
        return any(_move(pid, target) for target in targets)


def limits_nothing(mount: Path | None) -> bool:
    """Whether leaving a cgroup v2 costs no process a limit: no group has a controller (hybrid)."""
    if mount is None:
        return False
    try:
        return not (mount / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def cgroup_of(pid: int) -> str:
    """Return the v2 path of a process as its /proc entry has it; empty when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line[3:] for line in lines if line.startswith("0::")), "")


def origin_of(pid: int, origins: Mapping[int, str]) -> str:
    """Return where a process came from: its own entry, its nearest ancestor's, or the latest."""
    at = pid
    for _ in range(64):
        if at in origins:
            return origins[at]
        at = _parent(at)
        if at <= 1:
            break
    return list(origins.values())[-1] if origins else ""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _move(pid: int, group: Path) -> bool:
    # Whether the process is in the group now, or gone.
    try:
        (group / "cgroup.procs").write_text(str(pid))
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return True


def _members(group: Path) -> list[int]:
    try:
        # 0 is a process of another PID namespace: it cannot be named from here.
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split() if pid != "0"]
    except OSError as error:
        check_looked(error)
        return []


def _dying(pid: int) -> bool:
    # Whether a process is exiting, or has a SIGKILL on its way.
    try:
        flags = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6]
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (OSError, IndexError, UnicodeDecodeError):
        return False
    words = dict(line.split(":\t", 1) for line in lines if line.startswith(("SigPnd", "ShdPnd")))
    pending = [int(word, 16) for word in words.values()]
    return bool(int(flags) & PF_EXITING) or any(mask & SIGKILL for mask in pending)


def _unnamed(group: Path) -> bool:
    # Whether a process of another PID namespace is there.
    try:
        return "0" in (group / "cgroup.procs").read_text().split()
    except OSError as error:
        check_looked(error)
        return False


def _walk(path: Path) -> Iterator[Path]:
    # The group and those below it, parents first, at most MAX_CGROUPS.
    stack, seen = [str(path)], 0
    while stack and seen < MAX_CGROUPS:
        at = stack.pop()
        try:
            with os.scandir(at) as entries:
                below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            check_looked(error)
            continue
        yield Path(at)
        seen += 1
        stack.extend(below)
