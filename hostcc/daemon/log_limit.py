"""What would be said again and again, by somebody else's doing: seldom enough for a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

EVERY_S = 300.0
"""The same is said once in so many seconds ..."""
MOST = 32
"""... and so much in all."""


class LogLimit:
    """Remembers what was said of late."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[Hashable, float] = {}

    def due(self, what: Hashable) -> bool:
        """Whether to say it now."""
        now = self._clock()
        self._said = {one: at for one, at in self._said.items() if now - at < EVERY_S}
        if what in self._said or len(self._said) >= MOST:
            return False
        self._said[what] = now
        return True
