"""The parts of an agent beside its engine: each runs by itself, and fails by itself.

A part is started, ticked and stopped by `Supervisor`, which knows nothing else about it.  What
goes wrong in one is logged once, shown in status and tried again later; it reaches neither
the other parts nor the engine.

They share the agent's loop, which beats: what may take longer than some milliseconds, a walk over
sockets, a command, anything that waits, goes to a thread (`in_thread`) and is awaited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from hostcc.config.schema import Config
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.enforcement import Engine
from hostcc.daemon.pieces import each, outcome, reason, say
from hostcc.errors import HostccError
from hostcc.log import get_logger
from hostcc.model import Difference

log = get_logger("parts")
T = TypeVar("T")

RETRY_S = (2.0, 300.0)
"""First and longest wait after a failure, seconds; it doubles from one to the other."""
OFF_S = 3.0
"""Between two looks whether a part that is off may run, seconds."""
STEP_S = 0.505
"""Turns of all parts fall together, where that is near: to wake up costs as much as a short turn.
A little more than half a second, so that what is due every half second is due each time."""
NEAR = 0.1
"""By so much of what is asked for a turn may come earlier or later than asked."""
_BEGAN_S = time.monotonic()
"""Agents on one machine do not wake up together."""


class Host(Protocol):
    """What parts see of the agent; all of it may be another object at the next tick."""

    @property
    def config(self) -> Config:
        """The configuration now."""

    @property
    def engine(self) -> Engine | None:
        """What is in force here; None while the agent only observes."""

    @property
    def journal(self) -> Journal:
        """Where every change goes first."""


class Part(Protocol):
    """One part.  Any method may raise; `start` follows a `stop`, or comes first.

    `start`, `tick` and `stop` of a part have their turns one after another, never within each
    other; what another of its methods reads may be as it is in the middle of one.
    """

    name: str

    @property
    def every_s(self) -> float:
        """Seconds between ticks."""

    def disabled_reason(self) -> str:
        """Why this part is not to run now, in words; empty when it is."""

    def start(self) -> Awaitable[None] | None:
        """Begin."""

    async def tick(self) -> None:
        """One turn."""

    def stop(self) -> Awaitable[None] | None:
        """End, and undo what has to be undone; also after a `start` that failed."""

    def verify(self) -> Awaitable[list[Difference]] | list[Difference]:
        """What is no longer as this part made it; called only while it runs."""

    def view(self) -> Mapping[str, Any]:
        """What status shows of it beside its state; called only while it runs."""


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What a function returns that would hold up the loop.

    Ends after the thread has, also when it is cancelled: then what it used is free again.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait((work,))
        raise


def until_turn(wait_s: float, now_s: float) -> float:
    """Seconds to wait instead of `wait_s`, to wake up when others do; `now_s`: monotonic clock.

    What asks for about a step or more wakes up at whole steps; what asks for about half a step or
    more, at half steps, every second time with the others; what asks for less is left alone.
    """
    step_s = STEP_S if wait_s >= (1 - NEAR) * STEP_S else STEP_S / 2
    if wait_s < (1 - NEAR) * step_s:
        return wait_s
    due_s = now_s + wait_s - _BEGAN_S
    late_s = step_s * round(due_s / step_s) - due_s
    return wait_s + max(-NEAR * wait_s, min(NEAR * wait_s, late_s))


class Supervisor:
    """Runs parts, each in a task of its own."""

    def __init__(self, parts: Iterable[Part], clock: Callable[[], float] = time.monotonic) -> None:
        self._runs = [_PartRunner(part, clock) for part in parts]

    def start(self) -> None:
        """Begin; needs a running loop."""
        for run in self._runs:
            run.begin()

    async def stop(self) -> None:
        """End all, the last one first, whatever fails of it."""
        for run in reversed(self._runs):
            await each(log, "stop", {run.part.name: run.end})

    async def stop_disabled(self) -> None:
        """Stop those that are to be off now, the last one first; does not wait for their turn."""
        for run in reversed(self._runs):
            await run.stop_disabled()

    def recheck(self) -> None:
        """Have those that are off look at once whether they may run."""
        for run in self._runs:
            run.recheck()

    def wake(self) -> None:
        """Have all take their turn at once."""
        for run in self._runs:
            run.wake()

    async def verify(self) -> list[Difference]:
        """What is no longer as the parts made it."""
        return [one for run in self._runs if run.running for one in await run.verify()]

    def status(self) -> list[dict[str, Any]]:
        """One row per part: name, state (running, off, failed), reason, and its own figures."""
        return [run.status() for run in self._runs]


class _PartRunner:
    """One part and how it fares."""

    def __init__(self, part: Part, clock: Callable[[], float]) -> None:
        self.part = part
        self.running = False
        self._begun = False
        """Whether there is something to stop."""
        self._task: asyncio.Task[None] | None = None
        self._woken: asyncio.Future[None] | None = None
        """Done when it has its turn."""
        self._clock = clock
        self._off = "not started yet"
        self._trouble = ""
        self._logged = ""
        self._retry_s = RETRY_S[0]
        self._good_since = 0.0

    async def forever(self) -> None:
        while True:
            wait_s = until_turn(await self.turn(), time.monotonic())
            loop = asyncio.get_running_loop()
            self._woken = loop.create_future()
            timer = loop.call_later(wait_s, self.wake)
            try:
                await self._woken
            finally:
                timer.cancel()

    def begin(self) -> None:
        """Have it run from now on."""
        self._task = asyncio.get_running_loop().create_task(self.forever())

    async def end(self) -> None:
        """Break off its turn, if it has one, and stop the part."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.halt()

    async def turn(self) -> float:
        """One turn; seconds until the next."""
        try:
            return await self._turn()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody has ended the part: something that it waited for was.
            return await self._failed(HostccError(f"what it waited for was given up {error}"))
        except Exception as error:  # noqa: BLE001 - a part's failure is its own
            return await self._failed(error)

    async def _turn(self) -> float:
        self._off = self.part.disabled_reason()
        if self._off:
            await self.halt()
            self._trouble = ""
            return OFF_S
        if not self.running:
            self._begun = True
            await outcome(self.part.start())
            self.running, self._good_since = True, self._clock()
        await self.part.tick()
        self._trouble = ""
        if self._clock() - self._good_since > RETRY_S[1]:
            self._retry_s, self._logged = RETRY_S[0], ""
        return self.part.every_s

    async def stop_disabled(self) -> None:
        """Stop the part, if it is to be off."""
        self._off = self.part.disabled_reason()
        if self._off:
            runs = self._task is not None
            await self.end()
            if runs:
                self.begin()

    def recheck(self) -> None:
        """It has its turn now, if it is off."""
        if self._off:
            self.wake()

    def wake(self) -> None:
        """It has its turn now, unless it is having one."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def halt(self) -> None:
        """Stop the part, if it has begun."""
        if self._begun:
            await self._quietly_stop()

    async def verify(self) -> list[Difference]:
        try:
            return await outcome(self.part.verify())
        except Exception as error:  # noqa: BLE001 - as above
            name = self.part.name
            return [Difference(id=name, target=name, expected="an answer", found=reason(error))]

    def status(self) -> dict[str, Any]:
        state = "failed" if self._trouble else "running" if self.running else "off"
        shown: Mapping[str, Any] = {}
        try:
            shown = self.part.view() if self.running else {}
        except Exception as error:  # noqa: BLE001 - as above
            state, self._trouble = "failed", reason(error)
        why = self._trouble or (None if self.running else self._off) or shown.get("reason")
        return {**shown, "name": self.part.name, "state": state, "reason": why}

    async def _failed(self, error: Exception) -> float:
        self._trouble = reason(error)
        if self._trouble != self._logged:  # once, however often it is tried
            self._logged = self._trouble
            say(log, "part failed", error, name=self.part.name)
        await self._quietly_stop()
        wait, self._retry_s = self._retry_s, min(2 * self._retry_s, RETRY_S[1])
        return wait

    async def _quietly_stop(self) -> None:
        self.running = False
        try:
            await outcome(self.part.stop())
        except Exception as error:  # noqa: BLE001 - as above
            say(log, "part did not stop well", error, name=self.part.name)
        self._begun = False  # not when this was broken off: then it is stopped once more
