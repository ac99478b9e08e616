"""Decides when a moved flow goes back to ECMP.  Pure.

A flow leaves its path when its RTT or loss grows there, when the plan is older than allowed, or
when the peer's agent is gone.  It is not moved again at once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FallbackSettings:
    """Thresholds of the fall-back."""

    rtt_factor: float = 4.0
    """Smoothed RTT over the flow's usual RTT, lasting `bad_s` seconds."""
    rtt_floor_s: float = 0.0
    """Least excess of the RTT: a queue that the flow fills by itself is no fault of its path."""
    loss_share: float = 0.02
    """Retransmitted segments over those sent, above the usual part."""
    bad_s: float = 1.0
    plan_age_s: float = 30.0
    again_s: float = 30.0
    """Time after a fall-back until the flow may move again."""
    least_segments: int = 100
    """Segments between two samples; fewer say nothing about loss."""
    delay: str = "RTT"
    pieces: str = "segments"
    """What reasons call `srtt_s` and `segments`."""


@dataclass(frozen=True)
class Sample:
    """A moved flow as its host measures it; counters since the connection began."""

    at_s: float
    srtt_s: float
    usual_rtt_s: float
    """The flow's least RTT, or more where it was slower before the move; 0: unknown."""
    segments: int
    retransmitted: int
    usual_loss: float = 0.0
    """Part of its segments that were retransmitted before it was moved."""


class FlowWatch:
    """Fall-back state of one moved flow."""

    def __init__(self, settings: FallbackSettings | None = None) -> None:
        self._set = settings or FallbackSettings()
        self._last: Sample | None = None
        self._bad_since: float | None = None
        self._not_before = 0.0

    def may_move(self, now: float) -> bool:
        """Check whether it has stayed on ECMP for long enough."""
        return now >= self._not_before

    def judge(self, sample: Sample, plan_at_s: float, peer_alive: bool) -> str:
        """Say why the flow has to go back to ECMP; empty: it need not."""
        why = self._reason(sample, plan_at_s, peer_alive)
        self._last = sample
        if why:
            self._bad_since = self._last = None
            self._not_before = sample.at_s + self._set.again_s
        return why

    def _reason(self, sample: Sample, plan_at_s: float, peer_alive: bool) -> str:
        if not peer_alive:
            return "the peer's agent is gone"
        age = sample.at_s - plan_at_s
        if age > self._set.plan_age_s:
            return f"the plan is {age:.0f} s old"
        ill = self._ill(sample)
        if not ill:
            self._bad_since = None
            return ""
        if self._bad_since is None:
            self._bad_since = sample.at_s
        return ill if sample.at_s - self._bad_since >= self._set.bad_s else ""

    def _ill(self, sample: Sample) -> str:
        usual, least = sample.usual_rtt_s, sample.usual_rtt_s + self._set.rtt_floor_s
        if usual > 0 and sample.srtt_s > max(self._set.rtt_factor * usual, least):
            return f"{self._set.delay} {sample.srtt_s * 1e3:.1f} ms instead of {usual * 1e3:.1f} ms"
        if self._last is None:
            return ""
        sent = sample.segments - self._last.segments
        again = sample.retransmitted - self._last.retransmitted
        most = (self._set.loss_share + sample.usual_loss) * sent
        if sent >= self._set.least_segments and again > most:
            return f"{100 * again / sent:.1f} % of the {self._set.pieces} sent again"
        return ""
