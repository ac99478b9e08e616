"""The agent's end of a region of semaphores: makes it, beats it, says which link is which.

Whoever may use the region could shrink its file, and a process that has it mapped would die of
that.  So the agent reads and writes the file instead.
"""

from __future__ import annotations

import ctypes
import grp
import os
import time
from pathlib import Path

from hostcc import regionfile
from hostcc.errors import HostccError
from hostcc.pcie import layout
from hostcc.pcie.semaphore import LinkState, Semaphores, Settings, check, settings_of, state_of
from hostcc.regionfile import RegionFile

_FIRST = ctypes.sizeof(layout.Region)
_LINK = ctypes.sizeof(layout.Link)


class Keeper:
    """One region with room for `layout.MAX_LINKS` links.  Raises HostccError."""

    def __init__(self, path: Path, stale_s: float, group: str = "") -> None:
        """Make it; who has an older one open sees that one go stale."""
        Semaphores.create([("-", Settings())] * layout.MAX_LINKS, path, stale_s).close()
        self.path = path
        self._names: list[str] = []
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            if group:
                os.fchown(self._fd, -1, grp.getgrnam(group).gr_gid)
            self._file = RegionFile.opened(path, self._fd)
        except KeyError:
            path.unlink(missing_ok=True)
            raise HostccError(f"pcie.group: expected a group of this host, got {group}") from None
        except OSError as error:
            raise HostccError(f"{path}: {error.strerror}") from None

    def beat(self) -> None:
        """The agent lives."""
        self._write(layout.Region.beat.offset, ctypes.c_uint64(time.monotonic_ns()))

    def number(self, name: str, settings: Settings) -> int | None:
        """The number of a link, which it keeps; None: there is no room for another."""
        if name not in self._names:
            if len(self._names) >= layout.MAX_LINKS:
                return None
            check(name, settings)
            self._names.append(name)
            self.set(name, settings)
        return self._names.index(name)

    def set(self, name: str, settings: Settings) -> None:
        """How a link that has a number is shared, live."""
        number = self._names.index(name)
        at = _FIRST + number * _LINK
        fresh = layout.Link(name=name.encode())
        settings_of(fresh, settings)
        before = layout.Link.handovers.offset
        self._write(at, fresh, before)

    def states(self) -> tuple[LinkState, ...]:
        """Links with a number, in its order."""
        found = []
        for number in range(len(self._names)):
            raw = os.pread(self._fd, _LINK, _FIRST + number * _LINK)
            if len(raw) == _LINK:
                found.append(state_of(layout.Link.from_buffer_copy(raw)))
        return tuple(found)

    def problem(self) -> str:
        """What is wrong with the file that jobs would open now; empty: it is this region."""
        whole = _FIRST + layout.MAX_LINKS * _LINK
        return self._file.problem(lambda facts: "" if facts.st_size == whole else "another size")

    def close(self) -> None:
        """Remove it: nobody waits any more."""
        self._write(layout.Region.beat.offset, ctypes.c_uint64(1))
        self._file.unlink()
        os.close(self._fd)

    def _write(self, at: int, value: ctypes.Structure | ctypes.c_uint64, most: int = 0) -> None:
        raw = bytes(value)
        os.pwrite(self._fd, raw[: most or len(raw)], at)


def remove(path: Path) -> bool:
    """Take away what an agent that died has left; whether it was a region of semaphores."""
    return regionfile.remove(path, layout.MAGIC)
