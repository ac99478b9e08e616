"""How much one job loses below another: a closed form, exact for two jobs on one link.

The upper job is periodic and unaffected by the lower one. The phase of the upper job at which the
lower job starts to communicate determines the phase of its next start. Following that map from a
few starting points gives the lower job's mean iteration time, and so its slow-down d = mean / alone
- 1. All pairs are computed at once, in vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule.problem import Floats, Ints

START_PHASES = 8
"""Starting points, evenly spaced over the upper job's period."""
WARMUP_ITERATIONS, AVERAGED_ITERATIONS = 6, 10
"""Iterations that are skipped, and those that are averaged."""
ESTIMATED_AT_ONCE = 8192
"""Losses that are estimated together, so that they stay in the processor's cache."""
MAX_LOSS = 1e6
"""Largest slow-down: the upper job leaves the link no time at all."""
EPS_S = 1e-9


@dataclass(frozen=True)
class IsolatedTimes:
    """Times of the jobs without each other, (J,) seconds."""

    compute: Floats
    comm_start: Floats
    comm: Floats
    """t, on the link that takes longest."""

    @property
    def period(self) -> Floats:
        """Iteration time, (J,) seconds."""
        period: Floats = np.maximum(self.compute, self.comm_start + self.comm)
        return period


def slowdown(
    jobs: IsolatedTimes,
    upper: Ints,
    lower: Ints,
    upper_seconds: Floats,
    lower_seconds: Floats,
    phases: int = START_PHASES,
) -> Floats:
    """Return (N,) d of `lower[n]` below `upper[n]`, which need these seconds of a shared link."""
    period = np.maximum(jobs.period[upper], EPS_S)
    busy = np.minimum(upper_seconds, period)
    idle = period - busy
    alone = np.maximum(jobs.period[lower], EPS_S)
    start, compute, comm = jobs.comm_start[lower], jobs.compute[lower], jobs.comm[lower]
    blocked = idle <= EPS_S * period
    idle = np.where(blocked, 1.0, idle)
    # Phase 0: the upper job starts to send.
    at = period * (np.arange(phases)[:, None] + 0.5) / phases
    spent, took, beyond, rounds = (np.zeros(at.shape) for _ in range(4))
    for step in range(WARMUP_ITERATIONS + AVERAGED_ITERATIONS):
        # In place: allocating arrays would cost more than the arithmetic.
        np.subtract(period, at, out=beyond)
        np.minimum(beyond, idle, out=beyond)
        np.subtract(lower_seconds, beyond, out=beyond)
        np.divide(beyond, idle, out=rounds)
        rounds *= 1 - EPS_S
        np.ceil(rounds, out=rounds)
        rounds *= beyond > EPS_S
        rounds *= busy
        # Until the upper job is silent, then as often as it sends again.
        np.subtract(busy, at, out=took)
        np.maximum(took, 0.0, out=took)
        took += lower_seconds
        took += rounds
        np.maximum(took, comm, out=took)
        took += start
        np.maximum(took, compute, out=took)
        if step >= WARMUP_ITERATIONS:
            spent += took
        at += took
        np.divide(at, period, out=beyond)
        np.floor(beyond, out=beyond)
        beyond *= period
        at -= beyond
    loss = np.maximum(spent.mean(axis=0) / AVERAGED_ITERATIONS / alone - 1, 0.0)
    loss = np.where(blocked & (lower_seconds > 0), MAX_LOSS, loss)
    return np.asarray(np.minimum(np.where(lower_seconds > 0, loss, 0.0), MAX_LOSS))


def estimate(
    jobs: IsolatedTimes, upper: Ints, lower: Ints, upper_seconds: Floats, lower_seconds: Floats
) -> Floats:
    """Return (N,) the expected slow-down of `lower[n]` below `upper[n]` if their phases are
    independent.

    Approximates slowdown() in a fiftieth of its time.
    """
    parts = [slice(at, at + ESTIMATED_AT_ONCE) for at in range(0, len(upper), ESTIMATED_AT_ONCE)]
    some = [
        _estimate(jobs, upper[part], lower[part], upper_seconds[part], lower_seconds[part])
        for part in parts
    ]
    return np.concatenate([np.zeros(0), *some])


def _estimate(
    jobs: IsolatedTimes, upper: Ints, lower: Ints, upper_seconds: Floats, lower_seconds: Floats
) -> Floats:
    period = np.maximum(jobs.period[upper], EPS_S)
    busy = np.minimum(upper_seconds, period * (1 - 1e-6))
    idle = period - busy
    share = busy / period
    # Begun in an idle part, w seconds of work meet w / idle busy parts on average.
    rounds = np.ceil(lower_seconds / idle) - 1
    took = lower_seconds * (1 + share) + share * busy * (0.5 + np.maximum(rounds, 0.0))
    took = np.maximum(took, jobs.comm[lower])
    alone = np.maximum(jobs.period[lower], EPS_S)
    longer = np.maximum(jobs.compute[lower], jobs.comm_start[lower] + took)
    return np.asarray(np.maximum(longer / alone - 1, 0.0))
