"""Times each turn of the agent's loop.

Whatever becomes due during a turn, above all a heartbeat, waits until the turn is over.  So the
longest turn bounds how late anything ran.
"""

from __future__ import annotations

import asyncio
import ctypes
import selectors
import time
from pathlib import Path
from typing import Any

SCHEDSTAT = Path("/proc/thread-self/schedstat")
_BYTES = 64
"""Bytes read of it: more than its three numbers take."""


class Stalls(selectors.DefaultSelector):
    """A selector that times what its loop does between two waits.

    `longest_s` is the longest turn since `begin`; `longest_busy_s` leaves out the time for which
    the thread could run but had no processor, so it is what the agent did, or waited for.  Both in
    seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest_s = self.longest_busy_s = 0.0
        self._measured = False
        self._woke: tuple[int, int] | None = None
        """Nanoseconds when the turn began, and those spent without a processor until then."""
        self._waits = _Waits()

    def begin(self) -> None:
        """Begin to time turns, with the next one."""
        self._measured, self._woke = True, None
        self.longest_s = self.longest_busy_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """Wait for events, which ends a turn and begins the next."""
        if self._woke is not None:
            began, waited = self._woke
            took = time.monotonic_ns() - began
            self.longest_s = max(self.longest_s, took / 1e9)
            if took / 1e9 > self.longest_busy_s:
                busy = took - (self._waits.ns() - waited)
                self.longest_busy_s = max(self.longest_busy_s, busy / 1e9)
        found = super().select(timeout)
        if self._measured:
            self._woke = time.monotonic_ns(), self._waits.ns()
        return found

    def close(self) -> None:
        """Close this and what is read."""
        self._waits.close()
        super().close()


def new_loop(stalls: Stalls) -> asyncio.AbstractEventLoop:
    """An event loop that is timed."""
    return asyncio.SelectorEventLoop(stalls)


class _Waits:
    """Time for which the thread that asks first could run but had no processor."""

    def __init__(self) -> None:
        self._file: Any = None
        self._buffer = ctypes.create_string_buffer(_BYTES)
        # Not os.pread: that lets other threads have the interpreter, and the turn waits for it.
        self._pread = ctypes.PyDLL(None).pread

    def ns(self) -> int:
        """Nanoseconds so far; 0 where the kernel does not count them."""
        if self._file is None:
            try:
                self._file = SCHEDSTAT.open("rb", buffering=0)
            except OSError:
                return 0
        size = self._pread(self._file.fileno(), self._buffer, _BYTES, ctypes.c_long(0))
        fields = self._buffer.raw[: max(0, size)].split()
        return int(fields[1]) if len(fields) > 1 else 0

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()
            self._file = None
