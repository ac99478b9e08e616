"""Reads what the congestion control reports: bursts at once, ends of iterations at each tick."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from hostcc.daemon.enforcement import Engine
from hostcc.daemon.jobs.iteration_times import ITERATION, IterationTimes
from hostcc.mltcp.backend import MltcpBackend, Records


class EventReader:
    """Hands the events of the engine in force to those who follow them."""

    def __init__(self, times: IterationTimes, burst: Callable[[Records], None]) -> None:
        self._times, self._burst = times, burst
        self._backend: MltcpBackend | None = None
        self._fd = -1

    def read(self, engine: Engine | None) -> None:
        """Read what there is; to be called at each tick, with the engine in force."""
        backend = engine.backend if engine is not None else None
        if backend is not self._backend:
            self.close()
            self._backend = backend
            if engine is not None and engine.backend.events_fd >= 0:
                # Ours: closing that of the engine must not leave the loop with a number in use.
                self._fd = os.dup(engine.backend.events_fd)
                loop = asyncio.get_running_loop()
                loop.add_reader(self._fd, self._wake, engine)
        if engine is not None:
            self._read(engine)

    def close(self) -> None:
        """Read no more."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
        self._fd, self._backend = -1, None

    def _wake(self, engine: Engine) -> None:
        """Read what has come; after a failure not before the next tick, or the loop would spin."""
        try:
            self._read(engine)
        except BaseException:
            self.close()
            raise

    def _read(self, engine: Engine) -> None:
        if engine.backend is not self._backend:
            return
        events = engine.backend.events()
        self._times.add(events, engine.table.by_slot())
        bursts = events[events["kind"] != ITERATION]
        if len(bursts):
            self._burst(bursts)
