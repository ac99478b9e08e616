"""Records the RTT and loss of a large flow before a move, and how the move ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.steering.decision import ON_ECMP, Step
from hostcc.paths.fallback import FallbackSettings, FlowWatch, Sample
from hostcc.paths.steering_protocol import PORT_TAKEN

RETRY_MOVE_S = (1.0, 60.0)
"""First and longest wait after a failed move."""
USUAL_DECAY = 0.95
"""Decay of a flow's usual RTT and loss on ECMP, for each survey."""
MAX_TAKEN = 4
"""Ports in a row that are tried without a wait, because the other end refuses them."""
MIN_SEGMENTS = 100
"""Segments between two surveys; fewer say nothing about loss."""


class Measured(Protocol):
    """A flow as its host measures it."""

    @property
    def srtt_s(self) -> float:
        """Its RTT, smoothed."""

    @property
    def min_rtt_s(self) -> float:
        """The least ever; 0: unknown."""

    @property
    def segments(self) -> int:
        """Sent since it began."""

    @property
    def retransmitted(self) -> int:
        """Of these, sent again."""


class Outcome(StrEnum):
    """Outcome of a requested move."""

    NONE = "none"
    """No move is requested, or it is still under way."""
    MOVED = "moved"
    REFUSED = "refused"


@dataclass
class WatchedFlow:
    """One flow; times in seconds, CLOCK_MONOTONIC."""

    watch: FlowWatch
    named_at: float
    """When a valid plan last named its path, or when it was first seen."""
    before_s: float = 0.0
    """Its RTT before the move, the largest of lately."""
    before_loss: float = 0.0
    """Part of its segments that were retransmitted before the move, the largest of lately."""
    held: str = ""
    """Why it went back to ECMP."""
    not_before: float = 0.0
    wait_s: float = RETRY_MOVE_S[0]
    ports: dict[str, int] = field(default_factory=dict)
    """Path -> its last port on the wire there; 0: its own."""
    asked: int = 0
    """Port of the move that is requested and has not ended yet; 0: none is."""
    taken: set[int] = field(default_factory=set)
    """Ports that the other end has refused, because they are others' there."""
    step: Step = field(default_factory=lambda: Step(ON_ECMP, "new"))
    # Segments, and those sent again, at the last look that said something about loss.
    _counted: tuple[int, int] | None = None

    def ended(self, *, active: bool, refusal: str, now: float) -> Outcome:
        """Record the end of a requested move; `refusal`: why it failed."""
        if not self.asked:
            return Outcome.NONE
        port, self.asked = self.asked, 0
        if active:
            self.wait_s, self.taken = RETRY_MOVE_S[0], set()
            return Outcome.MOVED
        if refusal.startswith(PORT_TAKEN) and len(self.taken) < MAX_TAKEN:
            # Nothing speaks against another port at once.  An earlier flow may have had this one.
            self.taken.add(port)
            return Outcome.REFUSED
        self.taken = set()
        self.not_before, self.wait_s = now + self.wait_s, min(2 * self.wait_s, RETRY_MOVE_S[1])
        self.held = refusal or "the move did not come about"
        return Outcome.REFUSED

    def on_ecmp(self, one: Measured) -> None:
        """Record RTT and loss on ECMP: the same after a move is no fault of the path."""
        self.before_s = max(one.srtt_s, USUAL_DECAY * self.before_s)
        now = one.segments, one.retransmitted
        sent, again = (x - y for x, y in zip(now, self._counted or now, strict=True))
        if self._counted is None or sent >= MIN_SEGMENTS or sent < 0:
            self._counted = now
            share = again / sent if sent > 0 else 0.0
            self.before_loss = max(share, USUAL_DECAY * self.before_loss)

    def judge(self, one: Measured, now: float, *, peer_alive: bool) -> str:
        """Say why it has to go back to ECMP; empty: it need not."""
        sample = Sample(
            now,
            one.srtt_s,
            max(one.min_rtt_s, self.before_s),
            one.segments,
            one.retransmitted,
            self.before_loss,
        )
        return self.watch.judge(sample, self.named_at, peer_alive)

    def held_back(self, now: float) -> str:
        """Say why it must stay on ECMP for now; empty: it need not."""
        return self.held if not self.watch.may_move(now) or now < self.not_before else ""


def watched(
    config: PathsConfig, now: float, delay: str = "RTT", pieces: str = "segments"
) -> WatchedFlow:
    """Make the record of a flow that was just seen; `delay`, `pieces`: see FallbackSettings."""
    settings = FallbackSettings(
        rtt_factor=config.rtt_factor,
        rtt_floor_s=config.rtt_floor_ms / 1e3,
        loss_share=config.loss_share,
        bad_s=config.bad_s,
        plan_age_s=config.plan_age_s,
        again_s=config.again_s,
        delay=delay,
        pieces=pieces,
    )
    return WatchedFlow(FlowWatch(settings), now)
