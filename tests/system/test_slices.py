"""Work in slices: how much in one turn of a loop, and what becomes of the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from hostcc.daemon.log_limit import MAX_REMEMBERED, REPEAT_INTERVAL_S, LogLimit
from hostcc.system.slices import SLICE_S, at_once, in_slices

pytestmark = pytest.mark.unit

STEP_S, STEPS = 0.005, 30


class Work:
    """Each step takes a while, by a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turn = 0
        self.took: dict[int, float] = {}

    def steps(self) -> Generator[None, None, str]:
        for _ in range(STEPS):
            self.now += STEP_S
            self.took[self.turn] = self.took.get(self.turn, 0.0) + STEP_S
            yield
        return "done"


def test_a_turn_of_the_loop_is_not_longer_than_a_slice() -> None:
    async def scene() -> Work:
        work, over = Work(), asyncio.Event()

        async def turns() -> None:
            while not over.is_set():
                work.turn += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(turns())
        assert await in_slices(work.steps(), lambda: work.now) == "done"
        over.set()
        await other
        return work

    work = asyncio.run(scene())
    assert sum(work.took.values()) == pytest.approx(STEPS * STEP_S)
    assert max(work.took.values()) <= SLICE_S + STEP_S
    assert len(work.took) >= STEPS * STEP_S / (SLICE_S + STEP_S)


def test_what_is_left_can_be_taken_at_once() -> None:
    async def scene() -> Work:
        work = Work()
        steps = work.steps()
        task = asyncio.create_task(in_slices(steps, lambda: work.now))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert 0 < work.now < STEPS * STEP_S / 2
        assert at_once(steps) == "done"
        return work

    assert asyncio.run(scene()).now == pytest.approx(STEPS * STEP_S)


def test_the_same_is_said_rarely_and_not_too_much_at_all() -> None:
    now = 0.0
    rarely = LogLimit(lambda: now)
    assert [rarely.due("a"), rarely.due("a"), rarely.due("b")] == [True, False, True]
    assert sum(rarely.due(number) for number in range(10 * MAX_REMEMBERED)) == MAX_REMEMBERED - 2
    now = REPEAT_INTERVAL_S
    assert rarely.due("a")
