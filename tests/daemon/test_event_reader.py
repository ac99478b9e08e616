"""Events: bursts are handed on as they come, iterations with the next tick."""

from __future__ import annotations

import asyncio
import contextlib
import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hostcc.daemon.event_reader import EventReader
from hostcc.daemon.jobs.iteration_times import IterationTimes
from tests.fakes import EVENT, FakeBackend
from tests.patience import eventually

pytestmark = pytest.mark.unit

SLOT = 1


class Ring(FakeBackend):
    """A kernel whose events come with a byte in a pipe."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.events_fd, self._writes = os.pipe()

    def report(self, *kinds: int) -> None:
        rows = np.zeros(len(kinds), EVENT)
        rows["slot"], rows["kind"] = SLOT, kinds
        self.pending += [tuple(row) for row in rows.tolist()]
        os.write(self._writes, b"x")

    def events(self) -> Any:
        os.set_blocking(self.events_fd, False)
        with contextlib.suppress(BlockingIOError):
            os.read(self.events_fd, 100)
        return super().events()

    def close(self) -> None:
        super().close()
        os.close(self.events_fd)
        os.close(self._writes)


def engine(ring: Ring) -> Any:
    jobs = {SLOT: SimpleNamespace(name="a", params=None)}
    return SimpleNamespace(backend=ring, table=SimpleNamespace(by_slot=lambda: jobs))


def test_bursts_come_without_a_tick() -> None:
    async def scene() -> None:
        seen: list[int] = []
        reader = EventReader(IterationTimes(), lambda rows: seen.extend(rows["kind"].tolist()))
        ring = Ring()
        reader.read(engine(ring))
        ring.report(0, 1, 4)
        await eventually(lambda: seen == [1, 4])
        reader.close()
        reader.close()
        ring.close()

    asyncio.run(scene())


def test_a_failure_waits_for_the_next_tick() -> None:
    async def scene() -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(context)
        )
        seen: list[int] = []
        reader = EventReader(IterationTimes(), lambda rows: seen.extend(rows["kind"].tolist()))
        ring = Ring()
        here = engine(ring)
        reader.read(here)
        good, ring.events = ring.events, lambda: 1 / 0  # type: ignore[method-assign]
        ring.report(2)
        await eventually(lambda: failures)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(failures) == 1
        ring.events = good  # type: ignore[method-assign]
        reader.read(here)
        assert seen == [2]
        reader.close()
        ring.close()

    asyncio.run(scene())


def test_another_engine_is_read_and_the_old_one_is_not() -> None:
    async def scene() -> None:
        seen: list[int] = []
        reader = EventReader(IterationTimes(), lambda rows: seen.extend(rows["kind"].tolist()))
        old, new = Ring(), Ring()
        reader.read(engine(old))
        old.close()  # as an engine that is dropped does, before the next tick
        reader.read(None)
        reader.read(engine(new))
        new.report(2)
        await eventually(lambda: seen == [2])
        reader.close()
        new.close()

    asyncio.run(scene())
