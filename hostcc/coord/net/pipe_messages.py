"""Messages between the agent and its transport process."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hostcc.coord.core.message import MAX_MESSAGE
from hostcc.coord.core.payloads import MAX_CERTIFICATE, MAX_REVOCATIONS
from hostcc.coord.member_name import MEMBER_NAME
from hostcc.coord.net.address import Address
from hostcc.coord.net.dealers import DialFailure
from hostcc.coord.net.transport_settings import TransportSettings

Name = Annotated[str, Meta(pattern=MEMBER_NAME)]
Text = Annotated[str, Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=0)]
Payload = Annotated[bytes, Meta(max_length=MAX_MESSAGE)]
Signed = Annotated[bytes, Meta(max_length=MAX_REVOCATIONS)]

MAX_LINKS = 4096
"""Peers in one status report: more than a host has connections."""
MAX_FAILURES = 512
MAX_LEARNED = 256
"""Signed certificates, or lists of revoked ones, in one order."""
MAX_REFUSED = 64


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The agent's first message: who this member is and where it listens."""

    name: Name
    listen: Address
    keys: str | None
    """Directory of the keys; None: run without keys."""
    insecure: bool
    settings: TransportSettings
    log_level: str
    log_form: Literal["text", "json"]


class Send(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The order to send a message to a peer."""

    peer: Name
    address: Address | None
    payload: Payload


class Offence(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A protocol violation of a peer, found by the agent."""

    peer: Name
    reason: str
    strikes: float


class Greet(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The order to ask who is at an address."""

    address: Address


class Learn(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Certificates and lists of revoked ones that the agent has learned from records."""

    raw: Annotated[list[Signed], Meta(max_length=MAX_LEARNED)]


class Started(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Success of the start, with the port in use."""

    port: Annotated[int, Meta(ge=1, le=65535)]


class StartError(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Failure of the start."""

    reason: Text


class PeerMessage(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A message that an authenticated peer sent."""

    peer: Name
    payload: Payload


class Met(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A member that has shown its certificate."""

    member: Name
    address: Address | None
    """At which it answered; None: it asked."""
    certificate: Annotated[bytes, Meta(max_length=MAX_CERTIFICATE)]


class PeerEndpoint(msgspec.Struct, frozen=True, array_like=True):
    """State of a peer's connections: the part of transport.Link that the agent cannot know."""

    dialled: Literal["", "up", "connecting"]
    accepted: bool
    rtt_s: float | None
    shut_out: bool


class TransportStatus(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """State of all connections, sent twice a second; it also shows that the process is alive."""

    counters: dict[Text, Count]
    """Counts since the process started."""
    ways: Annotated[dict[Name, PeerEndpoint], Meta(max_length=MAX_LINKS)]
    failures: Annotated[dict[Name, DialFailure], Meta(max_length=MAX_FAILURES)]
    refused: Annotated[list[tuple[Text, Text]], Meta(max_length=MAX_REFUSED)]
    """(Address, key) of recently refused connections."""
    dialled: Count
    accepted: Count
    refused_certificates: Annotated[list[tuple[Text, Text]], Meta(max_length=MAX_REFUSED)] = []
    """(Address, why) of certificates that were refused here."""
    refusing: Annotated[list[tuple[Text, Text]], Meta(max_length=MAX_REFUSED)] = []
    """(Address, why) of hosts that refuse this host's certificate."""


Order = Begin | Send | Offence | Greet | Learn
Report = Started | StartError | PeerMessage | TransportStatus | Met

ENCODER = msgspec.msgpack.Encoder()
ORDERS: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
REPORTS: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
