"""The interface of a transport, as the gossip service uses it.

Transport runs in this process, ChildTransport in a process of its own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from hostcc.answers.gossip import ProcessStatus
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from hostcc.coord.net.dealers import DialFailure
    from hostcc.coord.net.greeter import OnMet
    from hostcc.coord.net.transport import Link, OnMessage
    from hostcc.coord.net.transport_settings import TransportSettings


class Carrier(Protocol):
    """Carries messages between members; Transport documents the methods."""

    counters: Counter[str]
    keyring: Keyring | None
    on_met: OnMet
    """Called with each member that has shown its certificate; to be set before `start`."""

    @property
    def insecure(self) -> bool:
        """Whether anybody who reaches the port may take part."""

    @property
    def address(self) -> Address:
        """Address that it listens on, with the port that it was given."""

    @property
    def process(self) -> ProcessStatus | None:
        """The separate process that holds the connections; None: this one does."""

    async def start(self) -> None:
        """Begin to listen. Raises HostccError."""

    async def stop(self) -> None:
        """Close every connection."""

    def send(self, peer: str, address: Address | None, payload: bytes) -> bool:
        """Send a message to a member."""

    def offence(self, peer: str, reason: str, strikes: float = 1.0) -> None:
        """Count a protocol violation of a peer."""

    def link(self, peer: str) -> Link:
        """Return the state of the connections to a peer."""

    def allowed(self, peer: str) -> bool:
        """Return whether there is a key with which to connect to a peer."""

    def failure(self, peer: str) -> DialFailure | None:
        """Return why a peer could not be reached; None: it was reached."""

    def failures(self) -> list[str]:
        """Return the peers that could not be reached."""

    def refused_keys(self, now: float) -> list[tuple[str, str]]:
        """Return (address, CURVE key in hexadecimal) of recently refused connections."""

    def greet(self, address: Address) -> None:
        """Ask who is at an address; `on_met` is called with the answer."""

    def learn(self, raw: list[bytes]) -> None:
        """Accept what the agent has learned of other members' certificates."""

    def refused_certificates(self, now: float) -> list[tuple[str, str]]:
        """Return (address, why) of certificates that were refused here lately."""

    def refusing(self) -> list[tuple[str, str]]:
        """Return (address, why) of hosts that refuse this host's certificate."""

    def connections(self) -> tuple[int, int]:
        """Return the number of open connections: (dialled, accepted)."""

    def tick(self) -> None:
        """Check keys and connections; to be called at least every second while open."""


class CarrierFactory(Protocol):
    """Makes a Carrier; Transport is one."""

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
        """Return a carrier that does not listen yet. Raises HostccError."""
