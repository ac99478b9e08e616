"""Pieces of work that fail by themselves: said once, shown, counted, and tried again."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from hostcc.bpf.loader.errors import BpfError
from hostcc.errors import HostccError, one_line
from hostcc.log import Logger

T = TypeVar("T")
Piece = Callable[[], Awaitable[object] | object]


class IsolatedSteps:
    """What is done again and again, piece by piece; one that fails keeps no other from its turn."""

    def __init__(self, log: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self.failures = 0
        """How often anything has failed so far."""
        self._log = log
        self._clock = clock
        self._failing: dict[str, tuple[float, str]] = {}
        """Piece -> since when it fails without a break, and why it did last."""
        self._unseen = ""

    @property
    def failing(self) -> dict[str, str]:
        """Piece -> why it failed at its last turn."""
        return {name: why for name, (_, why) in self._failing.items()}

    def failing_s(self, name: str) -> float:
        """For how many seconds a piece has failed at every turn; 0: it has not."""
        return self._clock() - self._failing[name][0] if name in self._failing else 0.0

    def do(self, name: str, piece: Callable[[], object]) -> bool:
        """One piece's turn; whether it went well."""
        try:
            piece()
        except Exception as error:  # noqa: BLE001 - the others have their turn all the same
            self._failed(name, error)
            return False
        self._failing.pop(name, None)
        return True

    async def wait_for(self, name: str, piece: Callable[[], Awaitable[object]]) -> None:
        """The same of one that takes its time."""
        try:
            await piece()
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(name, error)
        else:
            self._failing.pop(name, None)

    def forget(self) -> None:
        """There is nothing of the pieces left to do for now."""
        self._failing.clear()

    def unseen(self, context: Mapping[str, Any]) -> None:
        """What a loop's exception handler is told: something failed that nobody waited for."""
        self.failures += 1
        text, error = str(context.get("message")), context.get("exception")
        words = f"{text} {error!r}"
        if words == self._unseen:
            return
        self._unseen = words
        if isinstance(error, BaseException):
            self._log.defect("unseen failure", error, what=text)
        else:
            self._log.failure("unseen failure", what=text)

    def _failed(self, name: str, error: Exception) -> None:
        self.failures += 1
        since, before = self._failing.get(name, (self._clock(), ""))
        why = reason(error)
        self._failing[name] = since, why
        if why != before:  # once, not twice a second
            say(self._log, "failed", error, what=name)


def reason(error: BaseException) -> str:
    """What went wrong, in one line; of a defect, what kind of one."""
    expected = isinstance(error, BpfError | HostccError | OSError)
    return one_line(str(error) if expected and str(error) else repr(error))


def say(log: Logger, event: str, error: Exception, **fields: object) -> None:
    """Log a failure: a defect with its traceback."""
    if isinstance(error, BpfError | HostccError | OSError):
        log.failure(event, **fields, reason=reason(error))
    else:
        log.defect(event, error, **fields)


async def each(log: Logger, event: str, steps: Mapping[str, Piece]) -> None:
    """Take all steps in their order, those too that come after one which failed."""
    for name, step in steps.items():
        try:
            await outcome(step())
        except Exception as error:  # noqa: BLE001 - the rest has to be done all the same
            say(log, f"{event} failed", error, step=name)


async def outcome(of: Awaitable[T] | T) -> T:
    """What a function returned that may have to be waited for."""
    if inspect.isawaitable(of):
        return await of
    return of
