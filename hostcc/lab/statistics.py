"""Pure: iteration times in, the figures of a comparison out.

A ratio is an iteration's time over the job's time alone, so 1.0 is perfect.  "First" and
"rest" split a run after its tenth iteration, as published comparisons do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FIRST_ITERATIONS = 10
CONVERGED_TOLERANCE = 0.05
"""A job has converged while its iterations stay within this much of alone."""
CONVERGED_ITERATIONS = 3
"""So many iterations in a row must stay within the tolerance."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TimeSummary:
    """Iteration times of one job in one run; seconds and ratios to alone."""

    iterations: int
    mean_s: float
    p50_s: float
    p99_s: float
    alone_s: float
    """Denominator of the ratios: the best time alone of all variants."""
    own_alone_s: float
    """Time alone under the same variant."""
    ratio_mean: float
    ratio_first: float
    """Mean of the first ten iterations."""
    ratio_rest: float
    """Mean of those after; of all when there are no more than ten."""
    ratio_p99: float
    ratio_p99_rest: float
    ratio_max: float
    converged_after: int | None
    """Iterations before the first of three in a row within 5 % of alone; None: never."""


def summarise(seconds: Sequence[float], alone_s: float, own_alone_s: float) -> TimeSummary:
    """Figures of one job; needs at least one iteration and an alone time above 0."""
    times = np.asarray(seconds, dtype=np.float64)
    ratios = times / alone_s
    rest = ratios[FIRST_ITERATIONS:] if len(ratios) > FIRST_ITERATIONS else ratios
    return TimeSummary(
        iterations=len(times),
        mean_s=float(times.mean()),
        p50_s=float(np.percentile(times, 50)),
        p99_s=float(np.percentile(times, 99)),
        alone_s=alone_s,
        own_alone_s=own_alone_s,
        ratio_mean=float(ratios.mean()),
        ratio_first=float(ratios[:FIRST_ITERATIONS].mean()),
        ratio_rest=float(rest.mean()),
        ratio_p99=float(np.percentile(ratios, 99)),
        ratio_p99_rest=float(np.percentile(rest, 99)),
        ratio_max=float(ratios.max()),
        converged_after=converged_after(ratios),
    )


def converged_after(ratios: Sequence[float] | Floats) -> int | None:
    """Iterations before the first streak within the tolerance; None: there is none."""
    good = 0
    for index, ratio in enumerate(ratios):
        good = good + 1 if ratio <= 1 + CONVERGED_TOLERANCE else 0
        if good == CONVERGED_ITERATIONS:
            return index + 1 - CONVERGED_ITERATIONS
    return None


def all_converged_after(
    starts: Mapping[str, Sequence[float]],
    ratios: Mapping[str, Sequence[float]],
) -> int | None:
    """Iterations until all jobs are within the tolerance at the same time.

    The moment sought is the first iteration start from which every job's next CONVERGED_ITERATIONS
    iterations are good; counted are the iterations, of the job that has most of them, that
    began before.  None: there is no such moment.
    """
    good_from: dict[str, list[bool]] = {}
    for name, values in ratios.items():
        within = [value <= 1 + CONVERGED_TOLERANCE for value in values]
        good_from[name] = [
            len(within) - index >= CONVERGED_ITERATIONS
            and all(within[index : index + CONVERGED_ITERATIONS])
            for index in range(len(within))
        ]
    moments = sorted({start for values in starts.values() for start in values})
    for moment in moments:
        counts = {
            name: int(np.searchsorted(np.asarray(values), moment))
            for name, values in starts.items()
        }
        if all(
            counts[name] < len(good_from[name]) and good_from[name][counts[name]] for name in starts
        ):
            return max(counts.values(), default=0)
    return None


def best_alone(times: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The best time alone of each job over the variants: `times[variant][job]`, seconds."""
    best: dict[str, float] = {}
    for jobs in times.values():
        for job, seconds in jobs.items():
            best[job] = min(seconds, best.get(job, seconds))
    return best


def alone_time(seconds: Sequence[float]) -> float:
    """Time alone of a job from its iterations by itself: the median, so that the slow start
    of the first and a hiccup of the machine do not count."""
    return float(np.median(np.asarray(seconds, dtype=np.float64)))


def bandwidth_mbit(times: Floats, counters: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Rates between samples of byte counters (samples x ports), Mbit/s, at interval middles."""
    spans = np.diff(times)
    rates = np.diff(counters, axis=0) * 8 / 1e6 / spans[:, None]
    return (times[1:] + times[:-1]) / 2, rates


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean, least and greatest of repeated runs."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()), float(array.min()), float(array.max())
