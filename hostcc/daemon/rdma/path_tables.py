"""Asks which source ports take which path between two addresses of RoCE, again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping

from hostcc.errors import HostccError, one_line
from hostcc.log import get_logger
from hostcc.model import PathTable

log = get_logger("rdma-paths")

MAX_CONCURRENT_PROBES = 3
MAX_ENDS = 256
"""Pairs of addresses."""
RETRY_S = 5.0
"""At least, after probes that found nothing."""
DOUBT_S = 5.0
"""At least, between two probes of which the second is because of a doubt."""
Ends = tuple[str, str]
"""Own address, destination."""
Ask = Callable[[str, str], PathTable]
"""Blocks.  Raises HostccError."""


class PathTables:
    """Keeps `tables` current; a few probes at a time, each in a thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.ask: Ask = lambda src, dst: PathTable(src, dst, ())
        """To be set before anything is wanted."""
        self._clock = clock
        self._due: dict[Ends, float] = {}
        self._asked: dict[Ends, float] = {}
        """When the last probe began."""
        self._doubted: dict[Ends, str] = {}
        self._probes: dict[Ends, asyncio.Task[None]] = {}
        self.tables: dict[Ends, PathTable] = {}
        self.why: dict[Ends, str] = {}
        """Why no path is known between two ends."""

    def want(self, ends: Collection[Ends], every_s: float) -> None:
        """Probe between these ends every `every_s` seconds, and forget all others."""
        now = self._clock()
        wanted = [one for one in sorted(ends) if all(one) and one[0] != one[1]][:MAX_ENDS]
        for known in (self._due, self._asked, self._doubted, self.tables, self.why):
            for gone in known.keys() - set(wanted):
                del known[gone]
        self._probes = {one: task for one, task in self._probes.items() if not task.done()}
        due = [one for one in wanted if self._due.get(one, 0.0) <= now and one not in self._probes]
        due.sort(key=lambda one: self._due.get(one, 0.0))
        for one in due[: MAX_CONCURRENT_PROBES - len(self._probes)]:
            self._due[one] = now + every_s
            self._asked[one] = now
            self._probes[one] = asyncio.get_running_loop().create_task(self._find(one))

    def doubt(self, reasons: Mapping[Ends, str]) -> None:
        """Probe between these ends as soon as possible, because of what was seen there."""
        now = self._clock()
        for ends in reasons.keys() & self._due.keys():
            soon = max(now, self._asked.get(ends, now - DOUBT_S) + DOUBT_S)
            self._due[ends] = min(self._due[ends], soon)
            if self._doubted.get(ends) != reasons[ends]:  # said once, as it may go on for long
                self._doubted[ends] = reasons[ends]
                log.info("paths in doubt", src=ends[0], dst=ends[1], reason=reasons[ends])

    def doubt_all(self, reason: str) -> None:
        """Probe between all ends as soon as possible."""
        self.doubt(dict.fromkeys(self._due, reason))

    def stop(self) -> None:
        """Probe no more; a thread that probes ends by itself."""
        for task in self._probes.values():
            task.cancel()
        self._probes, self._due, self._asked, self._doubted = {}, {}, {}, {}
        self.tables, self.why = {}, {}

    async def _find(self, ends: Ends) -> None:
        try:
            found = await asyncio.to_thread(self.ask, *ends)
            why = "" if found.paths else "the port does not choose the path, or nobody answers"
        except (HostccError, OSError) as error:
            found, why = None, one_line(str(error))
        except Exception as error:  # noqa: BLE001 - nobody waits for this to say so
            log.defect("looking for paths of queue pairs failed", error)
            found, why = None, one_line(repr(error))
        if ends not in self._due:
            return  # nobody wants it any more
        if found is not None and found.paths:
            self.tables[ends] = found
            self.why.pop(ends, None)
            return
        if self.why.get(ends) != why:
            log.failure("no paths", src=ends[0], dst=ends[1], reason=why)
        self.why[ends] = why
        self._due[ends] = min(self._due[ends], self._clock() + RETRY_S)
