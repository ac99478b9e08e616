"""Work of jobs: readings of GPUs attributed to jobs, and W, the FLOP of one iteration.

W sums over the GPUs that the job has on this host (Crux, SIGCOMM'24, section 3.1); the
cluster's view sums over hosts.  What cannot be known is None with a reason in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hostcc.limits import FLOP_MAX
from hostcc.measure.gpu.attribution import shares
from hostcc.measure.gpu.flop import flop_of
from hostcc.measure.gpu.models import model_peak
from hostcc.measure.gpu.readings import Reading, Source
from hostcc.schedule.assumed_work import ASSUMED_GPUS, ASSUMED_UTILISATION

Floats = npt.NDArray[np.float64]
_ORDER = list(Source)


@dataclass(frozen=True)
class Interval:
    """What one job did on the GPUs of this host between two looks."""

    start_s: float
    end_s: float
    """CLOCK_MONOTONIC, seconds."""
    flop: float | None
    """Work, FLOP; None when it is unknown for one of the job's GPUs."""
    busy: float | None
    """Mean over the job's GPUs of how busy it kept them, 0 to 1."""
    source: Source
    """The least good source among its GPUs."""
    gpus: tuple[str, ...]
    peak_flop_per_s: float | None = None
    """Of its GPUs, by their models; None: unknown for one of them."""


@dataclass(frozen=True)
class Work:
    """W of a job on this host."""

    flop: float | None
    """FLOP per iteration; None: unknown."""
    source: Source
    gpus: tuple[str, ...] = ()
    why: str = ""
    """In words, when it is unknown."""
    assumed_flop_per_s: float = 0.0
    """What its GPUs are assumed to reach while they compute; 0: `flop` is known, or not they."""


@dataclass(frozen=True, eq=False)
class Activity:
    """GPU activity of a job over time: n intervals, in order of time."""

    start_s: Floats
    """shape (n,), CLOCK_MONOTONIC, seconds."""
    end_s: Floats
    """shape (n,)."""
    busy: Floats
    """shape (n,), 0 to 1; NaN where unknown."""


def attribute(readings: Iterable[Reading], owners: Mapping[int, str]) -> dict[str, Interval]:
    """Job -> what it did, from one look at all GPUs and whose each process is.

    A job is listed when a process of it has a context on one of the GPUs.
    """
    parts: dict[str, list[tuple[Reading, float]]] = {}
    for reading in readings:
        for job, share in shares(reading.pids, reading.pid_use, owners).items():
            parts.setdefault(job, []).append((reading, share))
    return {job: _joined(those) for job, those in parts.items()}


def activity(intervals: Sequence[Interval]) -> Activity:
    """How busy a job kept its GPUs, for the overlap of computing and communicating."""
    return Activity(
        np.array([i.start_s for i in intervals], dtype=np.float64),
        np.array([i.end_s for i in intervals], dtype=np.float64),
        np.array([np.nan if i.busy is None else i.busy for i in intervals], dtype=np.float64),
    )


def work_per_iteration(
    intervals: Sequence[Interval],
    *,
    period_s: float | None = None,
    boundaries_s: Sequence[float] = (),
    declared: float | None = None,
    why: str = "",
    assumed_flops: float = 0.0,
) -> Work:
    """W of a job, FLOP.

    `declared` (`--flops`) settles it.  Else the median over the iterations between
    `boundaries_s` (exact, from marks), if there are two that the intervals cover; else
    mean FLOP/s times `period_s`.  `why`: what to say when there are no intervals.
    `assumed_flops`: FLOP/s that a GPU is assumed to reach where W is unknown; 0: by its model.
    """
    work = _work(intervals, period_s, boundaries_s, declared, why)
    if work.flop is not None:
        return work
    return replace(work, assumed_flop_per_s=_assumed_rate(intervals, assumed_flops))


def _work(
    intervals: Sequence[Interval],
    period_s: float | None,
    boundaries_s: Sequence[float],
    declared: float | None,
    why: str,
) -> Work:
    gpus = tuple(sorted({gpu for interval in intervals for gpu in interval.gpus}))
    if declared is not None:
        return _declared(declared, gpus)
    if not intervals:
        return Work(None, Source.UNKNOWN, (), why or "no process of the job has used a GPU")
    known = [i for i in intervals if i.flop is not None and i.end_s > i.start_s]
    if not known:
        return Work(None, Source.UNKNOWN, gpus, "the driver does not tell enough")
    source = max((i.source for i in known), key=_ORDER.index)
    between = _between(known, boundaries_s)
    if between is not None:
        return Work(between, source, gpus)
    if period_s is None or not (np.isfinite(period_s) and period_s > 0):
        return Work(None, Source.UNKNOWN, gpus, "the iteration's period is not known")
    total = sum(i.flop for i in known if i.flop is not None)
    return Work(total / sum(i.end_s - i.start_s for i in known) * period_s, source, gpus)


def _assumed_rate(intervals: Sequence[Interval], per_gpu: float) -> float:
    if per_gpu > 0:
        return per_gpu * (len(intervals[-1].gpus) if intervals else ASSUMED_GPUS)
    peak = intervals[-1].peak_flop_per_s if intervals else None
    return ASSUMED_UTILISATION * (peak or 0.0)


def _declared(flop: float, gpus: tuple[str, ...]) -> Work:
    if np.isfinite(flop) and 0 < flop <= FLOP_MAX:
        return Work(float(flop), Source.DECLARED, gpus)
    why = f"flops: expected more than 0 and at most {FLOP_MAX:g}, got {flop:g}"
    return Work(None, Source.UNKNOWN, gpus, why)


def _joined(parts: Sequence[tuple[Reading, float]]) -> Interval:
    flop: float | None = 0.0
    sources = set()
    busy: list[float] = []
    peaks = [model_peak(reading.gpu) for reading, _ in parts]
    for reading, share in parts:
        work, source = flop_of(reading)
        sources.add(source)
        flop = None if work is None or flop is None else flop + work * share
        if reading.busy is not None:
            busy.append(min(max(reading.busy, 0.0), 1.0) * share)
    return Interval(
        start_s=min(reading.start_s for reading, _ in parts),
        end_s=max(reading.end_s for reading, _ in parts),
        flop=flop,
        busy=sum(busy) / len(parts) if len(busy) == len(parts) else None,
        source=max(sources, key=_ORDER.index),
        gpus=tuple(reading.gpu.uuid for reading, _ in parts),
        peak_flop_per_s=None if None in peaks else sum(peak for peak in peaks if peak),
    )


def _between(known: Sequence[Interval], boundaries_s: Sequence[float]) -> float | None:
    """Median FLOP between boundaries; None when the intervals cover no whole iteration.

    Work counts as even within an interval, and a gap between intervals like what is around.
    """
    starts = np.array([i.start_s for i in known])
    ends = np.array([i.end_s for i in known])
    flop = np.array([i.flop for i in known], dtype=np.float64)
    marks = np.unique(np.asarray(boundaries_s, dtype=np.float64))
    marks = marks[np.isfinite(marks) & (marks >= starts[0]) & (marks <= ends[-1])]
    if marks.size < 2:
        return None
    rate = flop / (ends - starts)
    edges = np.append(starts, ends[-1])
    if np.any(np.diff(edges) <= 0):
        return None
    done = np.concatenate([[0.0], np.cumsum(rate * np.diff(edges))])
    return float(np.median(np.diff(np.interp(marks, edges, done))))
