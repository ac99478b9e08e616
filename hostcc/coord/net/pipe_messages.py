"""What the agent and the process that carries its gossip say to each other."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hostcc.coord.core.message import MAX_MESSAGE
from hostcc.coord.names import MEMBER_NAME
from hostcc.coord.net.address import Address
from hostcc.coord.net.dealers import Wait
from hostcc.coord.net.transport_settings import TransportSettings

Name = Annotated[str, Meta(pattern=MEMBER_NAME)]
Text = Annotated[str, Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=0)]
Payload = Annotated[bytes, Meta(max_length=MAX_MESSAGE)]

MAX_LINKS = 4096
"""Peers in one account: more than a host has connections."""
MAX_FAILURES = 512
MAX_REFUSED = 64


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The first thing that the agent says: who this is and where it listens."""

    name: Name
    listen: Address
    keys: str | None
    """Directory of the keys; None: without keys."""
    insecure: bool
    settings: TransportSettings
    log_level: str
    log_form: Literal["text", "json"]


class Send(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A message to a peer."""

    peer: Name
    address: Address | None
    payload: Payload


class Offence(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A peer said what nobody of ours would say."""

    peer: Name
    reason: str
    strikes: float


class Started(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """It has begun, on this port."""

    port: Annotated[int, Meta(ge=1, le=65535)]


class StartError(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """It could not begin."""

    reason: Text


class PeerMessage(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A message of an authenticated peer."""

    peer: Name
    payload: Payload


class PeerEndpoint(msgspec.Struct, frozen=True, array_like=True):
    """How a peer is reached: of transport.Link what the agent does not know by itself."""

    dialled: Literal["", "up", "connecting"]
    accepted: bool
    rtt_s: float | None
    shut_out: bool


class Account(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """How everything stands, twice a second: the sign of life, too."""

    counters: dict[Text, Count]
    """Since the process has begun."""
    ways: Annotated[dict[Name, PeerEndpoint], Meta(max_length=MAX_LINKS)]
    failures: Annotated[dict[Name, Wait], Meta(max_length=MAX_FAILURES)]
    refused: Annotated[list[tuple[Text, Text]], Meta(max_length=MAX_REFUSED)]
    """(Address, key) of those that may not come in."""
    dialled: Count
    accepted: Count


Order = Begin | Send | Offence
Report = Started | StartError | PeerMessage | Account

ENCODER = msgspec.msgpack.Encoder()
ORDERS: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
REPORTS: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
