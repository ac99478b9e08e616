"""One seed of simulation testing: members, faults, a liar; invariants are checked throughout.

Everything is drawn from the seed, so a failing seed fails again in the same way.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from functools import partial
from random import Random

import msgspec
import numpy as np

from benchmarks.gossip_world import Faults, Host, Member, World
from hostcc.coord.core import codec
from hostcc.coord.core.coordinator import Coordinator
from hostcc.coord.core.message import PROTOCOL, Message, Outgoing, Record
from hostcc.coord.core.node import Node
from hostcc.coord.core.payloads import (
    ACCUSE,
    FLOWS,
    LINKS,
    PATHS,
    PROFILE,
    Accusation,
    FlowEntry,
    Flows,
    Links,
    PathEntry,
    Paths,
    Profile,
)
from hostcc.coord.core.record_checker import CheckedRecord
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.signing import SimulatedSigner, SimulatedVerifier
from hostcc.coord.core.store import Store
from hostcc.model import ClusterView, Plan
from hostcc.schedule import coupling
from hostcc.schedule.plan import Options, plan
from hostcc.schedule.problem import Problem, build

SETTINGS = Settings(
    sync_s=1.0,
    suspect_s=1.0,
    forget_s=120.0,
    tombstone_s=5.0,
    rejoin_s=3.0,
    agree_s=2.0,
    quarantine_s=5.0,
)
"""Shorter than the defaults, so that a minute shows everything."""
BOUND_S = 60.0
"""Within which views are equal after the faults have stopped: 300 rounds."""
DEAD_S = 30.0
"""For longer no live member that can be reached is taken for dead."""
FAULTY_S = (15.0, 40.0)
LOOK_S = 0.5
OPTIONS = Options(simulations=0)
JOBS = 3
REFUSALS = frozenset({"offender", "refused", "name"})


@dataclass
class Outcome:
    """What one seed showed."""

    seed: int
    hosts: int
    settled_s: float | None = None
    """From the end of the faults until all views were equal and agreed upon."""
    activations: int = 0
    refusals: int = 0
    """Events about what was refused, and from whom."""
    liar: bool = False
    """Whether one member said false things."""
    protocol: int = PROTOCOL
    """Of one of the members; the others' is this code's."""
    violations: list[str] = field(default_factory=list)
    trace: str = ""
    """Hash of every message that was delivered: the same in every run of a seed."""


class History:
    """A world with a script."""

    def __init__(self, seed: int) -> None:
        self._rng = rng = Random(seed)
        self._world = World(rng.getrandbits(64), SETTINGS, make=self._member)
        self._problems: dict[tuple[str, str], bytes] = {}
        self._seen: dict[tuple[str, int, str, str, str], list[CheckedRecord]] = {}
        self._dead_since: dict[tuple[str, str], float] = {}
        self._trace = hashlib.blake2b(digest_size=8)
        self._names = [f"h{index}" for index in range(rng.randint(3, 10))]
        self._liar = rng.choice(self._names) if rng.random() < 0.5 else ""
        self._kept: list[Record] = []
        self._away: dict[str, float] = {}
        protocol = rng.choice((PROTOCOL - 1, PROTOCOL, PROTOCOL, PROTOCOL + 1))
        self.outcome = Outcome(seed, len(self._names), liar=bool(self._liar), protocol=protocol)

    def play(self) -> Outcome:
        """Faults for a while, then none."""
        world, rng = self._world, self._rng
        world.on_deliver = self._delivered
        for name in self._names:
            self._start(name)
        until = world.now + rng.uniform(*FAULTY_S)
        while world.now < until:
            world.run(LOOK_S)
            self._check_dead()
            self._check_sizes()
            self._return()
            if rng.random() < 0.5:
                self._mischief()
            self._lie()
        self._stop()
        stopped = world.now
        while world.now < stopped + BOUND_S:
            world.run(LOOK_S)
            self._check_dead()
            if self._settled():
                self.outcome.settled_s = world.now - stopped
                break
        else:
            self._violation("views: expected equal ones")
        self._finish()
        return self.outcome

    # What happens.

    def _start(self, name: str) -> None:
        node = self._world.add(name)
        for other in self._names[:3]:
            node.add_contact(other)
        if name == self._names[-1] and self.outcome.protocol != PROTOCOL:
            self._world.hosts[name].dialect = partial(speak, self.outcome.protocol)
            node.publish("weather", "", Links(()))
        self._work(node)

    def _member(self, node: Node, rng: Random) -> Member:
        return Coordinator(node, self._plan, f"test {OPTIONS}", rng)

    def _work(self, node: Node) -> None:
        """Measurements of a job, its flows and paths: of a ring over those that run it."""
        rng, index = self._rng, self._names.index(node.name)
        job = rng.randrange(JOBS)
        ring = self._names[job % 2 :: 2]
        after = ring[(ring.index(node.name) + 1) % len(ring)] if node.name in ring else ring[0]
        work = float(rng.randint(1, 50)) * 1e12
        node.publish(PROFILE, f"job{job}", Profile(1.0, 0.5, work, 8, to=((after, 1e9),)))
        node.publish(FLOWS, f"job{job}", Flows((FlowEntry("f", after, 1e9),)))
        ways = tuple(
            PathEntry(f"p{spine}", (f"t{index}-s{spine}", f"s{spine}-{after}")) for spine in (0, 1)
        )
        node.publish(PATHS, after, Paths(ways))
        links = {link for way in ways for link in way.links}
        node.publish(LINKS, "", Links(tuple((link, 1.25e9) for link in sorted(links))))

    def _mischief(self) -> None:
        """One thing goes wrong, or right again."""
        rng = self._rng
        host = self._world.hosts[rng.choice(self._names)]
        what = rng.randrange(10)
        if what < 6:
            self._disturb(what, host.node.name)
        elif what == 6:
            self._crash(host.node.name)
        elif what == 7:
            host.offset += rng.uniform(-600, 600)
        elif what == 8:
            host.slow_s = rng.choice((0.0, 1.0, 4.0))
        elif host.alive:
            self._change(host.node)

    def _disturb(self, what: int, name: str) -> None:
        rng, names = self._rng, self._names
        changes: dict[str, object] = {}
        if what == 0:
            changes["loss"] = rng.choice((0.0, 0.2, 0.5))
        elif what == 1:
            changes.update(duplicate=rng.random() / 2, reorder=rng.random() / 2)
        elif what == 2:
            changes["delay_s"] = (0.0, rng.choice((0.001, 0.05, 1.0)))
        elif what == 3:
            changes["side"] = {other: rng.randrange(2) for other in names}
        elif what == 4:
            changes["side"] = {}
        else:
            pairs = frozenset((name, other) for other in rng.sample(names, 2))
            changes["cut"] = frozenset() if rng.random() < 0.5 else pairs
        self._world.disturb(**changes)

    def _change(self, node: Node) -> None:
        if self._rng.random() < 0.5:
            return self._work(node)
        mine = [slot for slot in node.store.of(node.name) if slot[0] in (PROFILE, FLOWS, PATHS)]
        if mine:
            node.withdraw(*self._rng.choice(mine))
        return None

    def _crash(self, name: str) -> None:
        if len(self._away) + 2 < len(self._names) and name not in self._away:
            self._world.crash(name)
            self._away[name] = self._world.now + self._rng.uniform(0.5, 20)

    def _return(self, *, most: float | None = None) -> None:
        for name, due in list(self._away.items()):
            if due <= (self._world.now if most is None else most):
                del self._away[name]
                self._start(name)

    def _stop(self) -> None:
        """No more faults; some hosts stay away for ever."""
        self._world.faults = Faults()
        for host in self._world.hosts.values():
            host.slow_s = 0.0
        self._return(most=self._world.now + 10)

    def _lie(self) -> None:
        """A member with a valid key says things about others' records, and nonsense."""
        host = self._world.hosts.get(self._liar)
        if host is None or not host.alive or self._rng.random() < 0.5:
            return
        rng, node = self._rng, host.node
        victim = rng.choice(self._names)
        held = rng.choice(list(node.store.of(victim).values()) or [None])
        if held is None or victim == node.name:
            return
        self._kept.append(held.record)
        what = rng.randrange(6)
        if what == 0:
            known = node.store.incarnation(victim)
            if known >= 0:  # of a member whose own record has expired, others may be left
                node.publish(ACCUSE, victim, Accusation(known))
            return
        record = rng.choice(self._kept) if what == 1 else self._forged(held.record)
        peers = rng.sample(self._names, min(3, len(self._names)))
        forged = Message(PROTOCOL, records=(record,), entries=rng.randbytes(24))
        self._world.send(node.name, [Outgoing(peer, forged) for peer in peers])

    def _forged(self, record: Record) -> Record:
        rng, change = self._rng, msgspec.structs.replace
        newer = change(record, version=record.version + rng.randint(1, 1000))
        what = rng.randrange(4)
        if what == 0:
            return newer
        if what == 1:
            return change(record, payload=record.payload[:-1] + b"\x01")
        if what == 2:
            far = change(newer, incarnation=2**32 - 1)
            return change(far, signature=SimulatedSigner(self._liar).sign(codec.signed_bytes(far)))
        return change(record, kind="member" if record.kind != "member" else "links")

    # What must hold.

    def _violation(self, text: str) -> None:
        if len(self.outcome.violations) < 10:
            self.outcome.violations.append(f"{self._world.now:.1f} s: {text}")

    def _delivered(self, name: str, message: Message, data: bytes) -> None:
        self._trace.update(data + name.encode())
        host = self._world.hosts[name]
        for record in message.records:
            held = host.node.store.get(record.writer, (record.kind, record.key))
            if held is None:
                continue
            seen = self._seen.setdefault((name, host.life, record.writer, *_slot(record)), [])
            if seen and held.order == seen[-1].order:
                continue
            if seen and _older(host.node.store, held, seen):
                self._violation(f"{name}: a record of {record.writer} was replaced by an older one")
            seen.append(held)
            signed = codec.signed_bytes(held.record)
            if not SimulatedVerifier().verify(record.writer, signed, held.record.signature):
                self._violation(f"{name}: a record of {record.writer} is not its own")

    def _plan(self, view: ClusterView) -> Plan:
        """A job's plan is a function of its component: two hosts with one digest must have one
        problem for it.  Plans themselves are made and compared at the end, for their cost."""
        for part in coupling.components(build(view)):
            problem = _bytes(part.problem)
            for job in part.problem.job_ids:
                if self._problems.setdefault((view.digest, job), problem) != problem:
                    self._violation(f"digest {view.digest}: expected one problem, got two")
                    break
        return Plan(view.digest)

    def _check_plans(self) -> None:
        hosts = self._live()
        first, last = (_coordinator(host).snapshot.view for host in (hosts[0], hosts[-1]))
        if first.digest == last.digest and plan(first, OPTIONS) != plan(last, OPTIONS):
            self._violation(f"digest {first.digest}: expected one plan, got two")

    def _check_dead(self) -> None:
        """No live member that can be reached both ways is taken for dead for long."""
        world = self._world
        for observer in self._live():
            for subject in self._live():
                pair = (observer.node.name, subject.node.name)
                dead = observer.node.members.is_dead(pair[1])
                fit = not (observer.slow_s or subject.slow_s or world.faults.loss > 0.2)
                open_ = world.faults.passes(*pair) and world.faults.passes(*pair[::-1])
                if not (dead and open_ and fit):
                    self._dead_since.pop(pair, None)
                elif world.now - self._dead_since.setdefault(pair, world.now) > DEAD_S:
                    self._violation(f"{pair[0]}: expected {pair[1]} to live again")

    def _check_sizes(self) -> None:
        for host in self._live():
            for what, count, most in host.node.sizes():
                if count > most:
                    self._violation(f"{host.node.name}: {what}: expected at most {most}: {count}")

    def _live(self) -> list[Host]:
        return [host for host in self._world.hosts.values() if host.alive]

    def _settled(self) -> bool:
        live = self._live()
        names = {host.node.name for host in live}
        stores, views, plans = set(), set(), set()
        for host in live:
            state, view = _coordinator(host).state, _coordinator(host).snapshot.view
            stores.add(host.node.store.root())
            views.add(view.digest)
            plans.add(state.active if state.agreed else "")
            if set(view.members) != names:
                return False
        return len(stores) == len(views) == 1 and plans == views

    def _finish(self) -> None:
        """Nothing is left over once everything is told and forgotten."""
        self._world.run(1.5 * SETTINGS.tombstone_s)
        self._check_sizes()
        self._check_plans()
        for host in self._live():
            self.outcome.activations += len(_coordinator(host).activations)
            events = host.node.take_events()
            self.outcome.refusals += sum(event.what in REFUSALS for event in events)
        self.outcome.trace = self._trace.hexdigest()


