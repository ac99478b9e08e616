"""Estimates how long a job's iteration takes alone, and what hostcc gains it.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hostcc.measure.pattern_watch import sends_the_same

MIN_ITERATIONS = 8
"""Iterations under mode off that a figure rests on, at least."""
MIN_BY_BYTES = 40
"""The same, where they are counted by bytes."""
SHORTEST = 0.1
"""Quantile of the iteration times under mode off that counts as the shortest: single times are
measured to a bin of the meter."""


TOLERANCE = 0.02
"""By which a job alone may seem slower than it is now: the mean varies by as much."""


@dataclass(frozen=True)
class OffPeriod:
    """A job's iterations in the last period of mode off."""

    mean_s: float
    iterations: int
    shortest_s: float | None = None
    """None: single iterations were not analysed yet."""
    iteration_bytes: float | None = None
    """Sent in one of them; None: unknown."""

    def is_of(self, iteration_bytes: float | None) -> bool:
        """Say whether it can be of the iterations that send so much; other ones are no measure."""
        if not iteration_bytes or not self.iteration_bytes:
            return True
        return sends_the_same(iteration_bytes, self.iteration_bytes)


@dataclass(frozen=True)
class AloneTime:
    """An iteration's time alone, and how that was found."""

    seconds: float
    how: str


@dataclass(frozen=True)
class Gain:
    """What hostcc gains a job."""

    value: float
    over: str
    """`off`: mean iteration time in the last period of mode off, over the present one; `alone`:
    iteration time alone over the present one."""


def off_period(begins_s: Sequence[float], since_s: float) -> OffPeriod | None:
    """Return what the begins of iterations say of the time since `since_s`; None: too few."""
    begins = np.asarray([begin for begin in begins_s if begin >= since_s])
    times = np.diff(begins)
    if len(times) < MIN_ITERATIONS:
        return None
    shortest = float(np.quantile(times, SHORTEST))
    return OffPeriod(float(times.mean()), len(times), shortest)


def by_bytes(elapsed_s: float, sent: float, iteration_bytes: float | None) -> OffPeriod | None:
    """Return the same from what was sent meanwhile; None: too little, for the iterations at both
    ends count in part."""
    if not iteration_bytes or elapsed_s <= 0:
        return None
    count = sent / iteration_bytes
    return OffPeriod(elapsed_s / count, round(count)) if count >= MIN_BY_BYTES else None


def alone_time(
    *,
    silence_s: float | None,
    link_time_s: float | None,
    plan_time_s: float | None,
    turn_s: float | None,
    off: OffPeriod | None,
    now_s: float | None,
) -> AloneTime | None:
    """Estimate an iteration's time alone; None: nothing is known.

    `turn_s`: measured while the job went first; if iterations are shorter now (`now_s`), it was
    not alone then.  Else it is the silence of an iteration, in which
    the job computes and which contention does not change, and t, the longest time that its bytes
    need on a link, by the plan or on this host.  The shortest iterations under mode off are an
    upper bound of either.
    """
    found = None
    if turn_s and (not now_s or turn_s <= now_s * (1 + TOLERANCE)):
        found = AloneTime(turn_s, "measured while the job went first")
    elif silence_s is not None and (link_time_s or plan_time_s):
        by_plan = (plan_time_s or 0.0) >= (link_time_s or 0.0)
        time_s = max(plan_time_s or 0.0, link_time_s or 0.0)
        whose = "by the plan" if by_plan else "on this host's links"
        words = f"{silence_s * 1e3:.4g} ms of silence and t = {time_s * 1e3:.4g} ms {whose}"
        found = AloneTime(silence_s + time_s, words)
    if off and off.shortest_s and (found is None or off.shortest_s < found.seconds):
        words = f"the shortest of {off.iterations} iterations in mode off"
        found = AloneTime(off.shortest_s, words)
    return found


def gain(
    now_s: float | None, *, is_off: bool, off: OffPeriod | None, alone: AloneTime | None
) -> Gain | None:
    """Return what hostcc gains, with `now_s` the present mean iteration time; None: unknown.

    In mode off there is nothing to compare with that mode.
    """
    if not now_s:
        return None
    if off is not None and not is_off:
        return Gain(off.mean_s / now_s, "off")
    return Gain(alone.seconds / now_s, "alone") if alone is not None else None
