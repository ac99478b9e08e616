"""The parts of an agent beside its engine: each runs by itself, and fails by itself.

A part is started, ticked and stopped by `Parts`, which knows nothing else about it.  What
goes wrong in one is logged once, shown in status and tried again later; it reaches neither
the other parts nor the engine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from hostcc.bpf.errors import BpfError
from hostcc.config import Config
from hostcc.engine import Engine
from hostcc.errors import HostccError, one_line
from hostcc.journal import Journal
from hostcc.log import get_logger
from hostcc.model import Difference

log = get_logger("parts")

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
    """One part.  Any method may raise; `start` follows a `stop`, or comes first."""

    name: str

    @property
    def every_s(self) -> float:
        """Seconds between ticks."""

    def off(self) -> str:
        """Why this part is not to run now, in words; empty when it is."""

    def start(self) -> None:
        """Begin; must not wait."""

    async def tick(self) -> None:
        """One turn.  What takes longer than some milliseconds belongs in a thread."""

    def stop(self) -> None:
        """End, and undo what has to be undone; also after a `start` that failed."""

    def verify(self) -> list[Difference]:
        """What is no longer as this part made it; called only while it runs."""

    def view(self) -> Mapping[str, Any]:
        """What status shows of it beside its state; called only while it runs."""


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


class Parts:
    """Runs parts, each in a task of its own."""

    def __init__(self, parts: Iterable[Part], clock: Callable[[], float] = time.monotonic) -> None:
        self._runs = [_Run(part, clock) for part in parts]

    def start(self) -> None:
        """Begin; needs a running loop."""
        for run in self._runs:
            run.task = asyncio.get_running_loop().create_task(run.forever())

    async def stop(self) -> None:
        """End all, the last one first."""
        for run in reversed(self._runs):
            if run.task is not None:
                run.task.cancel()
                with suppress(asyncio.CancelledError):
                    await run.task
                run.task = None
            run.halt()

    def settle(self) -> None:
        """Stop those that are to be off now, the last one first; does not wait for their turn."""
        for run in reversed(self._runs):
            run.settle()

    def ask(self) -> None:
        """Have those that are off look at once whether they may run."""
        for run in self._runs:
            run.ask()

    def verify(self) -> list[Difference]:
        """What is no longer as the parts made it."""
        return [one for run in self._runs if run.running for one in run.verify()]

    def status(self) -> list[dict[str, Any]]:
        """One row per part: name, state (running, off, failed), reason, and its own figures."""
        return [run.status() for run in self._runs]


class _Run:
    """One part and how it fares."""

    def __init__(self, part: Part, clock: Callable[[], float]) -> None:
        self.part = part
        self.task: asyncio.Task[None] | None = None
        self.running = False
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
            timer = loop.call_later(wait_s, self._wake)
            try:
                await self._woken
            finally:
                timer.cancel()

    async def turn(self) -> float:
        """One turn; seconds until the next."""
        try:
            self._off = self.part.off()
            if self._off:
                self.halt()
                self._trouble = ""
                return OFF_S
            if not self.running:
                self.part.start()
                self.running, self._good_since = True, self._clock()
            await self.part.tick()
        except Exception as error:  # noqa: BLE001 - a part's failure is its own
            return self._failed(error)
        self._trouble = ""
        if self._clock() - self._good_since > RETRY_S[1]:
            self._retry_s, self._logged = RETRY_S[0], ""
        return self.part.every_s

    def settle(self) -> None:
        """Stop the part, if it is to be off."""
        self._off = self.part.off()
        if self._off:
            self.halt()

    def ask(self) -> None:
        """It has its turn now, if it is off."""
        if self._off:
            self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def halt(self) -> None:
        """Stop the part, if it runs."""
        if self.running:
            self.running = False
            self._quietly_stop()

    def verify(self) -> list[Difference]:
        try:
            return self.part.verify()
        except Exception as error:  # noqa: BLE001 - as above
            name, found = self.part.name, one_line(str(error) or repr(error))
            return [Difference(id=name, target=name, expected="an answer", found=found)]

    def status(self) -> dict[str, Any]:
        state = "failed" if self._trouble else "running" if self.running else "off"
        shown: Mapping[str, Any] = {}
        try:
            shown = self.part.view() if self.running else {}
        except Exception as error:  # noqa: BLE001 - as above
            state, self._trouble = "failed", one_line(str(error) or repr(error))
        reason = self._trouble or (None if self.running else self._off) or shown.get("reason")
        return {**shown, "name": self.part.name, "state": state, "reason": reason}

    def _failed(self, error: Exception) -> float:
        self.running = False
        self._trouble = one_line(str(error) or repr(error))
        if self._trouble != self._logged:  # once, however often it is tried
            self._logged = self._trouble
            if isinstance(error, BpfError | HostccError | OSError):
                log.failure("part failed", name=self.part.name, reason=self._trouble)
            else:
                log.defect("part failed", error, name=self.part.name)
        self._quietly_stop()
        wait, self._retry_s = self._retry_s, min(2 * self._retry_s, RETRY_S[1])
        return wait

    def _quietly_stop(self) -> None:
        try:
            self.part.stop()
        except Exception as error:  # noqa: BLE001 - as above
            log.defect("part did not stop well", error, name=self.part.name)
