"""Runs a gossip member: the core on a transport, in the host's asyncio loop."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hostcc.answers.gossip import GossipStatus, PeerStatus
from hostcc.coord.core import codec
from hostcc.coord.core.coordinator import Coordinator, Executor, ImmediatePlan, Planner
from hostcc.coord.core.membership import State
from hostcc.coord.core.message import Message, Outgoing
from hostcc.coord.core.node import Node
from hostcc.coord.core.notes import Notes
from hostcc.coord.core.peer_clock import ClockOffset, PeerClock
from hostcc.coord.core.record_checker import RecordChecker
from hostcc.coord.core.settings import Settings
from hostcc.coord.keys.certificates import CertificateError
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.keys.no_keys import NoKeys
from hostcc.coord.net.address import Address, parse_numeric
from hostcc.coord.net.carrier import CarrierFactory
from hostcc.coord.net.certificate_records import CertificateRecords
from hostcc.coord.net.seeds import Seeds, advertised
from hostcc.coord.net.transport import Transport
from hostcc.coord.net.transport_settings import TransportSettings
from hostcc.coord.net.troubles import Troubles
from hostcc.errors import HostccError
from hostcc.log import get_logger

log = get_logger("gossip")

DEFAULT_PORT = 7471
MAX_PINGS = 256
"""Pings remembered until their answer arrives, to measure round trips."""
MAX_PEERS = 20_000
NEWS = frozenset({"activation", "return"})
"""Events that are logged as information, not as warnings."""
RTT_GAIN = 0.2
"""Weight of a new round trip in the moving average."""


@dataclass(frozen=True)
class ServiceSettings:
    """How one host takes part in the gossip."""

    name: str
    listen: Address
    keys: Path | None = None
    """Directory of the host's keys; None: run without keys."""
    insecure: bool = False
    """Without keys, listen on addresses that other hosts can reach."""
    seeds: tuple[tuple[str, Address], ...] = ()
    """Members to contact first: (name, address)."""
    dns_seeds: tuple[Address, ...] = ()
    """DNS names of members that are known by their certificates."""
    advertise: str = ""
    """HOST:PORT to publish; empty: derived from `listen`."""
    software: str = ""
    gossip: Settings = field(default_factory=Settings)
    transport: TransportSettings = field(default_factory=TransportSettings)


