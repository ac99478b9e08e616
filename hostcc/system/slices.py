"""Work that takes long, in slices between which the loop goes on.

The work is a generator: after each step it yields, and whatever it knows may be another then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")
SLICE_S = 0.02
"""No step begins after so much of a turn of the loop, seconds."""


async def in_slices(
    steps: Generator[None, None, T], clock: Callable[[], float] = time.monotonic
) -> T:
    """Take all steps, some in each turn of the loop; what they came to.

    When it is cancelled the steps that are left are the caller's to take or to close.
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
    """The same without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
