"""Finds the jobs of a view whose plans affect each other, again and again as it changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from hostcc.coord.live_records import Ends
from hostcc.model import Flow, SizeClass

_SPARE_LINKS = 4096
"""Links that are gone, until the others are numbered anew."""


class JobCoupling:
    """The links that elephants of each job may cross.

    Two jobs are coupled if an elephant of each has a path over the same link, used now or not, or
    through others (schedule/coupling.py). What a job crosses is kept until its flows or a table of
    theirs change: of thousands of jobs, few change between two plans.
    """

    def __init__(
        self, flows: Callable[[str], tuple[Flow, ...]], links: Callable[[Ends], Collection[str]]
    ) -> None:
        """`flows` returns those of a job, `links` those on paths between two hosts."""
        self._flows, self._links = flows, links
        self._rows: dict[str, bytes] = {}
        """By job: numbers of the links, each in four bytes. Thousands of arrays would take more
        room, and longer to put together."""
        self._numbers: dict[str, int] = {}
        self._changed: set[Ends] = set()
        """Pairs whose tables have changed since the last answer."""

    def flows_changed(self, job: str) -> None:
        """Forget what a job crosses: its flows have changed, or it has ended."""
        self._rows.pop(job, None)

    def table_changed(self, pair: Ends) -> None:
        """Forget what jobs between two hosts cross."""
        self._changed.add(pair)

    def of(self, own: Iterable[str], jobs: Mapping[str, object], links: int) -> set[str]:
        """Return the jobs that are coupled with `own` ones, which are among them.

        `jobs`: all of the view; `links`: how many its tables have.
        """
        self._forget_changed(links)
        names = list(jobs)
        rows = [self._row(job) for job in names]
        sizes = np.fromiter(map(len, rows), np.int32, len(rows)) // np.dtype(np.int32).itemsize
        crossed = np.frombuffer(b"".join(rows), np.int32)
        by = np.repeat(np.arange(len(names), dtype=np.int32), sizes)
        wanted = set(own)
        found = np.fromiter((job in wanted for job in names), bool, len(names))
        seen = np.zeros(len(self._numbers), bool)
        before = -1
        while (count := int(np.count_nonzero(found))) != before:
            before = count
            seen[crossed[found[by]]] = True
            found[by[seen[crossed]]] = True
        return wanted.union(names[index] for index in np.flatnonzero(found))

    def _forget_changed(self, links: int) -> None:
        if len(self._numbers) > links + _SPARE_LINKS:
            self._rows, self._numbers = {}, {}
        if self._changed:
            changed = self._changed
            gone = [job for job in self._rows if not changed.isdisjoint(self._pairs(job))]
            for job in gone:
                del self._rows[job]
            self._changed = set()

    def _row(self, job: str) -> bytes:
        known = self._rows.get(job)
        if known is None:
            names = set[str]().union(*map(self._links, self._pairs(job)))
            numbers = self._numbers
            links = [numbers.setdefault(name, len(numbers)) for name in names]
            known = self._rows[job] = np.array(links, np.int32).tobytes()
        return known

    def _pairs(self, job: str) -> set[Ends]:
        """Return the pairs of hosts between which a job has elephants."""
        return {(flow.src, flow.dst) for flow in self._flows(job) if _couples(flow)}


def _couples(flow: Flow) -> bool:
    """Return whether a flow gets a path from a plan, and so may meet others on links."""
    return flow.size is SizeClass.ELEPHANT and flow.bytes > 0
