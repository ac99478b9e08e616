"""Pure: a run that is cut into phases by its actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostcc.lab.results import RunResult


@dataclass(frozen=True)
class Stretch:
    """A part of a run; iterations belong to it when they begin and end in it."""

    name: str
    begin_s: float
    end_s: float


def cut(
    names: Sequence[str], ends_s: Sequence[float], begins_s: Sequence[float] | None = None
) -> list[Stretch]:
    """Stretches of a run: the first from 0 to ends_s[0], the next from begins_s[0], and so on.

    The last has no end.  Without `begins_s` each begins where the one before ends.  Raises
    ValueError when their numbers do not match.
    """
    begins = [0.0, *(ends_s if begins_s is None else begins_s)]
    ends = [*ends_s, float("inf")]
    return [Stretch(name, begin, end) for name, begin, end in zip(names, begins, ends, strict=True)]


def ratios(run: RunResult, stretch: Stretch, skip: int = 0) -> list[list[float]]:
    """Each job's iteration ratios in a stretch, without its first `skip` iterations."""
    return [
        [
            seconds / job.summary.alone_s
            for start, seconds in zip(job.starts_s, job.seconds, strict=True)
            if stretch.begin_s <= start and start + seconds <= stretch.end_s
        ][skip:]
        for job in run.jobs
    ]


def mean(parts: Sequence[Sequence[float]]) -> float | None:
    """Mean over the jobs of each job's mean; None when a job has none."""
    if not parts or not all(parts):
        return None
    return sum(sum(part) / len(part) for part in parts) / len(parts)
