"""A measured profile as it is answered: figures, and one iteration folded out of many."""

from __future__ import annotations

from hostcc.answers.jobs import Analysis, Circle, Link
from hostcc.measure.measured_profile import MeasuredProfile


def plain(of: MeasuredProfile) -> Analysis:
    """The figures; what is unknown is None."""
    return Analysis(
        periodic=of.periodic,
        reason=of.reason,
        confidence=of.confidence,
        period_s=of.period_s,
        mean_period_s=of.mean_period_s,
        spread=of.spread,
        irregular=of.irregular,
        bytes_per_iteration=of.bytes_per_iteration,
        tx_bytes=of.tx_bytes,
        rx_bytes=of.rx_bytes,
        background_bytes_per_s=of.background_bytes_per_s,
        communication_s=of.communication_s,
        communication_start_s=of.communication_start_s,
        link_time_s=of.link_time_s,
        bottleneck=of.bottleneck,
        links=[
            Link(
                name=link.name,
                bits_per_s=link.bits_per_s,
                tx_bytes=link.tx_bytes,
                rx_bytes=link.rx_bytes,
                time_s=link.time_s,
            )
            for link in of.links
        ],
        overlap=of.overlap.ratio,
        overlap_reason=of.overlap.reason or None,
        flop=of.flop,
        intensity=of.intensity,
    )


def circle(of: MeasuredProfile) -> Circle | None:
    """The folded iteration: rates over the phase, bytes per second; None without a period."""
    laid = of.fold
    if laid is None:
        return None
    return Circle(
        period_s=laid.period_s,
        iterations=laid.iterations,
        mean=laid.mean.round(1).tolist(),
        low=laid.low.round(1).tolist(),
        median=laid.median.round(1).tolist(),
        high=laid.high.round(1).tolist(),
    )
