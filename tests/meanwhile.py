"""Does the loop go on while something waits?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

PATIENCE_S = 20.0


class Meanwhile:
    """Something slow: `wait` is over when the loop has come to its next turn."""

    def __init__(self) -> None:
        self.seen: list[bool] = []
        """Of each wait, whether it has."""
        self._loop = asyncio.get_running_loop()

    def wait(self) -> None:
        """From any thread, also the loop's own: that one waits in vain."""
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        self.seen.append(turned.wait(PATIENCE_S))

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that is slow."""

        def slow(*arguments: Any) -> Any:
            self.wait()
            return function(*arguments)

        return slow
