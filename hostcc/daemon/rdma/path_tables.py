"""Probes which source ports take which path between two addresses of RoCE, again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

from hostcc.errors import HostccError, one_line
from hostcc.log import get_logger
from hostcc.model import PathTable
from hostcc.paths.probed_tables import table_of
from hostcc.verbs import roce_probe

log = get_logger("rdma-paths")

PROBE_LIMIT_S = 60.0
MAX_CONCURRENT_PROBES = 3
MAX_ENDS = 256
"""Pairs of addresses."""
RETRY_S = 5.0
"""At least, after probes that found nothing."""
Ends = tuple[str, str]
"""Own address, destination."""
Ask = Callable[[str, str], PathTable]


def ask_network(src: str, dst: str) -> PathTable:
    """Probe the network, which blocks.  Raises HostccError."""
    return table_of(src, dst, roce_probe.routes(src, dst, limit_s=PROBE_LIMIT_S), time.time())


class PathTables:
    """Keeps `tables` current; a few probes at a time, each in a thread."""

    def __init__(self, ask: Ask = ask_network, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._due: dict[Ends, float] = {}
        self._probes: dict[Ends, asyncio.Task[None]] = {}
        self.tables: dict[Ends, PathTable] = {}
        self.why: dict[Ends, str] = {}
        """Why no path is known between two ends."""

    def want(self, ends: Collection[Ends], every_s: float) -> None:
        """Probe between these ends every `every_s` seconds, and forget all others."""
        now = self._clock()
        wanted = [one for one in sorted(ends) if all(one) and one[0] != one[1]][:MAX_ENDS]
        for known in (self._due, self.tables, self.why):
            for gone in known.keys() - set(wanted):
                del known[gone]
        self._probes = {one: task for one, task in self._probes.items() if not task.done()}
        due = [one for one in wanted if self._due.get(one, 0.0) <= now and one not in self._probes]
        due.sort(key=lambda one: self._due.get(one, 0.0))
        for one in due[: MAX_CONCURRENT_PROBES - len(self._probes)]:
            self._due[one] = now + every_s
            self._probes[one] = asyncio.get_running_loop().create_task(self._find(one))

    def stop(self) -> None:
        """Probe no more; a thread that probes ends by itself."""
        for task in self._probes.values():
            task.cancel()
        self._probes, self._due, self.tables, self.why = {}, {}, {}, {}

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
