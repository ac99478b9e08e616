"""Measurements in steps, held until they have clearly left theirs: noise changes no plan.

A value is published as the nearest point of a geometric grid, and stays there until it is
further away than HOLD steps, half a step being where another point becomes nearer.
"""

from __future__ import annotations

import math

import msgspec

from hostcc.coord.core.payloads import (
    MAX_DESTINATIONS,
    MAX_SECONDS,
    MAX_SLOWDOWN,
    FlowEntry,
    Flows,
    Profile,
)
from hostcc.limits import BYTES_PER_ITERATION_MAX
from hostcc.model import JobProfile

STEP = 0.10
"""From one point to the next, as a fraction: what repeated measurements differ by at most."""
COARSE = 0.25
"""For slow-downs, which the plan itself changes."""
HOLD = 0.75
"""Steps."""


def nearest(value: float, step: float = STEP) -> float:
    """The nearest point of the grid; 0 is one."""
    if not value > 0.0 or not math.isfinite(value):
        return 0.0
    return float(f"{math.exp(round(math.log(value) / math.log1p(step)) * math.log1p(step)):.6g}")


def hold(before: float | None, value: float, step: float = STEP) -> float:
    """The point to publish, when `before` is what was published last."""
    if before and value > 0.0 and abs(math.log(value / before)) <= HOLD * math.log1p(step):
        return before
    return nearest(value, step)


def profile(measured: JobProfile, before: Profile | None = None) -> Profile:
    """What to publish of a measurement; `before` is what is published now."""
    last = before or Profile(0.0, 0.0, 0.0, 0.0)
    published = dict(last.to)
    largest = sorted(measured.bytes_to, key=lambda pair: (-pair[1], pair[0]))[:MAX_DESTINATIONS]
    return Profile(
        compute_s=hold(last.compute_s, min(measured.compute_s, MAX_SECONDS / 2)),
        comm_start_s=hold(last.comm_start_s, min(measured.comm_start_s, MAX_SECONDS / 2)),
        work=hold(last.work, measured.work),
        gpus=measured.gpus,
        period_s=hold(last.period_s, min(measured.period_s, MAX_SECONDS / 2)),
        comm_s=hold(last.comm_s, min(measured.comm_s, MAX_SECONDS / 2)),
        weight=measured.weight,
        slowdown=max(1.0, hold(last.slowdown, min(measured.slowdown, MAX_SLOWDOWN / 2), COARSE)),
        to=tuple(sorted((name, _volume(published.get(name), size)) for name, size in largest)),
        provisional=measured.confidence <= 0.0,
    )


def flows(measured: tuple[FlowEntry, ...], before: Flows | None = None) -> Flows:
    """What to publish of a job's flows; those that are published keep their place in it."""
    sizes = {entry.id: entry.bytes for entry in before.flows} if before else {}
    return Flows(
        tuple(
            msgspec.structs.replace(entry, bytes=_volume(sizes.get(entry.id), entry.bytes))
            for entry in sorted(measured, key=lambda entry: entry.id)
        )
    )


def _volume(before: float | None, size: float) -> float:
    return hold(before, min(size, BYTES_PER_ITERATION_MAX / 2))
