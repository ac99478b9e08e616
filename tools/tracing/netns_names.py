"""Names of network namespaces, which the kernel knows by inode number only."""

from __future__ import annotations

import time
from pathlib import Path

NAMED = Path("/run/netns")
OWN = Path("/proc/self/ns/net")
REFRESH_S = 1.0


class Namespaces:
    """Inode number to name: that of `ip netns`, "-" for our own, else the number."""

    def __init__(self, named: Path = NAMED, own: Path = OWN) -> None:
        self._named = named
        self._own = own
        self._names: dict[int, str] = {}
        self._read = float("-inf")

    def name(self, number: int) -> str:
        """The name of one."""
        if number not in self._names and time.monotonic() - self._read > REFRESH_S:
            self._read = time.monotonic()
            self._names = self._find()
        return self._names.get(number, f"net:[{number}]")

    def _find(self) -> dict[int, str]:
        found: dict[int, str] = {}
        if self._named.is_dir():
            for path in sorted(self._named.iterdir()):
                try:
                    found[path.stat().st_ino] = path.name
                except OSError:  # removed meanwhile
                    continue
        found[self._own.stat().st_ino] = "-"
        return found
