"""What two agents say to each other before a live flow changes its path.  Pure.

A flow moves when its sender puts another source port on the wire and its receiver gives the
flow its own port back.  Two phases keep every packet understood:

    sender                                 receiver
      PREPARE(flow, port on the wire)  -->   translates that port from now on
                                       <--   READY, or REFUSED with a reason
      packets leave with that port     ...
      RELEASE(port on the wire)        -->   once nothing has used it for a while: translates
                                       <--   RELEASED                          no longer

The sender begins to rewrite only after READY, and asks for a release only after it has stopped;
the receiver gives up a translation only when asked, and when it is unused.  So whatever gets
lost, comes twice or late, whoever dies or starts anew in between: no packet is on its way whose
translation is gone.  Messages carry a stamp that rises for ever at each sender, so a late one
is known as such; a sender that starts anew with its clock set back is told so with LATE, and
goes on from there.  An active flow is prepared again now and then, which renews it; when nobody
answers for long it goes back to the port of its socket.

`Sender` and `Receiver` are told what happens and return effects, to be carried out in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hostcc.paths.steering_messages import (
    MAX_FLOWS,
    MAX_PEER_FLOWS,
    Accept,
    Broken,
    Effect,
    FlowKey,
    Forget,
    Message,
    Plain,
    Prepare,
    Ready,
    Refusal,
    Release,
    ReleaseDone,
    Rewrite,
    Send,
    StaleStamp,
    Timing,
    Unguard,
)

PORT_TAKEN = "the port belongs to"
"""How a refusal begins after which another port may be accepted."""


@dataclass
class _PendingRequest:
    # A message that waits for its answer.
    stamp: int
    wire_port: int
    tries: int
    next_s: float


@dataclass
class _MovedFlow:
    # A flow that the sender moves.
    host: str
    active: int = 0
    """Port on the wire; 0: its own."""
    ask: _PendingRequest | None = None
    confirmed_s: float = 0.0


@dataclass
class _RetiredPort:
    # A port on the wire that is being given up.
    host: str
    """Empty: not known yet."""
    own: int
    ask: _PendingRequest | None
    until_s: float
    """When it is retired whoever answers or does not."""


class Sender:
    """The sending side of one host.  `stamp` should exceed every stamp it has ever used.

    `host_of(address)`: the peer that has an address, or nothing.
    """

    def __init__(
        self, stamp: int, host_of: Callable[[str], str], timing: Timing | None = None
    ) -> None:
        self._stamp = stamp
        self._host_of = host_of
        self._time = timing or Timing()
        self._moved: dict[FlowKey, _MovedFlow] = {}
        # By flow on the wire.
        self._leaving: dict[FlowKey, _RetiredPort] = {}
        self.refusals: dict[FlowKey, str] = {}
        """Why a flow was not moved when it last should have been."""

    def active(self, flow: FlowKey) -> int:
        """Return the port that a flow has on the wire; 0: its own."""
        moved = self._moved.get(flow)
        return moved.active if moved else 0

    def moving(self, flow: FlowKey) -> bool:
        """Check whether a flow waits for a new port."""
        moved = self._moved.get(flow)
        return moved is not None and moved.ask is not None and moved.ask.wire_port != moved.active

    def free(self, flow: FlowKey, wire_port: int) -> bool:
        """Check whether a flow may take a port: no other flow has it, or had it lately."""
        wire = flow.on_wire(wire_port)
        leaving = self._leaving.get(wire)
        if leaving is not None and leaving.own != flow.sport:
            return False
        return all(
            other == flow or wire_port not in _ports(moved)
            for other, moved in self._moved.items()
            if (other.src, other.dst, other.dport) == (flow.src, flow.dst, flow.dport)
        )

    def move(self, flow: FlowKey, host: str, wire_port: int, now: float) -> list[Effect]:
        """Begin to move a flow to a port that is `free`; does nothing when it has that port."""
        if self.active(flow) == wire_port or wire_port == flow.sport:
            return []
        full = len(self._moved) >= MAX_FLOWS and flow not in self._moved
        if full or not self.free(flow, wire_port):
            self.refusals[flow] = "too many flows" if full else f"port {wire_port} is taken"
            return []
        moved = self._moved.setdefault(flow, _MovedFlow(host))
        effects = self._drop_attempt(flow, moved, now)
        self._leaving.pop(flow.on_wire(wire_port), None)
        moved.host = host
        self.refusals.pop(flow, None)
        return effects + self._prepare(flow, moved, wire_port, now)

    def revert(self, flow: FlowKey, now: float) -> list[Effect]:
        """Give a flow its socket's own port at once: that needs nobody's consent."""
        moved = self._moved.pop(flow, None)
        if moved is None:
            return []
        effects = self._drop_attempt(flow, moved, now)
        effects.append(Plain(flow))
        if moved.active:
            effects += self._give_up(flow, moved.active, moved.host, now)
        return effects

    def broken(self, flow: FlowKey, why: Broken, now: float) -> list[Effect]:
        """Record that the kernel has stopped rewriting a flow, and revert it."""
        self.refusals[flow] = f"stopped by the kernel: {why.name.lower()}"
        return self.revert(flow, now) or [Plain(flow)]

    def peer_gone(self, host: str, now: float) -> list[Effect]:
        """Give the flows to a host whose agent is gone their own ports."""
        effects: list[Effect] = []
        for flow in [flow for flow, moved in self._moved.items() if moved.host == host]:
            self.refusals[flow] = "the peer's agent is gone"
            effects += self.revert(flow, now)
        return effects

    def recover(
        self, flows: Iterable[FlowKey], guards: Iterable[tuple[FlowKey, int]], now: float
    ) -> list[Effect]:
        """Revert all flows that the kernel still rewrites, after a crash.

        `guards` are flows on the wire with their own ports.
        """
        effects: list[Effect] = [Plain(flow) for flow in flows]
        for wire, own in guards:
            flow = FlowKey(wire.src, wire.dst, own, wire.dport)
            effects += self._give_up(flow, wire.sport, self._host_of(wire.dst), now)
        return effects

    def heard(self, host: str, message: Message, now: float) -> list[Effect]:
        """Take an answer; one that answers nothing pending is ignored."""
        if isinstance(message, Ready | Refusal):
            for flow, moved in self._moved.items():
                if moved.ask and moved.ask.stamp == message.stamp and moved.host == host:
                    if isinstance(message, Ready):
                        return self._ready(flow, moved, now)
                    return self._refused(flow, moved, message.why, now)
        elif isinstance(message, ReleaseDone):
            for leaving in self._leaving.values():
                if leaving.ask and leaving.ask.stamp == message.stamp and leaving.host == host:
                    leaving.ask = None
                    leaving.until_s = now + self._time.quarantine_s
        elif isinstance(message, StaleStamp):
            self._catch_up(host, message, now)
        return []

    def tick(self, now: float) -> list[Effect]:
        """Repeat unanswered messages, renew active flows, finish retired ports."""
        effects: list[Effect] = []
        for flow, moved in list(self._moved.items()):
            effects += self._tick_moved(flow, moved, now)
        for wire, leaving in list(self._leaving.items()):
            effects += self._tick_leaving(wire, leaving, now)
        return effects

    def _catch_up(self, host: str, message: StaleStamp, now: float) -> None:
        waiting = [(one.host, one.ask) for one in self._moved.values()]
        waiting += [(one.host, one.ask) for one in self._leaving.values()]
        for peer, ask in waiting:
            if ask and ask.stamp == message.stamp <= message.newest and peer == host:
                self._stamp = max(self._stamp, message.newest)
                ask.stamp, ask.next_s = self._next(), now

    def _tick_moved(self, flow: FlowKey, moved: _MovedFlow, now: float) -> list[Effect]:
        ask = moved.ask
        if moved.active and now - moved.confirmed_s >= self._time.lease_s:
            self.refusals[flow] = "the peer does not answer"
            return self.revert(flow, now)
        if ask is None:
            if now - moved.confirmed_s >= self._time.renew_s:
                return self._prepare(flow, moved, moved.active, now)
            return []
        if ask.next_s > now:
            return []
        if ask.tries >= self._time.tries:
            if ask.wire_port == moved.active:  # a renewal: later again, until the lease ends
                ask.tries = 0
            else:
                return self._refused(flow, moved, "the peer does not answer", now)
        _again(ask, self._time, now)
        return [Send(moved.host, Prepare(ask.stamp, flow, ask.wire_port))]

    def _tick_leaving(self, wire: FlowKey, leaving: _RetiredPort, now: float) -> list[Effect]:
        ask = leaving.ask
        if now >= leaving.until_s:
            del self._leaving[wire]
            return [Unguard(wire)]
        if ask is None or ask.next_s > now:
            return []
        _again(ask, self._time, now)
        leaving.host = leaving.host or self._host_of(wire.dst)
        return [Send(leaving.host, Release(ask.stamp, wire))] if leaving.host else []

    def _prepare(self, flow: FlowKey, moved: _MovedFlow, port: int, now: float) -> list[Effect]:
        moved.ask = _PendingRequest(self._next(), port, 0, now)
        _again(moved.ask, self._time, now)
        return [Send(moved.host, Prepare(moved.ask.stamp, flow, port))]

    def _ready(self, flow: FlowKey, moved: _MovedFlow, now: float) -> list[Effect]:
        assert moved.ask is not None
        before, moved.active, moved.ask = moved.active, moved.ask.wire_port, None
        moved.confirmed_s = now
        if moved.active == before:
            return []
        effects: list[Effect] = [Rewrite(flow, moved.active)]
        if before:
            effects += self._give_up(flow, before, moved.host, now)
        return effects

    def _refused(self, flow: FlowKey, moved: _MovedFlow, why: str, now: float) -> list[Effect]:
        assert moved.ask is not None
        self.refusals[flow] = why
        if moved.ask.wire_port == moved.active:  # a renewal refused: it is not translated
            return self.revert(flow, now)
        effects = self._drop_attempt(flow, moved, now)
        if not moved.active:
            del self._moved[flow]
        return effects

    def _drop_attempt(self, flow: FlowKey, moved: _MovedFlow, now: float) -> list[Effect]:
        # Stop asking; what was asked for may have been done, so it is given up.
        ask, moved.ask = moved.ask, None
        if ask is None or ask.wire_port == moved.active:
            return []
        return self._give_up(flow, ask.wire_port, moved.host, now)

    def _give_up(self, flow: FlowKey, port: int, host: str, now: float) -> list[Effect]:
        time = self._time
        ask = _PendingRequest(self._next(), port, 0, now + time.drain_s)
        # Unanswered, a translation lives until it has been unused for long enough.
        until_s = now + time.drain_s + time.keep_s + time.quarantine_s
        self._leaving[flow.on_wire(port)] = _RetiredPort(host, flow.sport, ask, until_s)
        return []

    def _next(self) -> int:
        self._stamp += 1
        return self._stamp


@dataclass
class _Translation:
    # One that the receiver has taken on.
    port: int
    stamp: int
    release: tuple[int, str] | None = None
    """(Stamp, host) of who wants it gone."""
    peer: str = ""
    """Who asked for it; empty: an earlier agent took it on."""


class Receiver:
    """The receiving side of one host.

    `allowed(host, flow)`: may that host speak for this flow, and is it one of ours?
    `in_use(wire)`: has a socket of ours exactly these ports, without any translation?
    """

    def __init__(
        self,
        allowed: Callable[[str, FlowKey], bool],
        in_use: Callable[[FlowKey], bool],
        timing: Timing | None = None,
    ) -> None:
        self._allowed = allowed
        self._in_use = in_use
        self._time = timing or Timing()
        self._known: dict[FlowKey, _Translation] = {}

    def recover(self, translations: Iterable[tuple[FlowKey, int, int]]) -> None:
        """Take over what the kernel holds: (flow on the wire, own port, stamp)."""
        self._known = {wire: _Translation(port, stamp) for wire, port, stamp in translations}

    def heard(self, host: str, message: Message) -> list[Effect]:
        """Take a Prepare or a Release; returns the effects."""
        if isinstance(message, Prepare):
            return self._prepare(host, message)
        if isinstance(message, Release):
            return self._release(host, message)
        return []

    def tick(self, idle_s: Mapping[FlowKey, float]) -> list[Effect]:
        """Finish releases.  `idle_s`: translated flow -> seconds since its last packet."""
        effects: list[Effect] = []
        for wire in [wire for wire in self._known if wire not in idle_s]:
            waiting = self._known.pop(wire).release
            if waiting:
                effects.append(Send(waiting[1], ReleaseDone(waiting[0])))
        for wire, known in list(self._known.items()):
            if known.release and idle_s[wire] >= self._time.drain_s:
                stamp, host = known.release
                del self._known[wire]
                effects += [Forget(wire), Send(host, ReleaseDone(stamp))]
        return effects

    def _prepare(self, host: str, message: Prepare) -> list[Effect]:
        flow, wire = message.flow, message.flow.on_wire(message.wire_port)
        known = self._known.get(wire)
        why = ""
        if not self._allowed(host, flow):
            why = "the flow is not between the requesting host and this one"
        elif known is not None and message.stamp < known.stamp:
            return [Send(host, StaleStamp(message.stamp, known.stamp))]
        elif known is not None and known.port != flow.sport:
            why = f"{PORT_TAKEN} another flow"
        elif known is None and self._in_use(wire):
            why = f"{PORT_TAKEN} a connection"
        elif known is None and self._is_full(host):
            why = "too many flows"
        if why:
            return [Send(host, Refusal(message.stamp, why))]
        self._known[wire] = _Translation(flow.sport, message.stamp, peer=host)
        return [Accept(wire, flow.sport, message.stamp), Send(host, Ready(message.stamp))]

    def _is_full(self, host: str) -> bool:
        of = sum(one.peer == host for one in self._known.values())
        return len(self._known) >= MAX_FLOWS or of >= MAX_PEER_FLOWS

    def _release(self, host: str, message: Release) -> list[Effect]:
        if not self._allowed(host, message.wire):
            return []
        known = self._known.get(message.wire)
        if known is None:
            return [Send(host, ReleaseDone(message.stamp))]
        if message.stamp <= known.stamp:
            return [Send(host, StaleStamp(message.stamp, known.stamp))]
        known.release = (message.stamp, host)
        return []


def _ports(moved: _MovedFlow) -> tuple[int, ...]:
    asked = (moved.ask.wire_port,) if moved.ask else ()
    return (*asked, moved.active) if moved.active else asked


def _again(ask: _PendingRequest, timing: Timing, now: float) -> None:
    ask.next_s = now + min(timing.retry_s * 2**ask.tries, timing.renew_s)
    ask.tries += 1
