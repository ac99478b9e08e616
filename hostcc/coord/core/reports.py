"""Which view each neighbour holds, told from one to the other and not gossiped to all."""

from __future__ import annotations

from collections.abc import Iterable

from hostcc.coord.core.message import ViewReport
from hostcc.coord.core.outbox import Outbox

AT_ONCE = 32
"""Peers that are told in one round; the others come next."""


class Reports:
    """What neighbours said last, and whom to tell what this member holds."""

    def __init__(self, most: int) -> None:
        self.heard: dict[str, ViewReport] = {}
        """By member."""
        self._most = most
        self._own: ViewReport | None = None
        self._to_tell: dict[str, bool] = {}

    def say(self, holding: ViewReport, peers: Iterable[str], *, ask: bool) -> None:
        """Tell peers with the next rounds; `ask`: and ask them for the same."""
        self._own = holding
        self._to_tell.update(dict.fromkeys(peers, ask))

    @property
    def waiting(self) -> bool:
        """Whether somebody is still to be told."""
        return bool(self._to_tell)

    def tell(self, out: Outbox) -> None:
        """A round's part of it."""
        if self._own is not None:
            for peer in list(self._to_tell)[:AT_ONCE]:
                ask = self._to_tell.pop(peer)
                out.holding(peer, ViewReport(self._own.held, self._own.active, ask))

    def hear(self, out: Outbox, peer: str, holding: ViewReport | None) -> None:
        """A peer says what it holds, and may ask."""
        if holding is None:
            return
        if peer in self.heard or len(self.heard) < self._most:
            self.heard[peer] = holding
        if holding.ask and self._own is not None:
            out.holding(peer, ViewReport(self._own.held, self._own.active))
