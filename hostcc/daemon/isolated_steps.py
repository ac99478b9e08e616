"""Steps that fail one by one: a failure is logged once, shown, counted, and tried again."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from hostcc.bpf.loader.errors import BpfError
from hostcc.errors import HostccError, one_line
from hostcc.log import Logger

T = TypeVar("T")
Step = Callable[[], Awaitable[object] | object]


class IsolatedSteps:
    """Runs steps again and again; one that fails does not keep the others from running."""

    def __init__(self, log: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self.failures = 0
        """Failures so far."""
        self._log = log
        self._clock = clock
        self._failing: dict[str, tuple[float, str]] = {}
        """Step -> monotonic seconds since which it fails without a break, and the last reason."""
        self._unseen = ""

    @property
    def failing(self) -> dict[str, str]:
        """Step -> why it failed when it last ran."""
        return {name: why for name, (_, why) in self._failing.items()}

    def failing_s(self, name: str) -> float:
        """Seconds for which a step has failed every time; 0: it has not."""
        return self._clock() - self._failing[name][0] if name in self._failing else 0.0

    def do(self, name: str, step: Callable[[], object]) -> bool:
        """Run one step; returns whether it succeeded."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the others run all the same
            self._failed(name, error)
            return False
        self._failing.pop(name, None)
        return True

    async def wait_for(self, name: str, step: Callable[[], Awaitable[object]]) -> None:
        """Run one step that has to be awaited."""
        try:
            await step()
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(name, error)
        else:
            self._failing.pop(name, None)

    def forget(self) -> None:
        """Forget which steps fail: none of them runs for now."""
        self._failing.clear()

    def unseen(self, context: Mapping[str, Any]) -> None:
        """Log and count a failure that nobody awaited, from the context that asyncio gives its
        exception handler."""
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
            log_failure(self._log, "failed", error, what=name)


def reason(error: BaseException) -> str:
    """Word an error in one line; a defect by its repr."""
    expected = isinstance(error, BpfError | HostccError | OSError)
    return one_line(str(error) if expected and str(error) else repr(error))


def log_failure(log: Logger, event: str, error: Exception, **fields: object) -> None:
    """Log a failure; a defect with its traceback."""
    if isinstance(error, BpfError | HostccError | OSError):
        log.failure(event, **fields, reason=reason(error))
    else:
        log.defect(event, error, **fields)


async def run_each(log: Logger, event: str, steps: Mapping[str, Step]) -> None:
    """Run all steps in order, also after one that failed."""
    for name, step in steps.items():
        try:
            await awaited(step())
        except Exception as error:  # noqa: BLE001 - the rest has to be done all the same
            log_failure(log, f"{event} failed", error, step=name)


async def awaited(of: Awaitable[T] | T) -> T:
    """Await a value if it is awaitable."""
    if inspect.isawaitable(of):
        return await of
    return of
