"""What the kernel reported lately, per job: enough for a mean and a tail, and no more.

The congestion control takes a silence for the end of an iteration.  It cannot tell the start-up of
a job from its first iteration, and may miss an end, so that two iterations come as one.  Neither is
an iteration time: only intervals that moved about one iteration's bytes are counted as one.
"""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from hostcc.answers.status import JobStatus, Recent
from hostcc.daemon.jobs.sockets import Job
from hostcc.mltcp.backend import Records

KEPT = 128
"""Intervals remembered per job."""
NEAR = 0.25
"""Part by which an iteration's bytes differ from the usual ones at most."""
LONGER = 2.0
"""Two iterations in a row that differ less in time end the start-up..."""
STARTING = 16
"""...and so many intervals do in any case: there are jobs that repeat nothing."""


class Interval(NamedTuple):
    """From one end of an iteration to the next, as the congestion control saw them."""

    period_s: float
    bytes: float
    """Acknowledged meanwhile."""


class Iteration(NamedTuple):
    """What the byte meter found of a job."""

    period_s: float
    """Mean, start to start."""
    bytes: float | None
    """That this host sends in one; None: they are not what the congestion control counts."""


class History:
    """Intervals of each job, fed with the events of the ring buffer."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, deque[Interval]] = defaultdict(lambda: deque(maxlen=KEPT))

    def add(self, events: Records, jobs: Mapping[int, Job]) -> None:
        """Take in events; jobs that are gone are forgotten."""
        if not len(events) and not self._seen:
            return
        columns = (events[name].tolist() for name in ("slot", "period_ns", "bytes"))
        for slot, period_ns, size in zip(*columns, strict=True):
            job = jobs.get(slot)
            if job is not None and period_ns:
                self._seen[job.name].append(Interval(period_ns / 1e9, size))
        alive = {job.name for job in jobs.values()}
        for name in set(self._seen) - alive:
            del self._seen[name]

    def annotate(
        self, rows: Iterable[JobStatus], measured: Callable[[str], Iteration | None]
    ) -> Iterator[JobStatus]:
        """Add to status rows: `recent` (see Recent), and `iterations_by_bytes`, how many the job
        has made by what it sent; null where its bytes of an iteration are not known."""
        for row in rows:
            known = measured(row.name)
            size, sent = known.bytes if known is not None else None, row.bytes_acked
            yield msgspec.structs.replace(
                row,
                recent=recent(tuple(self._seen.get(row.name, ())), known),
                iterations_by_bytes=round(sent / size) if size and sent is not None else None,
            )


def recent(intervals: Sequence[Interval], known: Iteration | None = None) -> Recent:
    """The iterations among the intervals; the mean is that of the meter, where it knows one.

    The meter's bytes are the measure where they are known, else those of the median interval:
    half of the ends may be missed then, and no more.
    """
    mean = known.period_s if known is not None else None
    if not intervals:
        return Recent(0, 0, mean, None)
    size = known.bytes if known is not None else None
    usual = size or statistics.median(one.bytes for one in intervals)
    whole = [abs(one.bytes - usual) <= NEAR * usual for one in intervals]
    begin = _begin(intervals, whole)
    times = sorted(
        one.period_s for one, is_one in zip(intervals[begin:], whole[begin:], strict=True) if is_one
    )
    left_out = len(intervals) - begin - len(times)
    if not times:
        return Recent(0, left_out, mean, None)
    tail = times[min(len(times) - 1, int(0.99 * len(times)))]
    return Recent(len(times), left_out, sum(times) / len(times) if mean is None else mean, tail)


def _begin(intervals: Sequence[Interval], whole: Sequence[bool]) -> int:
    """Where the start-up is over: at the first of two iterations that last about as long."""
    for at, then in pairwise(number for number, is_one in enumerate(whole) if is_one):
        short, long = sorted((intervals[at].period_s, intervals[then].period_s))
        if long <= LONGER * short:
            return at
    return 0 if len(intervals) >= STARTING else len(intervals)
