"""Reports between neighbours of the views that they hold; sent directly, not gossiped."""

from __future__ import annotations

from collections.abc import Iterable

from hostcc.coord.core.message import ViewReport
from hostcc.coord.core.outbox import Outbox

MAX_PEERS_PER_ROUND = 32
"""Peers that receive a report in one round; the others follow in the next."""


class ViewReports:
    """The latest report of each neighbour, and the peers that are due this member's own."""

    def __init__(self, most: int) -> None:
        self.latest: dict[str, ViewReport] = {}
        """Latest report by member."""
        self._most = most
        self._own: ViewReport | None = None
        self._to_tell: dict[str, bool] = {}

    def schedule(self, holding: ViewReport, peers: Iterable[str], *, ask: bool) -> None:
        """Set the report to send to `peers` with the next rounds; `ask`: request theirs."""
        self._own = holding
        self._to_tell.update(dict.fromkeys(peers, ask))

    @property
    def pending(self) -> bool:
        """Whether any peer is still due a report."""
        return bool(self._to_tell)

    def send_due(self, out: Outbox) -> None:
        """Add one round's reports to `out`."""
        if self._own is not None:
            for peer in list(self._to_tell)[:MAX_PEERS_PER_ROUND]:
                ask = self._to_tell.pop(peer)
                out.holding(peer, ViewReport(self._own.held, self._own.active, ask))

    def receive(self, out: Outbox, peer: str, holding: ViewReport | None) -> None:
        """Record a peer's report, and answer if it asks."""
        if holding is None:
            return
        if peer in self.latest or len(self.latest) < self._most:
            self.latest[peer] = holding
        if holding.ask and self._own is not None:
            out.holding(peer, ViewReport(self._own.held, self._own.active))
