"""Iteration times of each job, from events of the congestion control: mean and 99th percentile.

The congestion control takes silence for the end of an iteration.  It cannot tell a job's start-up
from its first iteration, and may miss an end, so that two iterations come as one.  So an interval
counts as an iteration only if it moved about the bytes of one.
"""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from hostcc.answers.derived_metrics import ITERATION_TIMES
from hostcc.answers.status import JobStatus, Recent
from hostcc.daemon.jobs.iteration_histogram import IterationHistogram
from hostcc.daemon.jobs.sockets import Job
from hostcc.mltcp.backend import Records
from hostcc.mltcp.params import Mode

ITERATION = 0
"""HCC_EVENT_ITERATION: the other events are of bursts."""
INTERVALS_KEPT = 128
"""Intervals remembered per job."""
BYTES_TOLERANCE = 0.25
"""Greatest relative difference of an iteration's bytes from the usual ones."""
MAX_PERIOD_RATIO = 2.0
"""Two iterations in a row whose times differ by less than this factor end the start-up..."""
START_UP_INTERVALS = 3
"""The first intervals of a job are in no histogram: they may be its start-up."""
MAX_START_UP_INTERVALS = 16
"""...and so do this many intervals: there are jobs that repeat nothing."""


class Interval(NamedTuple):
    """From one end of an iteration to the next, as the congestion control saw it."""

    period_s: float
    bytes: float
    """Acknowledged meanwhile."""


class Iteration(NamedTuple):
    """An iteration as the byte meter has measured it."""

    period_s: float
    """Mean, start to start."""
    bytes: float | None
    """Bytes that this host sends in it; None: not those that the congestion control counts."""


class IterationTimes:
    """Latest intervals of each job, from the events of the ring buffer."""

    def __init__(self) -> None:
        self._seen = defaultdict[str, deque[Interval]](lambda: deque(maxlen=INTERVALS_KEPT))

        self._histograms = defaultdict[str, IterationHistogram](IterationHistogram)
        self._modes: dict[str, Mode | None] = {}
        self._switched: set[str] = set()
        """Jobs of which the next interval began in another mode."""

    def add(self, events: Records, jobs: Mapping[int, Job]) -> None:
        """Add events; forget jobs that have ended, and intervals of another mode: in mode off
        there are no events, so that one interval would last as long as that did."""
        self._note_modes(jobs.values())
        events = events[events["kind"] == ITERATION]
        if not len(events) and not self._histograms and not self._seen:
            return
        columns = (events[name].tolist() for name in ("slot", "period_ns", "bytes"))
        for slot, period_ns, size in zip(*columns, strict=True):
            job = jobs.get(slot)
            if job is not None and job.name in self._switched:
                self._switched.discard(job.name)
            elif job is not None and period_ns:
                self._count(job.name, Interval(period_ns / 1e9, size))
        alive = {job.name for job in jobs.values()}
        # Of a job that ends in mode off only the histogram is left.
        for name in (self._seen.keys() | self._histograms.keys()) - alive:
            self._seen.pop(name, None)
            self._histograms.pop(name, None)

    def _note_modes(self, jobs: Iterable[Job]) -> None:
        modes = {job.name: job.params.mode if job.params else None for job in jobs}
        for name in self._modes.keys() & modes.keys():
            if modes[name] is not self._modes[name]:
                self._seen.pop(name, None)
                self._switched.add(name)
        self._modes = modes
        self._switched &= modes.keys()

    def families(self, core: Any) -> Iterator[Any]:
        """Export iteration times of all jobs; `core`: module prometheus_client.core."""
        made = ITERATION_TIMES.family(core)
        for name, one in self._histograms.items():
            made.add_metric([name], one.buckets(), one.sum_s)
        yield made

    def totals(self, name: str) -> tuple[int, float]:
        """Return how many iterations of a job have ended since its start-up, and their seconds."""
        found = self._histograms.get(name)
        return (found.count, found.sum_s) if found is not None else (0, 0.0)

    def _count(self, name: str, one: Interval) -> None:
        seen = self._seen[name]
        seen.append(one)
        if len(seen) > START_UP_INTERVALS:
            usual = statistics.median(one.bytes for one in seen)
            self._histograms[name].add(one.period_s, one.bytes, max(usual, 1.0))

    def annotate(
        self, rows: Iterable[JobStatus], measured: Callable[[str], Iteration | None]
    ) -> Iterator[JobStatus]:
        """Add to status rows: `recent` (see Recent), and `iterations_by_bytes`, how many the job
        has made by what it sent; null where its bytes of an iteration are not known."""
        for row in rows:
            known, seen = measured(row.name), tuple(self._seen.get(row.name, ()))
            size, sent = known.bytes if known is not None else None, row.bytes_acked
            if size is not None:
                size = _acknowledged(seen, size)
            yield msgspec.structs.replace(
                row,
                recent=recent(seen, known),
                iterations_by_bytes=round(sent / size) if size and sent is not None else None,
            )


def recent(intervals: Sequence[Interval], known: Iteration | None = None) -> Recent:
    """Summarise the intervals that are iterations.

    An iteration's bytes are the meter's, or else those of the median interval, which is right while
    at most half of the ends are missed.  The mean is that of all intervals, also of those that are
    several iterations or parts of one; the meter's while none is an iteration, and where the meter
    counts other bytes than the congestion control.
    """
    mean = known.period_s if known is not None else None
    if not intervals:
        return Recent(0, 0, mean, None)
    size = known.bytes if known is not None else None
    usual = size or statistics.median(one.bytes for one in intervals)
    whole = [_is_whole(one, usual) for one in intervals]
    begin = _begin(intervals, whole)
    late = intervals[begin:]
    times = sorted(one.period_s for one in late if _is_whole(one, usual))
    left_out = len(late) - len(times)
    if not times:
        return Recent(0, left_out, mean, None)
    if mean is None or size is not None:
        sent, each = sum(one.bytes for one in late), _acknowledged(late, usual)
        mean = sum(one.period_s for one in late) / (sent / each if each else len(late))
    tail = times[min(len(times) - 1, int(0.99 * len(times)))]
    return Recent(len(times), left_out, mean, tail)


def _is_whole(one: Interval, usual: float) -> bool:
    return abs(one.bytes - usual) <= BYTES_TOLERANCE * usual


def _acknowledged(intervals: Sequence[Interval], usual: float) -> float:
    """Bytes of an iteration as the congestion control counts them: without those that were sent
    again, which are in the meter's."""
    whole = [one.bytes for one in intervals if _is_whole(one, usual)]
    return statistics.median(whole) if whole else usual


def _begin(intervals: Sequence[Interval], whole: Sequence[bool]) -> int:
    """Index at which the start-up is over: the first of two iterations of about the same length."""
    for at, then in pairwise(number for number, is_one in enumerate(whole) if is_one):
        short, long = sorted((intervals[at].period_s, intervals[then].period_s))
        if long <= MAX_PERIOD_RATIO * short:
            return at
    return 0 if len(intervals) >= MAX_START_UP_INTERVALS else len(intervals)
