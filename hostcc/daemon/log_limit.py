"""A limit on log lines that somebody else can cause again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

REPEAT_INTERVAL_S = 300.0
"""Seconds until the same line is due again."""
MAX_REMEMBERED = 32
"""Different lines within that time; further ones are dropped."""


class LogLimit:
    """Remembers which lines were logged lately."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[Hashable, float] = {}

    def due(self, what: Hashable) -> bool:
        """Whether to log it now; if so, counts it as logged."""
        now = self._clock()
        self._said = {one: at for one, at in self._said.items() if now - at < REPEAT_INTERVAL_S}
        if what in self._said or len(self._said) >= MAX_REMEMBERED:
            return False
        self._said[what] = now
        return True
