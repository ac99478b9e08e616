"""Answers peers that compare stores with this member, within limits in total and for each peer.

The byte limits are separate from those for news. A peer that asks for everything again and again
can neither delay this member's news nor starve other peers.
"""

from __future__ import annotations

from hostcc.coord.core.budget import Budget, NamedBudgets
from hostcc.coord.core.message import Message
from hostcc.coord.core.outbox import Outbox
from hostcc.coord.core.repair import Exchange, Repair
from hostcc.coord.core.settings import Settings

REPAIRS_PER_S, REPAIRS_BURST = 20.0, 60.0
"""Comparisons answered per second, and at once: each one visits every writer."""
PEER_PER_S, PEER_BURST = 5.0, 40.0
"""Comparisons answered for one peer. A peer sends one every two seconds, or one per round while it
catches up."""
PEER_SHARE = 0.25
"""One peer's largest share of the bytes for answers."""


class RepairResponder:
    """Answers digests, summaries and requests that a message carries."""

    def __init__(self, repair: Repair, settings: Settings) -> None:
        self._repair = repair
        self._repairs = Budget(REPAIRS_PER_S, REPAIRS_BURST)
        self._peer_repairs = NamedBudgets(PEER_PER_S, PEER_BURST)
        rate, burst = settings.answer_bytes_per_s, settings.answer_burst_bytes
        self._bytes = Budget(rate, burst)
        self._peer_bytes = NamedBudgets(PEER_SHARE * rate, PEER_SHARE * burst)

    def answer(self, out: Outbox, peer: str, message: Message, at: float) -> None:
        """Add answers to everything in `message` that concerns the store; `at`: experienced
        seconds."""
        if not (message.leaves or message.buckets or message.entries or message.wanted):
            return
        steps = []
        if message.leaves and self._may(peer, at, 1.0):
            steps.append(self._repair.compare(message.leaves))
        # Announcements are frequent and cost little; whole leaves are neither.
        if message.buckets:
            if self._may(peer, at, 1.0):
                steps.append(self._repair.reconcile(message.buckets, message.entries))
        elif message.entries:
            steps.append(self._repair.reconcile(b"", message.entries))
        if message.wanted and self._may(peer, at, 0.1):
            steps.append(self._repair.deliver(message.wanted))
        self._bytes.refill(at)
        for step in steps:
            if step is not None:
                out.exchange(peer, self._affordable(peer, step, at))

    def _may(self, peer: str, at: float, cost: float) -> bool:
        self._repairs.refill(at)
        return self._repairs.left > 0 and (
            self._peer_repairs.take(peer, at, cost) and self._repairs.take(cost)
        )

    def _affordable(self, peer: str, step: Exchange, at: float) -> Exchange:
        # What does not fit the budget comes with the peer's next comparison.
        kept = []
        for held in step.records:
            if not (self._bytes.left > 0 and self._peer_bytes.take(peer, at, held.size)):
                break
            self._bytes.take(held.size)
            kept.append(held)
        self._bytes.take(len(step.leaves) + len(step.entries) + len(step.wanted))
        return Exchange(step.leaves, step.buckets, step.entries, step.wanted, tuple(kept))
