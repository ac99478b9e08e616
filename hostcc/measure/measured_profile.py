"""What one host has measured of one job, put together.

Symbols as in Crux (SIGCOMM'24, section 3): M bytes per iteration on a link, B its bandwidth,
t = max over links of M/B, W FLOP per iteration, I = W/t the GPU intensity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostcc.measure.folding import Fold, fold
from hostcc.measure.overlap import UNKNOWN, Overlap, overlap
from hostcc.measure.period import Period, exchanged
from hostcc.measure.series import ByteSeries
from hostcc.measure.work import Activity

BITS = 8


@dataclass(frozen=True, eq=False)
class Link:
    """A link that a job uses."""

    name: str
    bits_per_s: float | None
    """In each direction; None: unknown."""
    traffic: ByteSeries | None = None
    """The job's bytes on it, in the bins of the job's series; None: all of them."""


@dataclass(frozen=True)
class LinkUse:
    """What an iteration sends over a link."""

    name: str
    bits_per_s: float | None
    tx_bytes: float
    """Per iteration."""
    rx_bytes: float
    time_s: float | None
    """M/B: of the direction that needs longer."""


@dataclass(frozen=True, eq=False)
class MeasuredProfile:
    """A job on this host.  What is unknown is None, and `reason` says why.

    Times are seconds, rates bytes per second unless they say bits, work is FLOP.
    """

    job: str
    measured_ns: int
    """End of the last bin, on the clock of the series."""
    periodic: bool
    reason: str
    confidence: float
    """0 to 1, of the period and everything that follows from it."""
    period_s: float | None = None
    mean_period_s: float | None = None
    """With stragglers and checkpoints."""
    spread: float | None = None
    """Half the range in which half of the iteration times lie, over the period."""
    irregular: bool = False
    """Iterations are alike in bytes, not in when they send them (Period.irregular)."""
    tx_bytes: float | None = None
    """Per iteration, without the background."""
    rx_bytes: float | None = None
    background_bytes_per_s: float | None = None
    communication_s: float | None = None
    """Observed time in which the job communicates, per iteration."""
    communication_start_s: float | None = None
    """After the iteration's begin, which is where the longest silence begins."""
    fold: Fold | None = None
    links: tuple[LinkUse, ...] = ()
    link_time_s: float | None = None
    """t, seconds."""
    bottleneck: str | None = None
    """The link that t is of."""
    overlap: Overlap = UNKNOWN
    flop: float | None = None
    """W, on this host."""
    intensity: float | None = None
    """I = W/t, FLOP/s."""

    @property
    def bytes_per_iteration(self) -> float | None:
        """Both directions."""
        if self.tx_bytes is None or self.rx_bytes is None:
            return None
        return self.tx_bytes + self.rx_bytes


def assemble(
    job: str,
    of: ByteSeries,
    found: Period,
    *,
    links: Sequence[Link] = (),
    activity: Activity | None = None,
    flop: float | None = None,
) -> MeasuredProfile:
    """The profile of a job from its series, what `detect` found in it, and what else is known.

    Raises ValueError when a link's traffic has other bins than the series.
    """
    if found.period_s is None or found.starts is None:
        return MeasuredProfile(
            job, of.end_ns, periodic=False, reason=found.reason, confidence=0.0, flop=flop
        )
    tx, rx = directions(of, of, found)
    uses = tuple(
        use(link, *((tx, rx) if link.traffic is None else directions(link.traffic, of, found)))
        for link in links
    )
    times = {one.name: one.time_s for one in uses if one.time_s is not None}
    slowest = max(times, key=lambda name: times[name], default=None)
    time_s = None if slowest is None else times[slowest]
    laid = fold(of, found)
    return MeasuredProfile(
        job,
        of.end_ns,
        periodic=True,
        reason=found.reason,
        confidence=found.confidence,
        period_s=found.period_s,
        mean_period_s=found.mean_period_s,
        spread=found.spread,
        irregular=found.irregular,
        tx_bytes=tx,
        rx_bytes=rx,
        background_bytes_per_s=found.background_bytes_per_s,
        communication_s=laid.communication_s if laid else None,
        communication_start_s=laid.communication_start_s if laid else None,
        fold=laid,
        links=uses,
        link_time_s=time_s,
        bottleneck=slowest,
        overlap=overlap(of, found, activity),
        flop=flop,
        intensity=flop / time_s if flop is not None and time_s else None,
    )


def use(link: Link, tx: float, rx: float) -> LinkUse:
    """A link's part in an iteration, in bytes; a link without a speed has no time."""
    speed = link.bits_per_s
    time_s = BITS * max(tx, rx) / speed if speed and speed > 0 else None
    return LinkUse(link.name, speed, tx, rx, time_s)


def directions(traffic: ByteSeries, of: ByteSeries, found: Period) -> tuple[float, float]:
    """Bytes sent and received per iteration, where `found` was found in `of`."""
    if (traffic.bin_ns, traffic.start_ns, len(traffic)) != (of.bin_ns, of.start_ns, len(of)):
        raise ValueError("a link's traffic: expected the bins of the job's series, got others")
    if found.starts is None or found.period_s is None:
        return 0.0, 0.0
    period = found.period_s / of.bin_s
    tx, rx = (
        exchanged(way, found.starts, period).amount if way.any() else 0.0
        for way in (traffic.tx, traffic.rx)
    )
    return tx, rx
