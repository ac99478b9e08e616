"""Messages between sender and receiver of a moved flow, and their effects.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

import msgspec

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Stamp = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Address = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f:.]{0,45}\Z")]

MAX_FLOWS = 4096
"""Flows that a sender moves, and translations that a receiver accepts."""
MAX_PEER_FLOWS = MAX_FLOWS // 4
"""Of these from one peer: so none that lies takes all."""


class Broken(IntEnum):
    """enum steer_broken: why the kernel stopped rewriting a flow."""

    OK = 0
    RESET = 1
    COLLISION = 2
    ENDED = 3


class FlowKey(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A TCP flow in the direction in which it is moved; addresses in their usual spelling."""

    src: Address
    dst: Address
    sport: Port
    dport: Port

    def on_wire(self, port: int) -> FlowKey:
        """Return the flow with the source port that switches see."""
        return FlowKey(self.src, self.dst, port, self.dport)


# Messages


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """Asks to give `flow` its port back when it arrives with `wire_port`."""

    stamp: Stamp
    flow: FlowKey
    wire_port: Port


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """Answers the Prepare of that stamp: the translation is in force."""

    stamp: Stamp


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag="n"):
    """Refuses the Prepare of that stamp."""

    stamp: Stamp
    why: Annotated[str, msgspec.Meta(pattern=r"^[ -~]{0,128}\Z")]


class Release(msgspec.Struct, frozen=True, array_like=True, tag="x"):
    """Says that `wire` is no longer sent."""

    stamp: Stamp
    wire: FlowKey


class ReleaseDone(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """Answers the Release of that stamp: the translation is gone."""

    stamp: Stamp


class StaleStamp(msgspec.Struct, frozen=True, array_like=True, tag="l"):
    """Answers a message whose stamp is behind `newest`, the latest of the same sender.

    A sender whose clock was set back goes on from there.
    """

    stamp: Stamp
    newest: Annotated[int, msgspec.Meta(ge=0, le=1 << 61)]
    """Far below the end of stamps, which nobody can drive a sender to."""


Message = Prepare | Ready | Refusal | Release | ReleaseDone | StaleStamp

# Effects


@dataclass(frozen=True)
class Send:
    """Send a message to a host."""

    host: str
    message: Message


@dataclass(frozen=True)
class Rewrite:
    """Sender: let the flow leave with this port."""

    flow: FlowKey
    wire_port: int


@dataclass(frozen=True)
class Plain:
    """Sender: let the flow leave as its socket makes it."""

    flow: FlowKey


@dataclass(frozen=True)
class Unguard:
    """Sender: no packet of this flow on the wire can return any more."""

    wire: FlowKey


@dataclass(frozen=True)
class Accept:
    """Receiver: translate `wire` to `port`."""

    wire: FlowKey
    port: int
    stamp: int


@dataclass(frozen=True)
class Forget:
    """Receiver: stop translating."""

    wire: FlowKey


Effect = Send | Rewrite | Plain | Unguard | Accept | Forget


@dataclass(frozen=True)
class Timing:
    """Intervals of the protocol, seconds."""

    retry_s: float = 0.2
    """Time until a message is repeated; doubles each time, up to `renew_s`."""
    tries: int = 6
    """Attempts of a Prepare.  A Release is repeated until it is answered, or has expired."""
    renew_s: float = 60.0
    lease_s: float = 200.0
    """An active flow is reverted when the receiver has confirmed nothing for this long."""
    drain_s: float = 1.0
    """Longer than a packet can be on its way."""
    quarantine_s: float = 2.0
    """Time after a release until its port may serve another flow."""
    keep_s: float = 900.0
    """Life of an unused translation without any agent."""
