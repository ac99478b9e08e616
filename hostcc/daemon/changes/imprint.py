"""What an agent has in force, once more in the kernel: attributes of its directory of cgroups.

They need no disk, end with the boot like what they tell of, and only root (CAP_SYS_ADMIN) can read
or write them.  So an agent whose run directory is gone is known by them all the same: what it
reserved, and where processes came from, is nothing that the kernel could tell as ours.
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
MOST_BYTES = 1 << 16
"""Of one attribute (XATTR_SIZE_MAX)."""


@dataclass(frozen=True)
class Imprint:
    """On one directory.  What cannot be written is left out: the journal comes first."""

    base: Path

    @property
    def owner(self) -> tuple[str, int]:
        """Run directory and network namespace of the agent that wrote it; nobody's: empty and 0."""
        folder, _, netns = _get(self.base, _OWNER).decode(errors="replace").rpartition("\n")
        return (folder, int(netns)) if netns.isdecimal() else ("", 0)

    def begin(self, run_dir: Path, records: Mapping[str, bytes]) -> None:
        """Say whose it is, and hold these records and no others."""
        netns = Path("/proc/self/ns/net").stat().st_ino
        _set(self.base, _OWNER, f"{run_dir.resolve()}\n{netns}".encode())
        wanted = {_name(change_id) for change_id in records}
        for name in _names(self.base):
            if name.startswith(_CHANGE) and name not in wanted:
                _remove(self.base, name)
        for change_id, record in records.items():
            self.put(change_id, record)

    def put(self, change_id: str, record: bytes) -> None:
        """A change is in force."""
        name = _name(change_id)
        if len(record) > MOST_BYTES or not _set(self.base, name, record):
            _remove(self.base, name)  # rather nothing than what is no longer so

    def drop(self, change_id: str) -> None:
        """It no longer is."""
        _remove(self.base, _name(change_id))

    def records(self) -> list[bytes]:
        """What is there, in no order."""
        names = (name for name in _names(self.base) if name.startswith(_CHANGE))
        return [record for name in names if (record := _get(self.base, name))]


def everywhere(mount: Path) -> Iterator[Imprint]:
    """Those of all agents below a cgroup v2 mount."""
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
            if one.name == BASE and (found := Imprint(Path(one.path))).owner[0]:
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
