"""The exchange under loss, repetition, delay, death and both ends at once.

A model of two hosts: what agents say goes through a network that loses, repeats and delays;
what flows send goes through the two kernels' tables.  Two things must hold at every moment:
no packet reaches a socket that is not its own, and none arrives whose translation is gone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
)  # fmt: skip
from hostcc.paths.steering_protocol import Receiver, Sender

pytestmark = pytest.mark.unit

TIMING = Timing(retry_s=0.2, tries=4, renew_s=4.0, lease_s=12.0, drain_s=1.0, quarantine_s=2.0,
                keep_s=50.0)  # fmt: skip
STALE_S = 3.0
STEP_S = 0.1
ADDRESS = {"A": "198.18.0.2", "B": "198.18.1.2"}
OTHER = {"A": "B", "B": "A"}
FLOWS = [
    *(FlowKey(ADDRESS["A"], ADDRESS["B"], 1000 + n, 80) for n in range(3)),
    *(FlowKey(ADDRESS["B"], ADDRESS["A"], 80, 1000 + n) for n in range(2)),
]
PORTS = [50000, 50001, 50002]


def side(flow: FlowKey) -> str:
    return "A" if flow.src == ADDRESS["A"] else "B"


@dataclass
class Host:
    """One host: an agent that may be dead, and a kernel that goes on."""

    name: str
    stamp: int = 0
    alive: bool = True
    beat_s: float = 0.0
    out: dict[FlowKey, int] = field(default_factory=dict)
    guards: dict[FlowKey, int] = field(default_factory=dict)
    arriving: dict[FlowKey, tuple[int, int]] = field(default_factory=dict)
    used_s: dict[FlowKey, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start(0.0)

    def start(self, now: float) -> list[Effect]:
        self.alive, self.beat_s = True, now
        self.stamp += 1 << 32
        self.sender = Sender(max(0, self.stamp), lambda _: OTHER[self.name], TIMING)
        peer = ADDRESS[OTHER[self.name]]
        self.receiver = Receiver(lambda _, flow: flow.src == peer, lambda _: False, TIMING)
        self.receiver.recover((w, port, stamp) for w, (port, stamp) in self.arriving.items())
        return self.sender.recover(list(self.out), list(self.guards.items()), now)


class World:
    def __init__(self, seed: int, loss: float, repeat: float) -> None:
        self.draw = random.Random(seed)
        self.loss, self.repeat = loss, repeat
        self.now = 0.0
        self.hosts = {name: Host(name) for name in ADDRESS}
        self.mail: list[tuple[float, str, str, Message]] = []
        self.flying: list[tuple[float, FlowKey, int]] = []
        self.quiet: set[FlowKey] = set()
        self.packets = self.rewritten = 0

    def do(self, host: Host, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    assert (
                        msgspec.msgpack.decode(
                            msgspec.msgpack.encode(message),
                            type=Message,
                        )
                        == message
                    )
                    self.post(host.name, to, message)
                case Rewrite(flow, port):
                    host.guards[flow.on_wire(port)] = flow.sport
                    host.out[flow] = port
                case Plain(flow):
                    host.out.pop(flow, None)
                case Unguard(wire):
                    assert host.out.get(FlowKey(wire.src, wire.dst, host.guards.get(wire, 0),
                                                wire.dport)) != wire.sport  # fmt: skip
                    host.guards.pop(wire, None)
                case Accept(wire, port, stamp):
                    assert host.arriving.get(wire, (port,))[0] == port, "handed to another flow"
                    host.arriving[wire] = (port, stamp)
                    host.used_s[wire] = self.now
                case Forget(wire):
                    host.arriving.pop(wire, None)

    def post(self, sender: str, to: str, message: Message) -> None:
        if self.draw.random() >= self.loss:
            self.mail.append((self.now + self.draw.uniform(0.0, 0.5), sender, to, message))
        if self.draw.random() < self.repeat:
            self.mail.append((self.now + self.draw.uniform(0.0, 30.0), sender, to, message))

    def step(self) -> None:
        self.now = round(self.now + STEP_S, 6)
        self._packets()
        due = [mail for mail in self.mail if mail[0] <= self.now]
        self.mail = [mail for mail in self.mail if mail[0] > self.now]
        for _, sender, to, message in due:
            host = self.hosts[to]
            if host.alive:
                self.do(host, host.sender.heard(sender, message, self.now))
                self.do(host, host.receiver.heard(sender, message))
        for host in self.hosts.values():
            for wire in [w for w in host.arriving if self._idle(host, w) > TIMING.keep_s]:
                del host.arriving[wire]
            if host.alive:
                host.beat_s = self.now
                self.do(host, host.sender.tick(self.now))
                idle = {wire: self._idle(host, wire) for wire in host.arriving}
                self.do(host, host.receiver.tick(idle))

    def _idle(self, host: Host, wire: FlowKey) -> float:
        return self.now - host.used_s[wire]

    def _packets(self) -> None:
        for flow in FLOWS:
            if flow in self.quiet:
                continue
            host = self.hosts[side(flow)]
            rewrites = self.now - host.beat_s < STALE_S
            port = host.out.get(flow, 0) if rewrites else 0
            late = self.now + self.draw.uniform(0.0, TIMING.drain_s * 0.8)
            self.flying.append((late, flow, port))
        landed = [packet for packet in self.flying if packet[0] <= self.now]
        self.flying = [packet for packet in self.flying if packet[0] > self.now]
        for _, flow, port in landed:
            self.packets += 1
            if not port:
                continue
            self.rewritten += 1
            kernel = self.hosts[OTHER[side(flow)]]
            wire = flow.on_wire(port)
            assert wire in kernel.arriving, f"{self.now}: {flow} on {port} is not understood"
            assert kernel.arriving[wire][0] == flow.sport, f"{flow} reached another socket"
            kernel.used_s[wire] = self.now

    def set_back(self, host: Host) -> None:
        """The clock of a dead agent's host, by some lives; what it had said is gone with it."""
        if not host.alive and not self.repeat:
            host.stamp -= 3 << 32
            self.mail = [mail for mail in self.mail if mail[1] != host.name]

    def settle(self, seconds: float) -> None:
        self.loss = self.repeat = 0.0
        for host in self.hosts.values():
            if not host.alive:
                self.do(host, host.start(self.now))
        for _ in range(round(seconds / STEP_S)):
            self.step()


