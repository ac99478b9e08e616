"""The agent's end of a region of semaphores: makes it, hands it out, beats it, names its links.

Everybody who may use the region may write there, so nothing of it is believed but numbers.
"""

from __future__ import annotations

import ctypes
import grp
import os
import time
from dataclasses import replace
from pathlib import Path

from hostcc.errors import HostccError
from hostcc.pcie import layout
from hostcc.pcie.handout import Handout
from hostcc.pcie.semaphore import LinkState, Settings, check, memory, settings_of, state_of, us
from hostcc.system import region_file

_FIRST = ctypes.sizeof(layout.Region)
_LINK = ctypes.sizeof(layout.Link)


class Keeper:
    """One region with room for `layout.MAX_LINKS` links.  Raises HostccError."""

    def __init__(self, path: Path, stale_s: float, group: str = "") -> None:
        """Make it; who has an older one open sees that one go stale."""
        try:
            members = grp.getgrnam(group).gr_gid if group else None
        except KeyError:
            raise HostccError(f"pcie.group: expected a group of this host, got {group}") from None
        self.path = path
        self._stale_s = stale_s
        self._names: list[str] = []
        self._settings: dict[str, Settings] = {}
        self._fd = memory([("-", Settings())] * layout.MAX_LINKS, stale_s)
        try:
            self._handout = Handout(path, self._fd, members)
        except HostccError:
            os.close(self._fd)
            raise

    def beat(self, stale_s: float) -> None:
        """Write the heartbeat and the header again, whatever others have written there.

        Without the next one for `stale_s` nobody waits.
        """
        self._stale_s = stale_s
        self._write_header(time.monotonic_ns())
        for name, settings in self._settings.items():
            self._write_link(name, settings)

    def number(self, name: str, settings: Settings) -> int | None:
        """Return the number of a link, which it keeps; None: there is no room for another.

        From now on it is shared as these settings say.
        """
        if name not in self._names:
            if len(self._names) >= layout.MAX_LINKS:
                return None
            self._names.append(name)
        if self._settings.get(name) != settings:
            check(name, settings)
            self._settings[name] = settings
            self._write_link(name, settings)
        return self._names.index(name)

    def states(self) -> tuple[LinkState, ...]:
        """List the states of links with a number, in its order."""
        found = []
        for number, name in enumerate(self._names):
            raw = os.pread(self._fd, _LINK, _FIRST + number * _LINK)
            if len(raw) == _LINK:
                found.append(replace(state_of(layout.Link.from_buffer_copy(raw)), name=name))
        return tuple(found)

    def problem(self) -> str:
        """Say what is wrong with the socket at which jobs would ask now; empty: nothing."""
        return self._handout.file.problem()

    def close(self) -> None:
        """Remove the region: nobody waits any more."""
        self._write_header(1)
        self._handout.close()
        os.close(self._fd)

    def _write_header(self, beat_ns: int) -> None:
        whole = _FIRST + layout.MAX_LINKS * _LINK
        header = layout.Region(
            layout.MAGIC, layout.VERSION, layout.MAX_LINKS, whole, beat_ns, us(self._stale_s)
        )
        os.pwrite(self._fd, bytes(header), 0)

    def _write_link(self, name: str, settings: Settings) -> None:
        # Its name and how it is shared; not what is counted and who takes part.
        fresh = layout.Link(name=name.encode())
        settings_of(fresh, settings)
        at = _FIRST + self._names.index(name) * _LINK
        os.pwrite(self._fd, bytes(fresh)[: layout.Link.handovers.offset], at)


def remove(path: Path) -> bool:
    """Remove the region of a dead agent; returns whether there was one."""
    return region_file.remove(path, layout.MAGIC)
