"""What moves messages, as the service and its troubles see it: here, or in a process of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from hostcc.coord.net.dealers import Wait
    from hostcc.coord.net.transport import Link, OnMessage
    from hostcc.coord.net.transport_settings import TransportSettings


@dataclass(frozen=True)
class ProcessStatus:
    """The process in which messages are moved."""

    pid: int | None
    """None: it is away, and will be started again."""
    restarts: int
    """How often it was started again."""
    reason: str | None
    """Why it ended the last time; None: it never did."""


class Carrier(Protocol):
    """As Transport does it; what methods do is said there."""

    counters: Counter[str]
    keyring: Keyring | None

    @property
    def insecure(self) -> bool:
        """Whether anybody who reaches the port may take part."""

    @property
    def address(self) -> Address:
        """Where it listens, with the port that it got."""

    @property
    def process(self) -> ProcessStatus | None:
        """The process that does it; None: this one."""

    async def start(self) -> None:
        """Listen.  Raises HostccError."""

    async def stop(self) -> None:
        """End every connection."""

    def send(self, peer: str, address: Address | None, payload: bytes) -> bool:
        """Send a message to a member."""

    def offence(self, peer: str, reason: str, strikes: float = 1.0) -> None:
        """A peer did what none of ours would do."""

    def link(self, peer: str) -> Link:
        """How a peer is reached."""

    def allowed(self, peer: str) -> bool:
        """Whether there is a key with which a peer may be dialled."""

    def failure(self, peer: str) -> Wait | None:
        """How a peer could not be reached."""

    def failures(self) -> list[str]:
        """Peers that could not be reached."""

    def refused_keys(self, now: float) -> list[tuple[str, str]]:
        """(Address, CURVE key in hexadecimal) of those that may not come in."""

    def connections(self) -> tuple[int, int]:
        """(Dialled, accepted) that stand now."""

    def tick(self) -> None:
        """To be called every second or oftener while open."""


class MakeCarrier(Protocol):
    """Transport, or what does the same."""

    def __call__(
        self,
        name: str,
        listen: Address,
        keyring: Keyring | None,
        on_message: OnMessage,
        *,
        settings: TransportSettings | None = None,
        insecure: bool = False,
        clock: Callable[[], float] = ...,
        rng: Random | None = None,
    ) -> Carrier:
        """Raises HostccError."""
