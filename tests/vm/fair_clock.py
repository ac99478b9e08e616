"""A clock for waiting for a process, which stands still while that waits for a processor."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def fair_clock(pid: int) -> Callable[[], float]:
    """Return a clock, seconds, of the time in which a process ran, or had nothing to run.

    What a thread has waited is known once it runs again: until then the clock goes on, and then
    takes that back.
    """
    return lambda: time.monotonic() - waited_s(pid)


def waited_s(pid: int) -> float:
    """Seconds that the thread that waited longest has waited for a processor; 0: it is gone."""
    longest = 0.0
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                _, waited_ns, _ = (thread / "schedstat").read_text().split()
                longest = max(longest, int(waited_ns) / 1e9)
    return longest