actions = st.one_of(
    st.tuples(st.just("move"), st.integers(0, len(FLOWS) - 1), st.integers(0, len(PORTS) - 1)),
    st.tuples(st.just("revert"), st.integers(0, len(FLOWS) - 1), st.just(0)),
    st.tuples(st.just("kill"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("start"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("quiet"), st.integers(0, len(FLOWS) - 1), st.just(0)),
    st.tuples(st.just("talk"), st.integers(0, len(FLOWS) - 1), st.just(0)),
    st.tuples(st.just("back"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("gone"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from([1, 3, 10, 40, 130]), st.just(0)),
)


def act(world: World, action: tuple[str, int, int]) -> None:
    name, first, second = action
    flow = FLOWS[first % len(FLOWS)]
    host = world.hosts["AB"[first % 2]]
    mine = world.hosts[side(flow)]
    match name:
        case "move" if mine.alive:
            effects = mine.sender.move(flow, OTHER[mine.name], PORTS[second], world.now)
            world.do(mine, effects)
        case "revert" if mine.alive:
            world.do(mine, mine.sender.revert(flow, world.now))
        case "kill":
            host.alive = False
        case "start" if not host.alive:
            world.do(host, host.start(world.now))
        case "quiet" | "talk":
            (world.quiet.add if name == "quiet" else world.quiet.discard)(flow)
        case "back":
            world.set_back(host)
        case "gone" if host.alive:
            world.do(host, host.sender.peer_gone(OTHER[host.name], world.now))
        case "wait":
            for _ in range(first):
                world.step()


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 0.2, 0.6]),
    repeat=st.sampled_from([0.0, 0.3]),
    script=st.lists(actions, max_size=40),
)
def test_no_packet_is_lost_or_reaches_a_stranger(
    seed: int, loss: float, repeat: float, script: list[tuple[str, int, int]]
) -> None:
    world = World(seed, loss, repeat)
    for action in script:
        act(world, action)
        world.step()
    world.settle(40.0)
    for host in world.hosts.values():
        peer = world.hosts[OTHER[host.name]]
        for flow in FLOWS:
            if side(flow) == host.name:
                assert not host.sender.moving(flow)
                assert host.out.get(flow, 0) == host.sender.active(flow)
        active = {flow.on_wire(port) for flow, port in host.out.items()}
        assert active <= set(peer.arriving)
        assert set(host.guards) >= active
    world.quiet = set(FLOWS)
    world.settle(TIMING.keep_s + 10)  # what was left by the dead goes by itself
    for host in world.hosts.values():
        active = {flow.on_wire(port) for flow, port in host.out.items()}
        assert set(world.hosts[OTHER[host.name]].arriving) == active


def test_the_plain_course() -> None:
    world = World(1, 0.0, 0.0)
    flow = FLOWS[0]
    act(world, ("move", 0, 0))
    assert world.hosts["A"].sender.moving(flow)
    for _ in range(20):
        world.step()
    assert world.hosts["A"].out == {flow: PORTS[0]}
    act(world, ("move", 0, 1))
    for _ in range(60):
        world.step()
    assert world.hosts["A"].out == {flow: PORTS[1]}
    assert set(world.hosts["B"].arriving) == {flow.on_wire(PORTS[1])}
    assert set(world.hosts["A"].guards) == {flow.on_wire(PORTS[1])}
    act(world, ("revert", 0, 0))
    assert world.hosts["A"].out == {}
    world.settle(10.0)
    assert world.hosts["B"].arriving == {}
    assert world.hosts["A"].guards == {}
    assert world.rewritten > 50


@pytest.mark.parametrize("lives", [0, 3])
def test_a_clock_set_back_neither_keeps_flows_from_moving_nor_leaves_anything(lives: int) -> None:
    world = World(1, 0.0, 0.0)
    host, flow = world.hosts["A"], FLOWS[0]
    host.stamp += 10 << 32
    world.do(host, host.start(0.0))
    act(world, ("move", 0, 0))
    act(world, ("wait", 10, 0))
    assert host.out == {flow: PORTS[0]}
    act(world, ("kill", 0, 0))
    host.stamp -= lives << 32
    act(world, ("start", 0, 0))
    act(world, ("wait", 80, 0))
    assert host.guards == {}
    assert world.hosts["B"].arriving == {}
    act(world, ("move", 0, 1))
    act(world, ("wait", 10, 0))
    act(world, ("kill", 0, 0))
    host.stamp -= lives << 32
    act(world, ("start", 0, 0))
    act(world, ("move", 0, 1))  # the same port, before it was released
    act(world, ("wait", 10, 0))
    assert host.out == {flow: PORTS[1]}


def test_a_release_is_asked_for_until_it_is_answered() -> None:
    """The peer is paused for longer than Prepare is repeated, and unknown at first."""
    names: dict[str, str] = {}
    sender = Sender(0, lambda address: names.get(address, ""), TIMING)
    wire = FLOWS[0].on_wire(50000)
    assert sender.recover([], [(wire, FLOWS[0].sport)], 0.0) == []
    said: list[Effect] = []
    for now in range(20):
        said += sender.tick(float(now))
    assert said == []
    names[FLOWS[0].dst] = "B"
    for now in range(20, 40):
        said += sender.tick(float(now))
    assert len(said) > TIMING.tries
    assert sender.heard("A", ReleaseDone(1), 40.0) == []  # not the one that was asked
    assert sender.heard("B", ReleaseDone(1), 40.0) == []
    assert sender.tick(40.0 + TIMING.quarantine_s) == [Unguard(wire)]


def test_nobody_drives_stamps_to_their_end() -> None:
    sender = Sender(0, lambda _: "B", TIMING)
    sender.move(FLOWS[0], "B", 50000, 0.0)
    sender.heard("A", StaleStamp(1, 1 << 60), 0.1)  # not the one that was asked
    (again,) = sender.tick(0.3)
    assert again == Send("B", Prepare(1, FLOWS[0], 50000))
    sender.heard("B", StaleStamp(1, 0), 0.4)  # it is not
    sender.heard("B", StaleStamp(1, 1 << 61), 0.4)
    (again,) = sender.tick(0.4)
    assert again == Send("B", Prepare((1 << 61) + 1, FLOWS[0], 50000))
    raw = msgspec.msgpack.encode(StaleStamp(1, (1 << 61) + 1))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(raw, type=Message)


def test_one_port_is_not_given_to_two_flows() -> None:
    sender = Sender(0, lambda _: "B", TIMING)
    one, two = FLOWS[0], FLOWS[1]
    sender.move(one, "B", 50000, 0.0)
    assert not sender.free(two, 50000)
    assert sender.move(two, "B", 50000, 0.0) == []
    assert "taken" in sender.refusals[two]
    sender.revert(one, 1.0)
    assert not sender.free(two, 50000)
    assert sender.free(one, 50000)


def test_an_idle_active_flow_is_renewed_and_a_silent_peer_ends_it() -> None:
    world = World(1, 0.0, 0.0)
    act(world, ("move", 0, 0))
    world.quiet = set(FLOWS)
    world.settle(3 * TIMING.keep_s)
    assert world.hosts["A"].out == {FLOWS[0]: PORTS[0]}
    assert set(world.hosts["B"].arriving) == {FLOWS[0].on_wire(PORTS[0])}
    act(world, ("kill", 1, 0))
    for _ in range(round(2 * TIMING.lease_s / STEP_S)):
        world.step()
    assert world.hosts["A"].out == {}
    assert "does not answer" in world.hosts["A"].sender.refusals[FLOWS[0]]


def test_what_the_kernel_stopped_is_reverted() -> None:
    sender = Sender(0, lambda _: "B", TIMING)
    sender.move(FLOWS[0], "B", 50000, 0.0)
    (rewrite,) = sender.heard("B", Ready(1), 0.1)
    assert rewrite == Rewrite(FLOWS[0], 50000)
    effects = sender.broken(FLOWS[0], Broken.RESET, 1.0)
    assert Plain(FLOWS[0]) in effects
    assert "reset" in sender.refusals[FLOWS[0]]


def receiver(in_use: bool = False, allowed: bool = True) -> Receiver:
    return Receiver(lambda *_: allowed, lambda _: in_use, TIMING)


def test_one_peer_does_not_take_all_translations() -> None:
    at = receiver()

    def asks(peer: str, address: str, port: int) -> Effect:
        flow = FlowKey(address, ADDRESS["B"], port, 80)
        return at.heard(peer, Prepare(1, flow, PORTS[0]))[-1]

    full = Send("A", Refusal(1, "too many flows"))
    for n in range(MAX_PEER_FLOWS):
        assert asks("A", f"198.18.{4 + n // 256}.{n % 256}", 1000) == Send("A", Ready(1))
    assert asks("A", ADDRESS["A"], 1000) == full
    assert asks("C", ADDRESS["A"], 1000) == Send("C", Ready(1)), "there is room for others"
    at.recover((FlowKey(ADDRESS["A"], ADDRESS["B"], 1 + n, 80), 9, 1) for n in range(MAX_FLOWS))
    assert asks("C", "198.18.9.9", 1000) == Send("C", Refusal(1, "too many flows"))


def reply(effects: list[Effect]) -> Message:
    assert isinstance(effects[-1], Send)
    return effects[-1].message


def test_refusals() -> None:
    flow = FLOWS[0]
    ask = Prepare(5, flow, 50000)
    assert isinstance(reply(receiver(allowed=False).heard("A", ask)), Refusal)
    assert isinstance(reply(receiver(in_use=True).heard("A", ask)), Refusal)
    taken = receiver()
    assert reply(taken.heard("A", ask)) == Ready(5)
    assert isinstance(reply(taken.heard("A", Prepare(6, FLOWS[1], 50000))), Refusal)
    assert reply(taken.heard("A", Prepare(4, flow, 50000))) == StaleStamp(4, 5)
    assert reply(taken.heard("A", ask)) == Ready(5)  # repeated
    assert reply(taken.heard("A", Release(4, flow.on_wire(50000)))) == StaleStamp(4, 5)
    assert taken.tick({flow.on_wire(50000): 99.0}) == []
    taken.heard("A", Release(7, flow.on_wire(50000)))
    assert taken.tick({flow.on_wire(50000): 0.1}) == []  # still in use
    effects = taken.tick({flow.on_wire(50000): 5.0})
    assert effects == [Forget(flow.on_wire(50000)), Send("A", ReleaseDone(7))]
    assert receiver(allowed=False).heard("A", Release(7, flow.on_wire(50000))) == []


@given(st.binary(max_size=100))
def test_messages_of_strangers(data: bytes) -> None:
    try:
        message = msgspec.msgpack.decode(data, type=Message)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    receiver().heard("A", message)
    Sender(0, lambda _: "B", TIMING).heard("A", message, 0.0)


@pytest.mark.parametrize("seed", range(12))
def test_flows_that_move_all_the_time(seed: int) -> None:
    """Again and again, before the last move is over, with deaths in between."""
    world = World(seed, loss=0.1, repeat=0.3)
    draw = random.Random(seed)
    for _ in range(60):
        act(world, ("move", draw.randrange(2), draw.randrange(len(PORTS))))
        for _ in range(draw.choice([1, 5, 12, 25])):
            world.step()
        if draw.random() < 0.1:
            victim = draw.randrange(2)
            act(world, ("kill", victim, 0))
            for _ in range(draw.choice([2, 20, 45])):
                world.step()
            act(world, ("start", victim, 0))
    assert world.rewritten > 100
