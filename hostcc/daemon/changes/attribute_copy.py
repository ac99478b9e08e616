"""A copy of the changes in force, in extended attributes of the agent's cgroup directory.

The attributes need no disk, end with the boot as the changes do, and only root (CAP_SYS_ADMIN) can
read or write them.  With them a roll-back works when the run directory is lost: reserved ports, and
the cgroups that processes came from, could not be recognised in the kernel as ours.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hostcc.limits import MAX_CGROUPS
from hostcc.system.cgroups import BASE

_OWNER = "trusted.hostcc.agent"
_CHANGE = "trusted.hostcc.change."
MAX_ATTRIBUTE_BYTES = 1 << 16
"""Of one attribute (XATTR_SIZE_MAX)."""


@dataclass(frozen=True)
class AttributeCopy:
    """The copy on one directory.  What cannot be written is left out; the journal has it."""

    base: Path

    @property
    def owner(self) -> tuple[str, int]:
        """Run directory and network namespace of the agent that wrote it; without one: empty, 0."""
        folder, _, netns = _get(self.base, _OWNER).decode(errors="replace").rpartition("\n")
        return (folder, int(netns)) if netns.isdecimal() else ("", 0)

    def begin(self, run_dir: Path, records: Mapping[str, bytes]) -> None:
        """Write the owner, and make these the only records."""
        netns = Path("/proc/self/ns/net").stat().st_ino
        _set(self.base, _OWNER, f"{run_dir.resolve()}\n{netns}".encode())
        wanted = {_name(change_id) for change_id in records}
        for name in _names(self.base):
            if name.startswith(_CHANGE) and name not in wanted:
                _remove(self.base, name)
        for change_id, record in records.items():
            self.put(change_id, record)

    def put(self, change_id: str, record: bytes) -> None:
        """Add the record of a change in force, or replace it."""
        name = _name(change_id)
        if len(record) > MAX_ATTRIBUTE_BYTES or not _set(self.base, name, record):
            _remove(self.base, name)  # rather none than one that is out of date

    def drop(self, change_id: str) -> None:
        """Remove the record of a change."""
        _remove(self.base, _name(change_id))

    def records(self) -> list[bytes]:
        """Read all records, in no order."""
        names = (name for name in _names(self.base) if name.startswith(_CHANGE))
        return [record for name in names if (record := _get(self.base, name))]


def everywhere(mount: Path) -> Iterator[AttributeCopy]:
    """Find the copies of all agents below a cgroup v2 mount."""
    waiting, seen = [str(mount)], 0
    while waiting and seen < MAX_CGROUPS:
        at, seen = waiting.pop(), seen + 1
        try:
            with os.scandir(at) as entries:
                below = [one for one in entries if one.is_dir(follow_symlinks=False)]
        except OSError:  # it ended meanwhile
            continue
        waiting += [one.path for one in below]
        for one in below:
            if one.name == BASE and (found := AttributeCopy(Path(one.path))).owner[0]:
                yield found


def _name(change_id: str) -> str:
    return _CHANGE + hashlib.sha256(change_id.encode()).hexdigest()[:32]


def _names(base: Path) -> list[str]:
    try:
        return os.listxattr(base, follow_symlinks=False)
    except OSError:
        return []


def _get(base: Path, name: str) -> bytes:
    try:
        return os.getxattr(base, name, follow_symlinks=False)
    except OSError:
        return b""


def _set(base: Path, name: str, value: bytes) -> bool:
    try:
        os.setxattr(base, name, value, follow_symlinks=False)
    except OSError:
        return False
    return True


def _remove(base: Path, name: str) -> None:
    with suppress(OSError):
        os.removexattr(base, name, follow_symlinks=False)
