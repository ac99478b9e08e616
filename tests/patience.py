"""Waiting for what must come, on a machine that may be busy: patience only bounds a failure."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

LOADAVG = Path("/proc/loadavg")
POLL_S = 0.01
PATIENCE_S = 120.0
"""Only bounds a failure."""


def share(loadavg: str, processors: int) -> float:
    """Of a processor that a process gets while so many run: 1 where each has its own."""
    running = int(loadavg.split()[3].partition("/")[0])
    return min(1.0, processors / max(1, running))


class Patience:
    """So many seconds of a processor of one's own: where three share one, it lasts three times."""

    def __init__(self, seconds: float) -> None:
        self._left_s, self._then = seconds, time.monotonic()

    def lasts(self) -> bool:
        """Whether to go on waiting; asked all the time."""
        now = time.monotonic()
        self._left_s -= (now - self._then) * share(LOADAVG.read_text(), os.cpu_count() or 1)
        self._then = now
        return self._left_s > 0


def until(
    true: Callable[[], object],
    what: str | Callable[[], str],
    patience_s: float = PATIENCE_S,
    meanwhile: Callable[[], object] = int,
) -> None:
    """Wait for something; AssertionError that says for what when patience has ended."""
    patience = Patience(patience_s)
    while not true():
        assert patience.lasts(), f"waited in vain for {what if isinstance(what, str) else what()}"
        meanwhile()
        time.sleep(POLL_S)


async def eventually(true: Callable[[], object], patience_s: float = 60.0) -> None:
    """Wait for something while other tasks run; AssertionError when patience has ended."""
    patience = Patience(patience_s)
    while not true():
        assert patience.lasts(), "waited in vain"
        await asyncio.sleep(POLL_S)
