"""Asks which source ports take which path between two addresses of RoCE, again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from hostcc.daemon.rdma.pairs import Ends
from hostcc.daemon.rdma.path_doubts import STANDS
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.errors import HostccError, one_line
from hostcc.log import get_logger
from hostcc.model import PathTable
from hostcc.paths.packets import ROCE_PORT, UDP, Target

log = get_logger("rdma-paths")

MAX_CONCURRENT_PROBES = 3
MAX_ENDS = 256
"""Pairs of addresses."""
RETRY_S = 5.0
"""At least, after probes that found nothing."""
DOUBT_S = 5.0
"""At least, between two probes because of doubts."""
QUICK_S = 1.0
"""At least, between two quick looks."""
Ask = Callable[[str, str], PathTable]
"""Blocks.  Raises HostccError."""


class Check(Protocol):
    """What of a table still holds, by a look at one port of each path."""

    def __call__(self, table: PathTable, *, quick: bool = False) -> PathTable | None:
        """Return the paths that answer, the table itself if all do; None: that cannot be told.

        Blocks.  A `quick` look gives up early.  Raises HostccError.
        """


def blind(table: PathTable, *, quick: bool = False) -> PathTable | None:  # noqa: ARG001
    """Tell nothing: what checks paths where nothing can be sent."""
    return None


class PathTables:
    """Keeps `tables` current; a few probes at a time, each in a thread.

    A doubt has the known paths looked at quickly, beside whatever else goes on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.ask: Ask = lambda src, dst: PathTable(src, dst, ())
        """To be set before anything is wanted; so is this."""
        self.check: Check = blind
        self._clock = clock
        self._due: dict[Ends, float] = {}
        self._asked: dict[Ends, float] = {}
        """When the last probe because of a doubt began."""
        self._whole: dict[Ends, float] = {}
        """When all paths are asked for next, doubts or not."""
        self._doubted: dict[Ends, set[str]] = {}
        self._unclear: dict[Ends, str] = {}
        """Why the next probe is due early."""
        self._checked: dict[Ends, tuple[float, frozenset[str]]] = {}
        """When the last look that has ended began, and the paths that answered it; of quick looks
        those that all paths answered."""
        self._missed: dict[Ends, tuple[float, frozenset[str]]] = {}
        """When a quick look began that some paths did not answer, and these."""
        self._wondered: dict[Ends, str] = {}
        """Why the next quick look is due."""
        self._looked: dict[Ends, float] = {}
        """When the last quick look began."""
        self._looks: dict[Ends, asyncio.Task[None]] = {}
        self._probes: dict[Ends, asyncio.Task[None]] = {}
        self.tables: dict[Ends, PathTable] = {}
        self.known: dict[Ends, TargetPaths] = {}
        """The same, with the links that were missed lately."""
        self.why: dict[Ends, str] = {}
        """Why no path is known between two ends."""

    @property
    def is_looking(self) -> bool:
        """Whether a quick look is under way."""
        return any(not task.done() for task in self._looks.values())

    def want(self, ends: Collection[Ends], every_s: float) -> None:
        """Probe between these ends every `every_s` seconds, and forget all others."""
        now = self._clock()
        wanted = [one for one in sorted(ends) if all(one) and one[0] != one[1]][:MAX_ENDS]
        for known in self._all():
            for gone in known.keys() - set(wanted):
                del known[gone]
        self._look_quickly(now)
        self._probes = _under_way(self._probes)
        due = [one for one in wanted if self._due.get(one, 0.0) <= now and one not in self._probes]
        due.sort(key=lambda one: self._due.get(one, 0.0))
        for one in due[: MAX_CONCURRENT_PROBES - len(self._probes)]:
            doubt = self._unclear.pop(one, "")
            whole = doubt != STANDS or self._whole.get(one, 0.0) <= now
            if whole:
                self._whole[one] = now + every_s
            self._due[one] = self._whole[one]
            if doubt:
                self._asked[one] = now
            self._probes[one] = asyncio.get_running_loop().create_task(
                self._find(one, doubtful=bool(doubt), whole=whole)
            )

    def doubt(self, reasons: Mapping[Ends, str]) -> None:
        """Look at the paths between these ends as soon as possible, because of what was seen there.

        Then all paths are searched, except after a standstill during which all known ones answer.
        """
        for ends in reasons.keys() & self._due.keys():
            if ends not in self.tables:
                self._probe_soon(ends, reasons[ends])
            elif self._wondered.get(ends, STANDS) == STANDS:
                self._wondered[ends] = reasons[ends]
            told = self._doubted.setdefault(ends, set())
            if reasons[ends] not in told:  # said once, as it may go on for long
                told.add(reasons[ends])
                log.info("paths in doubt", src=ends[0], dst=ends[1], reason=reasons[ends])

    def doubt_all(self, reason: str) -> None:
        """Probe between all ends as soon as possible."""
        self.doubt(dict.fromkeys(self._due, reason))

    def answers(self, ends: Ends, path: str, since: float) -> bool | None:
        """Return whether a path answered a look after `since`, None if none has ended since then.

        False is also for a look that could tell nothing.
        """
        began, alive = self._checked.get(ends, (0.0, frozenset[str]()))
        return path in alive if began > since else None

    def misses(self, ends: Ends, path: str, since: float) -> bool:
        """Return whether a quick look after `since` missed a path where others answered."""
        began, paths = self._missed.get(ends, (0.0, frozenset[str]()))
        return began > since and path in paths

    def stop(self) -> None:
        """Probe no more; a thread that probes ends by itself."""
        for task in (*self._looks.values(), *self._probes.values()):
            task.cancel()
        self._looks, self._probes = {}, {}
        for known in self._all():
            known.clear()

    def _all(self) -> tuple[dict[Ends, Any], ...]:
        return (
            self._due, self._asked, self._whole, self._doubted, self._unclear,
            self._checked, self._missed, self._wondered, self._looked,
            self.tables, self.known, self.why,
        )  # fmt: skip

    def _probe_soon(self, ends: Ends, reason: str) -> None:
        now = self._clock()
        soon = max(now, self._asked.get(ends, now - DOUBT_S) + DOUBT_S)
        self._due[ends] = min(self._due[ends], soon)
        if self._unclear.get(ends, STANDS) == STANDS:
            self._unclear[ends] = reason

    def _look_quickly(self, now: float) -> None:
        self._looks = _under_way(self._looks)
        due = [one for one in self._wondered if one not in self._looks
               and self._looked.get(one, now - QUICK_S) + QUICK_S <= now]  # fmt: skip
        due.sort(key=lambda one: self._looked.get(one, 0.0))
        for one in due[: MAX_CONCURRENT_PROBES - len(self._looks)]:
            self._looked[one] = now
            look = self._glance(one, self.tables[one], self._wondered.pop(one))
            self._looks[one] = asyncio.get_running_loop().create_task(look)

    async def _glance(self, ends: Ends, table: PathTable, reason: str) -> None:
        began, left = self._clock(), None
        try:
            left = await asyncio.to_thread(self.check, table, quick=True)
        except (HostccError, OSError) as error:
            log.debug("a quick look failed", reason=str(error))
        except Exception as error:  # noqa: BLE001 - nobody waits for this to say so
            log.defect("a quick look at paths failed", error)
        if ends not in self._due:
            return  # nobody wants it any more
        paths = frozenset(one.id for one in table.paths)
        if left is table:
            self._checked[ends] = began, paths
            self._missed.pop(ends, None)
        elif left is not None:
            self._missed[ends] = began, paths - {one.id for one in left.paths}
        if left is not table or reason != STANDS:
            self._probe_soon(ends, reason)

    async def _find(self, ends: Ends, *, doubtful: bool, whole: bool) -> None:
        # `whole`: search all paths, also where a look at the known ones finds nothing new.
        found: PathTable | None = None
        try:
            if doubtful and (table := self.tables.get(ends)) is not None:
                # A few packets say which path is dead; all paths take long where there are many.
                left = await self._look(ends, table)
                if (left is None or left is table) and not whole:
                    return
                if left is not None:
                    self._take(ends, left)
            found = await asyncio.to_thread(self.ask, *ends)
            why = "" if found.paths else "the port does not choose the path, or nobody answers"
        except (HostccError, OSError) as error:
            why = one_line(str(error))
        except Exception as error:  # noqa: BLE001 - nobody waits for this to say so
            log.defect("looking for paths of queue pairs failed", error)
            why = one_line(repr(error))
        if ends not in self._due:
            return  # nobody wants it any more
        if found is not None and found.paths:
            self._take(ends, found)
            self.why.pop(ends, None)
            return
        if self.why.get(ends) != why:
            log.failure("no paths", src=ends[0], dst=ends[1], reason=why)
        self.why[ends] = why
        self._due[ends] = min(self._due[ends], self._clock() + RETRY_S)

    async def _look(self, ends: Ends, table: PathTable) -> PathTable | None:
        # What a quick one says may be wrong.
        began, left = self._clock(), None
        try:
            left = await asyncio.to_thread(self.check, table)
            return left
        finally:
            if ends in self._due:
                paths = left.paths if left is not None else ()
                self._checked[ends] = began, frozenset(one.id for one in paths)

    def _take(self, ends: Ends, table: PathTable) -> None:
        if ends not in self._due or not table.paths:
            return
        known = self.known.setdefault(ends, TargetPaths(Target(*ends, UDP, ROCE_PORT)))
        known.take(table, 1.0, self._clock(), "")
        self.tables[ends] = table


def _under_way(tasks: Mapping[Ends, asyncio.Task[None]]) -> dict[Ends, asyncio.Task[None]]:
    return {one: task for one, task in tasks.items() if not task.done()}