class GossipService:
    """A member between `start` and `stop`; in between `node` may be used in the same loop."""

    def __init__(
        self,
        settings: ServiceSettings,
        planner: Planner,
        rules: str,
        *,
        executor: Executor = ImmediatePlan,
        local_jobs: Callable[[], Collection[str]] = tuple,
        carry: CarrierFactory = Transport,
        rng: Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`planner` makes plans of views, and `rules` names it and its options. `executor` decides
        where it runs (Coordinator); `carry` makes the transport.

        Raises HostccError for unreadable keys, or for an address that needs keys.
        """
        self.settings = settings
        self.keyring = Keyring(settings.keys) if settings.keys is not None else None
        self._keys = self.keyring if self.keyring is not None else NoKeys()
        self._rng = rng or Random()
        self._clock = clock
        self._planner, self._rules, self._executor = planner, rules, executor
        self._local_jobs = local_jobs
        self._seeds = Seeds(settings.seeds, settings.dns_seeds)
        self._certificates = CertificateRecords(self.keyring) if self.keyring is not None else None
        self._pings: OrderedDict[int, tuple[str, float]] = OrderedDict()
        self._rtts: OrderedDict[str, float] = OrderedDict()
        self._peer_clocks: OrderedDict[str, PeerClock] = OrderedDict()
        self._contacts: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._rounds_on = False
        self._round_at = self._due = 0.0
        """When the last round began, and when the next one is due."""
        self._timer: asyncio.TimerHandle | None = None
        self._key_in_use = ""
        self.transport = carry(
            settings.name,
            settings.listen,
            self.keyring,
            self._received,
            settings=settings.transport,
            insecure=settings.insecure,
            clock=clock,
            rng=self._rng,
        )
        self.transport.on_met = self._met
        self.notes = Notes(self._send_all, clock, self.transport.counters, self.transport.offence)
        """Small messages between hosts beside gossip; usable while the service runs."""
        self._troubles = Troubles(self._seeds, self.transport)
        self.node: Node
        self.coordinator: Coordinator

    async def start(self) -> None:
        """Listen and take part. Raises HostccError when the address cannot be taken."""
        await self.transport.start()
        own = self.settings.advertise or await self._advertised()
        self.node = Node(
            self.settings.name,
            own,
            signer=self._keys,
            checker=RecordChecker(self._keys),
            rng=self._rng,
            settings=self.settings.gossip,
            software=self.settings.software,
            # Above any earlier life, even where nobody is left who remembers it.
            incarnation=int(time.time()),
            on_pending=self._arrange,
        )
        self.coordinator = Coordinator(
            self.node, self._planner, self._rules, self._rng, self._executor, self._local_jobs
        )
        self._key_in_use = self._fingerprint()
        for name in self._seeds:
            self.node.add_contact(name)
        self._tasks = [asyncio.create_task(self._seeds.run())]
        self._rounds_on, self._round_at = True, self._clock()
        self._arrange()
        log.info(
            "gossip",
            name=self.settings.name,
            listen=self.transport.address,
            advertised=own or "nothing",
            key=self._key_in_use or "none",
        )

    async def _advertised(self) -> str:
        numeric = [at for _, at in self.settings.seeds if at.is_numeric]
        listen = self.transport.address
        if listen.is_any and not numeric:
            numeric = await self._seeds.look_up()
        return advertised(listen, numeric)

    async def stop(self) -> None:
        """Stop taking part; the other members notice by themselves."""
        self._rounds_on = False
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:  # neither one that has failed nor being cancelled once more keeps a socket open
            self._tasks = []
            self._troubles.close()
            await self.transport.stop()

    def peers(self) -> list[PeerStatus]:
        """Return the state of all other members, by name."""
        members = self.node.members
        names = {*members.others, *members.dead()}
        return [self._status(name) for name in sorted(names)[:MAX_PEERS]]

    def status(self) -> GossipStatus:
        """Return this member's state and the agreement."""
        members = self.node.members
        states = Counter(str(members.state(name)) for name in (*members.others, *members.dead()))
        dialled, accepted = self.transport.connections()
        agreement = self.coordinator.state
        return GossipStatus(
            name=self.settings.name,
            listen=str(self.transport.address),
            insecure=self.transport.insecure,
            key=self._key_in_use,
            members=dict(states),
            seeds=self._seeds_by_state(),
            held=agreement.held,
            active=agreement.active,
            plan=self.coordinator.plan_digest,
            agreed=self.coordinator.agreed,
            missing=agreement.missing,
            troubles=self._troubles.found,
            dialled=dialled,
            accepted=accepted,
            process=self.transport.process,
            counters=dict(self.transport.counters),
        )

    def _seeds_by_state(self) -> dict[str, int]:
        known, own = set(self.node.members.others), self.settings.name
        there = [
            name in known and self.node.members.state(name) is State.ALIVE
            for name in self._seeds
            if name != own
        ]
        there += [self._seeds.reached(name) for name in self._seeds.dns]
        return {"reached": sum(there), "missing": len(there) - sum(there)}

    def clock_offset(self, peer: str) -> ClockOffset | None:
        """Return how far a member's clock is ahead of this host's one; None: not known."""
        clock = self._peer_clocks.get(peer)
        return None if clock is None else clock.offset(self._clock())

    def hurry(self) -> None:
        """Make a round now: there is something for it, such as a plan that is ready."""
        if self._rounds_on:
            self._round()

    def _tick(self) -> None:
        now = self._clock()
        if self._fingerprint() != self._key_in_use:
            self._key_in_use = self._fingerprint()
            self.node.renew()
        self._follow_certificates(now)
        self._troubles.update(self.node, now)
        self._send_all(self.coordinator.tick(now), now)
        for event in self.node.take_events():
            tell = log.info if event.what in NEWS else log.warning
            tell("gossip", what=event.what, who=event.who, text=event.text)

    def _follow_certificates(self, now: float) -> None:
        if self._certificates is None or self.keyring is None:
            return
        self._certificates.update(self.node, now)
        news = self.keyring.take_news()
        if news:
            self.transport.learn(news)
        if self.keyring.certifies:
            for address in self._to_greet():
                self.transport.greet(address)

    def _to_greet(self) -> Iterator[Address]:
        # Seeds whose keys are not known yet: their certificates are asked for.
        yield from self._seeds.unmet()
        for name in self._seeds:
            address = self._seeds.address(name)
            if address is not None and not self.transport.allowed(name):
                yield address

    def _met(self, member: str, address: Address | None, certificate: bytes) -> None:
        if self.keyring is None:
            return
        try:
            self.keyring.learn(certificate)
        except CertificateError:  # it has ended meanwhile
            return
        if address is None or not self._rounds_on:
            return
        self._seeds.meet(member, address)
        if member != self.settings.name:
            self.node.add_contact(member)
            self._arrange()

    def _round(self) -> None:
        self._round_at = self._clock()
        # Schedule the next round first, whatever fails in this one.
        self._wait(self._round_at + self.settings.gossip.round_s)
        for what in (self.transport.tick, self._tick, self._arrange):
            try:
                what()
            except HostccError as error:
                log.failure("gossip round", reason=str(error))
            except Exception as error:  # noqa: BLE001 - the rounds go on, whatever happens in one
                log.defect("gossip round", error)

    def _arrange(self) -> None:
        # Called whenever the next round may be due earlier or later than scheduled.
        if not self._rounds_on:
            return
        due = self._round_at + self.coordinator.rest_s()
        if self._timer is None or due != self._due:
            self._wait(due)

    def _wait(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait_s = max(0.0, due - self._clock())
        self._due, self._timer = due, asyncio.get_running_loop().call_later(wait_s, self._round)

    def _received(self, peer: str, data: bytes) -> None:
        if not self._rounds_on:
            return  # the transport listens before this host takes part
        now = self._clock()
        if not self.node.accepts_from(peer, now):
            return
        try:
            message = codec.decode(data)
        except codec.CodecError as error:
            self.node.offence(peer, str(error), now)
            self.transport.counters["refused"] += 1
            return
        if peer not in self._contacts and len(self._contacts) < MAX_PEERS:
            self._contacts.add(peer)
            self.node.add_contact(peer)
        self._time_answers(peer, message, now)
        self.notes.heard(peer, message.notes)
        self._send_all(self.coordinator.receive(peer, message, now), now)
        self._arrange()

    def _send_all(self, messages: Iterable[Outgoing], now: float) -> None:
        for outgoing in messages:
            address = parse_numeric(self.node.address(outgoing.peer))
            if address is None:
                address = self._seeds.address(outgoing.peer)
            data = codec.encode(outgoing.payload)
            if self.transport.send(outgoing.peer, address, data):
                for nonce in outgoing.payload.pings:
                    self._pings[nonce] = (outgoing.peer, now)
        while len(self._pings) > MAX_PINGS:
            self._pings.popitem(last=False)

    def _time_answers(self, peer: str, message: Message, now: float) -> None:
        for nonce in message.acks:
            asked = self._pings.get(nonce)
            if asked is None or asked[0] != peer:
                continue
            del self._pings[nonce]
            latest = now - asked[1]
            before = self._rtts.pop(peer, latest)
            self._rtts[peer] = before + RTT_GAIN * (latest - before)
            self._peer_clocks[peer] = clock = self._peer_clocks.pop(peer, None) or PeerClock()
            clock.add(asked[1], now, message.clock_ns)
            for known in (self._rtts, self._peer_clocks):
                if len(known) > MAX_PEERS:
                    known.popitem(last=False)

    def _status(self, name: str) -> PeerStatus:
        link = self.transport.link(name)
        member = self.node.store.member(name)
        report = self.node.reports.get(name)
        offset = self.clock_offset(name)
        ways = (("dialled", link.dialled == "up"), ("accepted", link.accepted))
        return PeerStatus(
            name=name,
            address=self.node.address(name),
            state=str(self.node.members.state(name)),
            link=next((way for way, stands in ways if stands), link.dialled or "none"),
            rtt_s=self._rtts.get(name, link.rtt_s),
            clock_error_s=None if offset is None else offset.error_s,
            version=member.software if member is not None else "",
            held=report.held if report is not None else "",
            active=report.active if report is not None else "",
            plan=self.node.reported_plans[name].plan if report is not None else "",
            heard_s=link.heard_s,
            shut_out=link.shut_out or not self.node.accepts_from(name, self._clock()),
        )

    def _fingerprint(self) -> str:
        return "" if self.keyring is None else self.keyring.current.public.fingerprint
