"""bytes_ratio and F of a socket, as hostcc's congestion controls compute them.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hostcc.mltcp.params import Mode, Scope, Shape, ShapeKind, Variant
from hostcc.mltcp.shape import F_MAX, F_MIN, f_of
from tools.tracing.socket_jobs import Parameters

LEARNING = "learning"
ONE_WAY, TWO_WAY = "one-way", "two-way"


@dataclass(frozen=True)
class Progress:
    """How far an iteration has come: bytes acknowledged, and the total, 0 while unknown."""

    sent: int
    total: int


def bytes_ratio(progress: Progress) -> float:
    """The part of the iteration's bytes that was acknowledged, 0 to 1; 0 while unknown."""
    if progress.total <= 0:
        return 0.0
    return min(1.0, progress.sent / progress.total)


def scale(
    parameters: Parameters,
    ratio: float | None,
    stance: str,
    direction: str = ONE_WAY,
    bursts: bool = False,
) -> float | None:
    """F for a socket now (flow_f_q10 of bpf/mltcp.bpf.c); None when the ratio is not known.

    1 in mode off and while the job's iterations are not trusted yet.  The hostcc variant
    evaluates the same F at the job's urgency instead, for its common window, and of a job that
    is not known to be one-way, or sends in `bursts`, only the weight counts (host_f_q10 of
    bpf/host.bpf.h).
    """
    if parameters.mode == Mode.OFF:
        return 1.0
    if parameters.mode == Mode.STATIC:
        return parameters.static_weight
    if parameters.variant == Variant.HOSTCC and (bursts or direction != ONE_WAY):
        return parameters.plain_weight if direction in (ONE_WAY, TWO_WAY) else 1.0
    if stance == LEARNING:
        return 1.0
    if ratio is None:
        return None
    shape = Shape(
        ShapeKind(parameters.shape), parameters.slope, parameters.intercept, parameters.table
    )
    return min(F_MAX, max(F_MIN, float(f_of(shape, ratio)) * parameters.weight))


def progress_of(scope: str, job: Progress, flow: Progress | None) -> Progress | None:
    """The progress that counts for a socket: the job's, or its own with ratio_scope "flow"."""
    return flow if scope == Scope.FLOW else job