def speak(protocol: int, data: bytes) -> bytes:
    """A message as a member of another version would say it: with its number, and, if that is
    newer, with a section and fields of records that are unknown here."""
    fields = msgspec.msgpack.decode(data)
    fields["v"] = protocol
    if protocol > PROTOCOL:
        fields["unknown"] = [1, {"x": b"y"}]
        fields["r"] = [[*record, b"more"] for record in fields.get("r", ())]
    return msgspec.msgpack.encode(fields)


def _slot(record: Record) -> tuple[str, str]:
    return record.kind, record.key


def _older(store: Store, held: CheckedRecord, seen: list[CheckedRecord]) -> bool:
    """Whether what is held now was replaced before, or is older than what was held last.

    An accusation that was refuted has ended; another one of a writer that has lost its memory
    may be of a smaller number.
    """
    last = seen[-1]
    if any(held.order == before.order for before in seen[:-1]):
        return True
    ended = isinstance(last.content, Accusation) and last.content.incarnation < store.incarnation(
        last.record.key
    )
    return held.order < last.order and not ended


def _coordinator(host: Host) -> Coordinator:
    assert isinstance(host.member, Coordinator)
    return host.member


def _bytes(problem: Problem) -> bytes:
    """Everything in a problem."""
    values = (getattr(problem, field.name) for field in fields(problem))
    return b"".join(
        value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        for value in values
    )


def play(seed: int) -> Outcome:
    """One seed."""
    return History(seed).play()
