"""Carries out the effects of the steering protocol on this host's kernel."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import deque
from collections.abc import Callable

import msgspec

from hostcc.bpf.loader.errors import BpfError
from hostcc.errors import InputError
from hostcc.paths import sockdiag
from hostcc.paths.steer_kernel import SteerKernel
from hostcc.paths.steering_messages import (
    Accept,
    Broken,
    Effect,
    FlowKey,
    Forget,
    Message,
    Plain,
    Prepare,
    Release,
    Rewrite,
    Send,
    Timing,
    Unguard,
)
from hostcc.paths.steering_protocol import Receiver, Sender
from hostcc.system.validate import UNDECODABLE

MAX_MESSAGE_BYTES = 512
KEPT_MOVE_TIMES = 1000
"""Latest moves of which the duration is kept."""
Post = Callable[[str, bytes], None]
"""Hands a message to the transport: host, bytes."""
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class Steering:
    """Sender and receiver of this host.  Begins with every flow on its own port.

    `host_of` names the host that has an address, "" for none; `mine` says which are ours.
    Methods raise BpfError when the kernel refuses; what was under way is then reverted.
    """

    def __init__(
        self,
        kernel: SteerKernel,
        post: Post,
        host_of: Callable[[str], str],
        mine: Callable[[str], bool],
        timing: Timing | None = None,
        now: Callable[[], float] = time.monotonic,
        *,
        labels: bool = False,
    ) -> None:
        """`labels`: IPv6 flows are moved by flow label; what is a port here is a label then."""
        self._kernel = kernel
        self._post = post
        self._now = now
        self._by_label = labels
        # Of IPv6 flows that have one of ours.
        self._labels: dict[FlowKey, int] = {}
        # Flows that are being moved, and since when.
        self._asked: dict[FlowKey, float] = {}
        self._moves: deque[float] = deque(maxlen=KEPT_MOVE_TIMES)
        # Nanoseconds since the epoch exceed every stamp of an earlier agent of this host, unless
        # its clock was set back; peers say so then.
        self.sender = Sender(time.time_ns(), host_of, timing)
        self.receiver = Receiver(
            lambda host, flow: host_of(flow.src) == host and mine(flow.dst),
            lambda wire: sockdiag.exists(wire.dst, wire.dport, wire.src, wire.sport),
            timing,
        )
        self.receiver.recover((one.wire, one.port, one.stamp) for one in kernel.arriving())
        left = self.sender.recover(
            [one.flow for one in kernel.leaving()], kernel.guards(), self._now()
        )
        self._do(left)

    def move(self, flow: FlowKey, host: str, wire_port: int) -> None:
        """Begin to move a flow of ours; `sender.refusals` says why one does not move."""
        if self.by_label(flow):
            self.relabel(flow, wire_port)
            return
        self._asked[flow] = self._now()
        self._do(self.sender.move(flow, host, wire_port, self._asked[flow]))

    def relabel(self, flow: FlowKey, label: int) -> None:
        """Move an IPv6 flow of ours by its flow label: that needs no peer."""
        self._kernel.label(flow, label)
        self._labels[flow] = label

    def revert(self, flow: FlowKey) -> None:
        """Give a flow its socket's own port or label; also when its connection has ended."""
        self._asked.pop(flow, None)
        self._labels.pop(flow, None)
        self._do(self.sender.revert(flow, self._now()) or [Plain(flow)])

    def by_label(self, flow: FlowKey) -> bool:
        """Check whether a flow is moved by its flow label."""
        return self._by_label and ":" in flow.src

    def active(self, flow: FlowKey) -> int:
        """Return the port or label that a flow of ours leaves with; 0: its own."""
        return self._labels.get(flow, 0) or self.sender.active(flow)

    def free(self, flow: FlowKey, port: int) -> bool:
        """Check whether a flow may leave with this port; labels are always free."""
        return self.by_label(flow) or self.sender.free(flow, port)

    def peer_gone(self, host: str) -> None:
        """Revert the flows to a host whose agent has died or left."""
        self._do(self.sender.peer_gone(host, self._now()))

    def heard(self, host: str, data: bytes) -> None:
        """Take a message of a host.  Raises InputError for an invalid one."""
        message = decode(data)
        self._do(self.receiver.heard(host, message))
        self._do(self.sender.heard(host, message, self._now()))

    def tick(self) -> None:
        """Write the heartbeat, repeat messages, revert flows that the kernel has stopped."""
        self._kernel.beat()
        now = self._now()
        for one in self._kernel.leaving():
            if one.broken is not Broken.OK and one.flow in self._labels:
                self.revert(one.flow)
            elif one.broken is not Broken.OK:
                self._do(self.sender.broken(one.flow, one.broken, now))
        self._do(self.sender.tick(now))
        self._do(self.receiver.tick({one.wire: one.idle_s for one in self._kernel.arriving()}))

    def revert_all(self) -> None:
        """Revert every flow and ask for every release, before an orderly stop."""
        for one in self._kernel.leaving():
            self.revert(one.flow)

    def move_times(self) -> dict[str, float]:
        """Return p50 and p99 of the seconds from `move` to rewriting, of the latest moves.

        Empty before the first.
        """
        ordered, count = sorted(self._moves), len(self._moves)
        if not count:
            return {}
        return {"p50": ordered[(count - 1) // 2], "p99": ordered[math.ceil(0.99 * count) - 1]}

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(host, message):
                    self._post(host, msgspec.msgpack.encode(message))
                case Rewrite(flow, port):
                    self._rewrite(flow, port)
                case Plain(flow):
                    self._kernel.plain(flow)
                case Unguard(wire):
                    self._kernel.unguard(wire)
                case Accept(wire, port, stamp):
                    # READY comes behind it: when this raises, the sender is told nothing.
                    self._kernel.accept(wire, port, stamp)
                case Forget(wire):
                    self._kernel.forget(wire)

    def _rewrite(self, flow: FlowKey, port: int) -> None:
        try:
            self._kernel.rewrite(flow, port)
            if (asked := self._asked.pop(flow, None)) is not None:
                self._moves.append(self._now() - asked)
        except BpfError:
            self._do(self.sender.revert(flow, self._now()))
            raise


def decode(data: bytes) -> Message:
    """Decode a message of a peer.  Raises InputError."""
    try:
        if len(data) > MAX_MESSAGE_BYTES:
            raise InputError(f"steering message: expected at most {MAX_MESSAGE_BYTES} bytes")
        message = _DECODER.decode(data)
        if isinstance(message, Prepare | Release):
            _check(message.flow if isinstance(message, Prepare) else message.wire)
    except UNDECODABLE as error:
        raise InputError(f"steering message: {error}") from None
    return message


def _check(flow: FlowKey) -> None:
    # Tables are looked up by these words, so each address has to have one spelling.
    families = set()
    for text in (flow.src, flow.dst):
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            address = None
        if address is None or str(address) != text:
            raise InputError(f"steering message: expected an IP address, got {text!r:.60}")
        families.add(address.version)
    if len(families) > 1:
        raise InputError("steering message: expected addresses of one family")
