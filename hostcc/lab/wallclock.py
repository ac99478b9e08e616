"""A wall clock that one process sees and that can be stepped while it runs."""

from __future__ import annotations

import struct
from pathlib import Path

from hostcc.lab import compile as compiler

SECONDS = struct.Struct("q")


class WallClock:
    """One clock, in a file.  Raises LabError where the library cannot be compiled, or OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._library = compiler.program("wallclock.c", "-shared", "-fPIC")
        self.step(0)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to see it."""
        return {"LD_PRELOAD": str(self._library), "HOSTCC_LAB_CLOCK": str(self._path)}

    def step(self, ahead_s: int) -> None:
        """From now on it is so many seconds ahead of the machine's."""
        with self._path.open("r+b" if self._path.exists() else "wb") as file:
            file.write(SECONDS.pack(ahead_s))  # in place: processes have it mapped
