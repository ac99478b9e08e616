"""Runs long work in slices, so that the event loop goes on.

The work is a generator that yields after each step; what it knows may have changed then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")
SLICE_S = 0.02
"""No step begins later than this in a turn of the loop."""


async def in_slices(
    steps: Generator[None, None, T], clock: Callable[[], float] = time.monotonic
) -> T:
    """Run all steps, some in each turn of the loop, and return the generator's value.

    On cancellation the remaining steps are the caller's to run or to close.
    """
    until = clock() + SLICE_S
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if clock() >= until:
            await asyncio.sleep(0)
            until = clock() + SLICE_S


def at_once(steps: Generator[None, None, T]) -> T:
    """Run all steps without a pause, and return the generator's value."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
