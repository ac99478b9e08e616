"""Reports between neighbours of the views that they hold; sent directly, not gossiped."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from hostcc.coord.core.message import Message, ViewReport
from hostcc.coord.core.outbox import Outbox
from hostcc.coord.plan_difference import NO_PLAN, PlanDigests

MAX_PEERS_PER_ROUND = 32
"""Peers that receive a report in one round; the others follow in the next."""


class ViewReports:
    """The latest report of each neighbour, and the peers that are due this member's own."""

    def __init__(self, most: int) -> None:
        self.latest: dict[str, ViewReport] = {}
        """Latest report by member."""
        self.plans: dict[str, PlanDigests] = {}
        """Digests of its plan by member, from the same report."""
        self.changes = 0
        """Rises whenever what a peer reported is another than before."""
        self._most = most
        self._own: ViewReport | None = None
        self._plan = NO_PLAN
        self._to_tell: dict[str, bool] = {}

    def schedule(
        self, holding: ViewReport, plan: PlanDigests, peers: Iterable[str], *, ask: bool
    ) -> None:
        """Set the report to send to `peers` with the next rounds; `ask`: request theirs.

        `plan`: digests of the plan that this member is to follow, of its own jobs.
        """
        self._own, self._plan = holding, plan
        self._to_tell.update(dict.fromkeys(peers, ask))

    def forget(self, peer: str) -> None:
        """Drop what a peer reported."""
        del self.latest[peer], self.plans[peer]
        self.changes += 1

    @property
    def pending(self) -> bool:
        """Whether any peer is still due a report."""
        return bool(self._to_tell)

    def send_due(self, out: Outbox) -> None:
        """Add one round's reports to `out`."""
        if self._own is not None:
            for peer in list(self._to_tell)[:MAX_PEERS_PER_ROUND]:
                ask = self._to_tell.pop(peer)
                out.holding(peer, replace(self._own, ask=ask), self._plan)

    def receive(self, out: Outbox, peer: str, message: Message) -> None:
        """Record a peer's report, if the message has one, and answer if it asks."""
        holding = message.holding
        if holding is None:
            return
        if peer in self.latest or len(self.latest) < self._most:
            plan = PlanDigests(message.plan, message.jobs)
            before = self.latest.get(peer, holding)
            said = holding.held, holding.active, plan
            if said != (before.held, before.active, self.plans.get(peer)):
                self.changes += 1
            self.latest[peer], self.plans[peer] = holding, plan
        if holding.ask and self._own is not None:
            out.holding(peer, replace(self._own, ask=False), self._plan)
