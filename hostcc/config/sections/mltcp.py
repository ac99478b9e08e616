"""Congestion control of jobs."""

from __future__ import annotations

from msgspec import Struct

from hostcc.config.sections.words import Factor, FTable, Micros, Silence, Slope
from hostcc.mltcp.params import Mode, Scope, ShapeKind, Variant


class MltcpConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[mltcp]`: congestion control of every job, unless its `[[job]]` sets it.

    F(r), with r the share of the iteration's bytes that were sent: slope * r + intercept
    (Rajasekaran, MIT thesis 2025, section 5: 1.75 and 0.25).
    """

    mode: Mode = Mode.MLTCP
    variant: Variant = Variant.HOSTCC
    ratio_scope: Scope = Scope.JOB
    shape: ShapeKind = ShapeKind.LINEAR
    slope: Slope = 1.75
    intercept: Factor = 0.25
    table: FTable = ()
    """F at evenly spaced r from 0 to 1, for shape = "table"."""
    delay_target_min_us: Micros = 300
    """Queueing delay above which a job at the start of its iteration yields."""
    delay_target_max_us: Micros = 1400
    """The same for a job about to finish."""
    silence_us: Silence = 0
    """Silence that ends an iteration; 0: learned."""
