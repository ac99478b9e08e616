"""A simulated network of real gossip cores: an event queue, a clock, and faults.

The core is not simplified, except for signatures, which are keyed hashes here.  Messages are
encoded and decoded as on the wire; `frame` bytes are added to each for its headers.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol

from hostcc.coord.core import codec
from hostcc.coord.core.message import Message, Outgoing
from hostcc.coord.core.node import Node
from hostcc.coord.core.record_checker import RecordChecker
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.signing import Signer, SimulatedSigner, SimulatedVerifier
from hostcc.coord.core.store import Store

FRAME = 120
"""Bytes of Ethernet, IP, TCP, ZeroMQ and CURVE around a message."""
Deliver = Callable[[str, Message, bytes], None]
"""(Who received it, the message, its bytes; none where messages are not decoded again)."""
Dialect = Callable[[bytes], bytes]
"""What a member of another protocol version makes of a message that it sends."""


class Member(Protocol):
    """What the world drives: a node, or a coordinator around one."""

    def rest_s(self) -> float:
        """From the last round to the next one."""

    def tick(self, now: float) -> list[Outgoing]:
        """One round."""

    def receive(self, peer: str, message: Message, now: float) -> list[Outgoing]:
        """A message."""


def bare(node: Node, _rng: Random) -> Member:
    """Gossip alone."""
    return node


@dataclass(frozen=True)
class Faults:
    """What the network does to a message; all probabilities are per message."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """To be held back by up to `late_s`."""
    late_s: float = 1.0
    delay_s: tuple[float, float] = (0.0002, 0.001)
    cut: frozenset[tuple[str, str]] = frozenset()
    """(from, to) that nothing passes."""
    side: dict[str, int] = field(default_factory=dict)
    """Members on different sides of a partition hear nothing of each other."""

    def passes(self, source: str, target: str) -> bool:
        """Whether the network connects two members in this direction."""
        if (source, target) in self.cut:
            return False
        return self.side.get(source, 0) == self.side.get(target, 0)


@dataclass
class Host:
    """A member in the world."""

    node: Node
    member: Member
    offset: float = 0.0
    """What its clock shows beside the world's."""
    slow_s: float = 0.0
    """Everything that it does is late by up to this."""
    sent: int = 0
    """Bytes."""
    messages: int = 0
    rounds: int = 0
    seconds: float = 0.0
    """Of CPU in its core, where the world is timed."""
    dialect: Dialect | None = None
    life: int = 0
    """Ticks of an earlier life find that it is over."""
    alive: bool = True
    ticked: float = 0.0
    """When its last round was, and when the next one is."""
    due: float = -1.0


class World:
    """Members and the network between them.  One seed, one history."""

    def __init__(
        self,
        seed: int,
        settings: Settings | None = None,
        *,
        wire: bool = True,
        timed: bool = False,
        make: Callable[[Node, Random], Member] = bare,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self.now = 0.0
        self.faults = Faults()
        self.hosts: dict[str, Host] = {}
        self.intake = RecordChecker(SimulatedVerifier(), cached=8192)
        self.rng = Random(seed)
        self.on_deliver: Deliver | None = None
        self._wire = wire
        self._timed = timed
        self._make = make
        self._queue: list[tuple[float, int, str, str, object]] = []
        self._count = 0

    def add(
        self, name: str, signer: Signer | None = None, intake: RecordChecker | None = None
    ) -> Node:
        """A new member, or a new life of one, that knows nobody; `signer` and `intake`: with keys
        of its own."""
        before = self.hosts.get(name)
        node = Node(
            name,
            f"{name}:1",
            signer=signer or SimulatedSigner(name),
            checker=intake or self.intake,
            rng=Random(self.rng.getrandbits(64)),
            settings=self.settings,
            on_pending=lambda: self._arrange(name),
        )
        host = Host(node, self._make(node, Random(self.rng.getrandbits(64))))
        host.life = before.life + 1 if before else 0
        self.hosts[name] = host
        host.ticked = self.now - self.rng.uniform(0, self.settings.round_s)
        self._arrange(name)
        return node

    def crash(self, name: str) -> None:
        """A member is gone, with all that it knew."""
        self.hosts[name].life += 1
        self.hosts[name].alive = False

    def settle(self) -> None:
        """Everybody knows everything that anybody has said."""
        for host in self.hosts.values():
            host.node.begin()
        store = Store(self.settings)
        for host in self.hosts.values():
            for held in host.node.store.of(host.node.name).values():
                store.put(held, 0.0)
        for host in self.hosts.values():
            host.node.adopt(store)

    def disturb(self, **changes: object) -> None:
        """Change what the network does."""
        self.faults = replace(self.faults, **changes)  # type: ignore[arg-type]

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            self.now, _, name, source, what = heapq.heappop(self._queue)
            host = self.hosts[name]
            if isinstance(what, int):
                if what == host.life and self.now == host.due:
                    self._tick(host)
            else:
                self._deliver(host, source, what)
        self.now = until

    def send(self, source: str, outgoing: list[Outgoing]) -> None:
        """Put messages on the network."""
        host = self.hosts[source]
        for one in outgoing:
            data = codec.encode(one.payload)
            if host.dialect is not None:
                data = host.dialect(data)
            host.sent += len(data) + FRAME
            host.messages += 1
            target = self.hosts.get(one.peer)
            if target is not None and target.alive and self.faults.passes(source, one.peer):
                self._transmit(source, one, data, host.slow_s + target.slow_s)

    def _transmit(self, source: str, one: Outgoing, data: bytes, slow_s: float) -> None:
        faults, random = self.faults, self.rng.random
        if faults.loss and random() < faults.loss:
            return
        copies = 2 if faults.duplicate and random() < faults.duplicate else 1
        for _ in range(copies):
            delay = self.rng.uniform(*faults.delay_s) + slow_s * random()
            if faults.reorder and random() < faults.reorder:
                delay += faults.late_s * random()
            what = data if self._wire else one.payload
            self._push(self.now + delay, one.peer, source, what)

    def _tick(self, host: Host) -> None:
        late = host.slow_s * self.rng.random() if host.slow_s else 0.0
        host.ticked, host.due = self.now + late, -1.0
        host.rounds += 1
        began_s = self._cpu_s()
        outgoing = host.member.tick(self.now + host.offset)
        host.seconds += self._cpu_s() - began_s
        self.send(host.node.name, outgoing)
        self._arrange(host.node.name)

    def _arrange(self, name: str) -> None:
        """The next round, when it may be due at another time than it was."""
        host = self.hosts.get(name)
        if host is not None and host.alive:
            began_s = self._cpu_s()
            due = max(self.now, host.ticked + host.member.rest_s())
            host.seconds += self._cpu_s() - began_s
            if due != host.due:
                host.due = due
                self._push(due, name, "", host.life)

    def _deliver(self, host: Host, source: str, what: object) -> None:
        if not host.alive or not self.faults.passes(source, host.node.name):
            return
        began_s = self._cpu_s()
        data = what if isinstance(what, bytes) else b""
        message = codec.decode(data) if data else what
        assert isinstance(message, Message)
        outgoing = host.member.receive(source, message, self.now + host.offset)
        host.seconds += self._cpu_s() - began_s
        if self.on_deliver is not None:
            self.on_deliver(host.node.name, message, data)
        self.send(host.node.name, outgoing)
        self._arrange(host.node.name)

    def _cpu_s(self) -> float:
        return time.thread_time() if self._timed else 0.0

    def _push(self, at: float, name: str, source: str, what: object) -> None:
        self._count += 1
        heapq.heappush(self._queue, (at, self._count, name, source, what))
