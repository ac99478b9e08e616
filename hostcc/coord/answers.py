"""Answers to comparisons of stores, within what may be spent on them."""

from __future__ import annotations

from hostcc.coord.budget import Budget
from hostcc.coord.message import Message
from hostcc.coord.outbox import Outbox
from hostcc.coord.repair import Exchange, Repair

REPAIRS_PER_S, REPAIRS_BURST = 20.0, 60.0
"""Comparisons that are answered: each looks at every writer."""


class Answers:
    """Repair by demand; `budget` is of bytes, shared with everything else that is sent."""

    def __init__(self, repair: Repair, budget: Budget) -> None:
        self._repair = repair
        self._budget = budget
        self._repairs = Budget(REPAIRS_PER_S, REPAIRS_BURST)

    def answer(self, out: Outbox, peer: str, message: Message, at: float) -> None:
        """Whatever of a message is about the store; `at` is experienced time."""
        if not (message.leaves or message.buckets or message.entries or message.wanted):
            return
        self._repairs.refill(at)
        steps = []
        if message.leaves and self._repairs.take(1):
            steps.append(self._repair.compare(message.leaves))
        # Announcements are frequent and cost little; whole leaves are neither.
        if message.buckets:
            if self._repairs.take(1):
                steps.append(self._repair.reconcile(message.buckets, message.entries))
        elif message.entries:
            steps.append(self._repair.reconcile(b"", message.entries))
        if message.wanted and self._repairs.take(0.1):
            steps.append(self._repair.deliver(message.wanted))
        for step in steps:
            if step is not None:
                out.exchange(peer, self._affordable(step))

    def _affordable(self, step: Exchange) -> Exchange:
        """As much of an answer as may be sent now; the rest comes with the next comparison."""
        kept = []
        for held in step.records:
            if not self._budget.take(held.size):
                break
            kept.append(held)
        self._budget.take(len(step.leaves) + len(step.entries) + len(step.wanted))
        return Exchange(step.leaves, step.buckets, step.entries, step.wanted, tuple(kept))
