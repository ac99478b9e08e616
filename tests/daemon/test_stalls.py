"""The loop's turns are timed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostcc.daemon import stalls as module
from hostcc.daemon.stalls import Stalls, new_loop

pytestmark = [pytest.mark.unit, pytest.mark.slow]

HELD_S = 0.2


def timed(held: Callable[[], object], begin: bool = True) -> Stalls:
    """A loop in which one callback takes its time."""
    stalls = Stalls()

    async def scene() -> None:
        if begin:
            stalls.begin()
        await asyncio.sleep(0)
        held()
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=lambda: new_loop(stalls)) as runner:
        runner.run(scene())
    return stalls


def spin() -> None:
    ends = time.thread_time() + HELD_S
    while time.thread_time() < ends:
        pass


@pytest.mark.parametrize("held", [lambda: time.sleep(HELD_S), spin])
def test_who_sleeps_or_works_stalls_the_loop(held: Callable[[], object]) -> None:
    stalls = timed(held)
    assert stalls.longest_s >= stalls.longest_busy_s >= 0.9 * HELD_S


def test_who_waits_in_a_thread_does_not() -> None:
    stalls = Stalls()

    async def scene() -> None:
        stalls.begin()
        await asyncio.to_thread(time.sleep, 5 * HELD_S)

    with asyncio.Runner(loop_factory=lambda: new_loop(stalls)) as runner:
        runner.run(scene())
    assert 0 < stalls.longest_busy_s < 5 * HELD_S


def test_what_was_before_does_not_count() -> None:
    assert timed(lambda: None, begin=False).longest_s == 0.0


def test_a_kernel_that_does_not_count_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCHEDSTAT", tmp_path / "none")
    assert timed(lambda: time.sleep(HELD_S)).longest_busy_s >= HELD_S
