"""What is kept in mind of a large flow: how it fared before it was moved, what became of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.steering.decision import ON_ECMP, Step
from hostcc.daemon.steering.elephants import Connection
from hostcc.paths.fallback import FallbackSettings, FlowWatch, Sample

REFUSED_S = (1.0, 60.0)
"""First and longest wait after a move that did not come about."""
USUAL_FADES = 0.95
"""The largest RTT and loss of a flow on ECMP, from one look to the next."""
LEAST_SEGMENTS = 100
"""Between two looks; fewer say nothing about loss."""


class Outcome(StrEnum):
    """Of a move that was asked for."""

    NONE = "none"
    """None is under way, or it still is."""
    MOVED = "moved"
    REFUSED = "refused"


@dataclass
class WatchedFlow:
    """One flow; times in seconds, CLOCK_MONOTONIC."""

    watch: FlowWatch
    named_at: float
    """When a valid plan last named its path, or when it was first seen."""
    before_s: float = 0.0
    """Its RTT before it was moved, the largest of lately."""
    before_loss: float = 0.0
    """Part of its segments that were sent again before it was moved, likewise."""
    held: str = ""
    """Why it went back to ECMP."""
    not_before: float = 0.0
    wait_s: float = REFUSED_S[0]
    ports: dict[str, int] = field(default_factory=dict)
    """Path -> port on the wire that it last had there; 0: its own."""
    asked: bool = False
    """It was told to move, and has not arrived yet."""
    step: Step = field(default_factory=lambda: Step(ON_ECMP, "new"))
    # Segments, and those sent again, at the last look that said something about loss.
    _counted: tuple[int, int] | None = None

    def ended(self, *, active: bool, refusal: str, now: float) -> Outcome:
        """A move that was asked for is not under way any more; `refusal`: why it has failed."""
        if not self.asked:
            return Outcome.NONE
        self.asked = False
        if active:
            self.wait_s = REFUSED_S[0]
            return Outcome.MOVED
        self.not_before, self.wait_s = now + self.wait_s, min(2 * self.wait_s, REFUSED_S[1])
        self.held = refusal or "the move did not come about"
        return Outcome.REFUSED

    def on_ecmp(self, one: Connection) -> None:
        """How it fares without us: what is so before a move is no fault of the path after it."""
        self.before_s = max(one.srtt_s, USUAL_FADES * self.before_s)
        now = one.segments, one.retransmitted
        sent, again = (x - y for x, y in zip(now, self._counted or now, strict=True))
        if self._counted is None or sent >= LEAST_SEGMENTS or sent < 0:
            self._counted = now
            share = again / sent if sent > 0 else 0.0
            self.before_loss = max(share, USUAL_FADES * self.before_loss)

    def judge(self, one: Connection, now: float, *, peer_alive: bool) -> str:
        """Why it has to go back to ECMP, in words; empty: it need not."""
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
        """Why it must stay on ECMP for now; empty: it need not."""
        return self.held if not self.watch.may_move(now) or now < self.not_before else ""


def watched(config: PathsConfig, now: float) -> WatchedFlow:
    """A flow that was just seen for the first time."""
    settings = FallbackSettings(
        rtt_factor=config.rtt_factor,
        rtt_floor_s=config.rtt_floor_ms / 1e3,
        loss_share=config.loss_share,
        bad_s=config.bad_s,
        plan_age_s=config.plan_age_s,
        again_s=config.again_s,
    )
    return WatchedFlow(FlowWatch(settings), now)
