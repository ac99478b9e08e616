"""Publishes measurements in steps with hysteresis, so that noise changes no plan.

A value is published as the nearest point of a geometric grid. It stays there until it is more than
HOLD_STEPS away; half a step is where the next point becomes nearer.
"""

from __future__ import annotations

import math

import msgspec

from hostcc.coord.core.payloads import (
    MAX_DESTINATIONS,
    MAX_FLOP_PER_S,
    MAX_GPUS,
    MAX_SECONDS,
    MAX_SLOWDOWN,
    FlowEntry,
    Flows,
    Profile,
)
from hostcc.limits import BYTES_PER_ITERATION_MAX
from hostcc.model import JobProfile

STEP_FRACTION = 0.10
"""Relative distance of grid points: repeated measurements differ by less."""
SLOWDOWN_STEP = 0.25
"""The same for slow-downs, which the plan itself changes."""
HOLD_STEPS = 0.75
"""Distance in steps at which a published value moves."""


def nearest(value: float, step: float = STEP_FRACTION) -> float:
    """Return the grid point nearest to `value`; 0 is a point of its own."""
    if not value > 0.0 or not math.isfinite(value):
        return 0.0
    return float(f"{math.exp(round(math.log(value) / math.log1p(step)) * math.log1p(step)):.6g}")


def hold(before: float | None, value: float, step: float = STEP_FRACTION) -> float:
    """Return the point to publish; `before`: the point published last, or None."""
    if before and value > 0.0 and abs(math.log(value / before)) <= HOLD_STEPS * math.log1p(step):
        return before
    return nearest(value, step)


def profile(measured: JobProfile, before: Profile | None = None) -> Profile:
    """Return what to publish of a measurement; `before`: what is published now."""
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
        slowdown=max(
            1.0,
            hold(last.slowdown, min(measured.slowdown, MAX_SLOWDOWN / 2), SLOWDOWN_STEP),
        ),
        to=tuple(sorted((name, _volume(published.get(name), size)) for name, size in largest)),
        provisional=measured.confidence <= 0.0,
        assumed_flop_per_s=hold(
            last.assumed_flop_per_s,
            min(measured.assumed_flop_per_s, MAX_GPUS * MAX_FLOP_PER_S / 2),
        ),
    )


def flows(measured: tuple[FlowEntry, ...], before: Flows | None = None) -> Flows:
    """Return what to publish of a job's flows; `before`: what is published now."""
    sizes = {entry.id: entry.bytes for entry in before.flows} if before else {}
    return Flows(
        tuple(
            msgspec.structs.replace(entry, bytes=_volume(sizes.get(entry.id), entry.bytes))
            for entry in sorted(measured, key=lambda entry: entry.id)
        )
    )


def _volume(before: float | None, size: float) -> float:
    return hold(before, min(size, BYTES_PER_ITERATION_MAX / 2))
