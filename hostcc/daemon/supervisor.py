"""Runs the parts of an agent: each starts, ticks, stops and fails by itself.

A failure of a part is logged once, shown in status and tried again later; it reaches neither the
other parts nor the engine.

All parts share the loop that sends the heartbeat: what may take longer than some milliseconds (a
walk over sockets, a command, anything that waits) goes to a thread (`in_thread`) and is awaited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from hostcc.answers.gossip import Gossip
from hostcc.answers.parts import Part as PartRow
from hostcc.answers.plan_status import PlanStatus
from hostcc.answers.status import Routing
from hostcc.config.schema import Config
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.enforcement import Engine
from hostcc.daemon.isolated_steps import awaited, log_failure, reason, run_each
from hostcc.errors import HostccError
from hostcc.log import get_logger
from hostcc.model import Difference

log = get_logger("parts")
T = TypeVar("T")
Block = Gossip | PlanStatus | Routing
"""What a part may fill of the status beside its row."""
B_co = TypeVar("B_co", bound=Block, covariant=True)

RETRY_MIN_S, RETRY_MAX_S = 2.0, 300.0
"""Wait after a first failure; it doubles with each further one up to the maximum."""
RECHECK_S = 3.0
"""Between two checks whether a part that is disabled may run."""
WAKE_STEP_S = 0.505
"""Ticks of all parts fall on multiples of this, where one is near: waking up costs as much as a
short tick.  A little more than half a second, so that what is due every half second is due each
time."""
WAKE_TOLERANCE = 0.1
"""By which fraction of the interval that a part asks for its tick may come earlier or later."""
_STARTED_S = time.monotonic()
"""Where multiples of WAKE_STEP_S are counted from, so that agents on one machine do not wake up
together."""


class Host(Protocol):
    """The agent as parts see it; each property may be another object at the next tick."""

    @property
    def config(self) -> Config:
        """The configuration in force."""

    @property
    def engine(self) -> Engine | None:
        """The programs and the job table; None while the agent only observes."""

    @property
    def journal(self) -> Journal:
        """Where every change of the host is written before it is made."""


class WithBlock(NamedTuple, Generic[B_co]):
    """What a part shows that fills a block of the status."""

    block: B_co
    figures: PartRow = PartRow()


class Part(Protocol):
    """A piece of the agent.  Any method may raise; `start` comes first, or follows a `stop`.

    `start`, `tick` and `stop` of a part never overlap; its other methods may be called while one of
    these awaits something.
    """

    name: str

    @property
    def every_s(self) -> float:
        """Seconds between ticks."""

    def disabled_reason(self) -> str:
        """Say why this part is not to run now; empty: it is."""

    def start(self) -> Awaitable[None] | None:
        """Begin; the first tick follows."""

    async def tick(self) -> None:
        """Do what is due."""

    def stop(self) -> Awaitable[None] | None:
        """End, and undo what has to be undone; also after a `start` that failed."""

    def verify(self) -> Awaitable[list[Difference]] | list[Difference]:
        """List what is no longer as this part made it; called only while it runs."""

    def view(self) -> PartRow | WithBlock[Block]:
        """Return its figures, for status; name and state are filled in.  Called only while it
        runs."""


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that would hold up the loop in a thread, and return what it returns.

    Ends after the function has, also when cancelled: then nothing uses its arguments any more.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait((work,))
        raise


def until_tick(wait_s: float, now_s: float) -> float:
    """Return seconds to wait instead of `wait_s`, to wake up with others; `now_s`: monotonic clock.

    Waits of about WAKE_STEP_S or more end at whole steps, those of about half of it at half steps;
    shorter ones are left alone.
    """
    step_s = WAKE_STEP_S if wait_s >= (1 - WAKE_TOLERANCE) * WAKE_STEP_S else WAKE_STEP_S / 2
    if wait_s < (1 - WAKE_TOLERANCE) * step_s:
        return wait_s
    due_s = now_s + wait_s - _STARTED_S
    late_s = step_s * round(due_s / step_s) - due_s
    return wait_s + max(-WAKE_TOLERANCE * wait_s, min(WAKE_TOLERANCE * wait_s, late_s))


class Supervisor:
    """Runs parts, each in a task of its own."""

    def __init__(self, parts: Iterable[Part], clock: Callable[[], float] = time.monotonic) -> None:
        self._runs = [_PartRunner(part, clock) for part in parts]

    def start(self) -> None:
        """Run all parts; needs a running loop."""
        for run in self._runs:
            run.begin()

    async def stop(self) -> None:
        """Stop all parts, the last one first, whatever fails."""
        for run in reversed(self._runs):
            await run_each(log, "stop", {run.part.name: run.end})

    async def stop_disabled(self) -> None:
        """Stop the parts that are disabled now, the last one first, without awaiting their tick."""
        for run in reversed(self._runs):
            await run.stop_disabled()

    def recheck(self) -> None:
        """Check at once whether parts that are disabled may run."""
        for run in self._runs:
            run.recheck()

    def wake(self, *names: str) -> None:
        """Tick all parts at once, or those with these names."""
        for run in self._runs:
            if not names or run.part.name in names:
                run.wake()

    async def verify(self) -> list[Difference]:
        """List what is no longer as the parts made it."""
        return [one for run in self._runs if run.running for one in await run.verify()]

    def status(self) -> list[tuple[PartRow, Block | None]]:
        """Return a row per part, with its figures while it runs, and the block that it fills."""
        return [run.status() for run in self._runs]


class _PartRunner:
    """Runs one part, and keeps its state."""

    def __init__(self, part: Part, clock: Callable[[], float]) -> None:
        self.part = part
        self.running = False
        self._begun = False
        """Whether `start` was called since the last `stop` that ended."""
        self._task: asyncio.Task[None] | None = None
        self._woken: asyncio.Future[None] | None = None
        """Done when the next tick is due; None before the first."""
        self._clock = clock
        self._disabled = "not started yet"
        self._trouble = ""
        self._logged = ""
        self._retry_s = RETRY_MIN_S
        self._good_since = 0.0

    async def forever(self) -> None:
        while True:
            wait_s = until_tick(await self.turn(), time.monotonic())
            loop = asyncio.get_running_loop()
            self._woken = loop.create_future()
            timer = loop.call_later(wait_s, self.wake)
            try:
                await self._woken
            finally:
                timer.cancel()

    def begin(self) -> None:
        """Tick the part from now on."""
        self._task = asyncio.get_running_loop().create_task(self.forever())

    async def end(self) -> None:
        """Cancel its tick, if one goes on, and stop the part."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.halt()

    async def turn(self) -> float:
        """Start, tick or stop the part, as is due; return seconds until the next time."""
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
        self._disabled = self.part.disabled_reason()
        if self._disabled:
            await self.halt()
            self._trouble = ""
            return RECHECK_S
        if not self.running:
            self._begun = True
            await awaited(self.part.start())
            self.running, self._good_since = True, self._clock()
        await self.part.tick()
        self._trouble = ""
        if self._clock() - self._good_since > RETRY_MAX_S:
            self._retry_s, self._logged = RETRY_MIN_S, ""
        return self.part.every_s

    async def stop_disabled(self) -> None:
        """Stop the part, if it is disabled."""
        self._disabled = self.part.disabled_reason()
        if self._disabled:
            runs = self._task is not None
            await self.end()
            if runs:
                self.begin()

    def recheck(self) -> None:
        """Have a disabled part checked now."""
        if self._disabled:
            self.wake()

    def wake(self) -> None:
        """Have the part ticked now, unless it is being ticked."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def halt(self) -> None:
        """Stop the part, if it was started."""
        if self._begun:
            await self._quietly_stop()

    async def verify(self) -> list[Difference]:
        try:
            return await awaited(self.part.verify())
        except Exception as error:  # noqa: BLE001 - as above
            name = self.part.name
            return [Difference(id=name, target=name, expected="an answer", found=reason(error))]

    def status(self) -> tuple[PartRow, Block | None]:
        state = "failed" if self._trouble else "running" if self.running else "off"
        shown: PartRow | WithBlock[Block] = PartRow()
        try:
            shown = self.part.view() if self.running else shown
        except Exception as error:  # noqa: BLE001 - as above
            state, self._trouble = "failed", reason(error)
        block, row = shown if isinstance(shown, WithBlock) else (None, shown)
        why = self._trouble or (None if self.running else self._disabled) or row.reason
        return replace(row, name=self.part.name, state=state, reason=why), block

    async def _failed(self, error: Exception) -> float:
        self._trouble = reason(error)
        if self._trouble != self._logged:  # once, however often it fails
            self._logged = self._trouble
            log_failure(log, "part failed", error, name=self.part.name)
        await self._quietly_stop()
        wait, self._retry_s = self._retry_s, min(2 * self._retry_s, RETRY_MAX_S)
        return wait

    async def _quietly_stop(self) -> None:
        self.running = False
        try:
            await awaited(self.part.stop())
        except Exception as error:  # noqa: BLE001 - as above
            log_failure(log, "part did not stop well", error, name=self.part.name)
        self._begun = False  # not when this was cancelled: then it is stopped once more
