"""One member's gossip: no I/O, no clock, no randomness but what it is given."""

from __future__ import annotations

from random import Random

from hostcc.coord.message import Message, Outgoing
from hostcc.coord.settings import Settings
from hostcc.coord.signing import Signer, Verifier


class Node:
    """A member: `tick` every settings.round_s, `receive` whatever arrives, send what they return.

    `now` is any clock that mostly goes forward, in seconds; steps do no harm.
    """

    def __init__(
        self,
        name: str,
        address: str,
        *,
        signer: Signer,
        verifier: Verifier,
        rng: Random,
        settings: Settings | None = None,
    ) -> None:
        self.name = name

    def meet(self, peer: str) -> None:
        """A member that can be reached, from the configuration: talk to it."""
        raise NotImplementedError

    def tick(self, now: float) -> list[Outgoing]:
        """One round: what to send."""
        raise NotImplementedError

    def receive(self, peer: str, message: Message, now: float) -> list[Outgoing]:
        """What an authenticated peer said, decoded: what to send in return."""
        raise NotImplementedError

    def offence(self, peer: str, reason: str, now: float) -> None:
        """A peer sent something that the codec refused: enough of them, and it is not heard."""
        raise NotImplementedError

    def heard(self, peer: str, now: float) -> bool:
        """Whether to listen to a peer: ask before decoding, so that a hostile one costs little."""
        raise NotImplementedError

    def address(self, peer: str) -> str:
        """host:port of a member, from its own record; empty: unknown."""
        raise NotImplementedError
