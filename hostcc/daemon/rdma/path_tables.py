"""Which source ports take which path between two addresses of RoCE: asked again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

from hostcc.errors import HostccError, one_line
from hostcc.log import get_logger
from hostcc.model import PathTable
from hostcc.paths.tables import table_of
from hostcc.verbs import probe

log = get_logger("rdma-paths")

LIMIT_S = 60.0
AT_ONCE = 3
MOST = 256
"""Pairs of addresses."""
RETRY_S = 5.0
"""After a look that came to nothing, at least, seconds."""
Ends = tuple[str, str]
"""Own address, destination."""
Ask = Callable[[str, str], PathTable]


def ask_network(src: str, dst: str) -> PathTable:
    """By probes; blocks.  Raises HostccError."""
    return table_of(src, dst, probe.routes(src, dst, limit_s=LIMIT_S), time.time())


class PathTables:
    """Keeps `tables`; a few looks at a time, each in a thread."""

    def __init__(self, ask: Ask = ask_network, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._due: dict[Ends, float] = {}
        self._looks: dict[Ends, asyncio.Task[None]] = {}
        self.tables: dict[Ends, PathTable] = {}
        self.why: dict[Ends, str] = {}
        """Why nothing is known of the way between two ends."""

    def want(self, ends: Collection[Ends], every_s: float) -> None:
        """Know these, and forget others; look at what is due."""
        now = self._clock()
        wanted = [one for one in sorted(ends) if all(one) and one[0] != one[1]][:MOST]
        for known in (self._due, self.tables, self.why):
            for gone in known.keys() - set(wanted):
                del known[gone]
        self._looks = {one: look for one, look in self._looks.items() if not look.done()}
        due = [one for one in wanted if self._due.get(one, 0.0) <= now and one not in self._looks]
        due.sort(key=lambda one: self._due.get(one, 0.0))
        for one in due[: AT_ONCE - len(self._looks)]:
            self._due[one] = now + every_s
            self._looks[one] = asyncio.get_running_loop().create_task(self._find(one))

    def stop(self) -> None:
        """Look no more; a thread that looks ends by itself."""
        for look in self._looks.values():
            look.cancel()
        self._looks, self._due, self.tables, self.why = {}, {}, {}, {}

    async def _find(self, ends: Ends) -> None:
        try:
            found = await asyncio.to_thread(self._ask, *ends)
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
