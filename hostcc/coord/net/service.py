"""A member at work: the gossip core on the transport, in the asyncio loop of its host."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hostcc.coord.core import codec
from hostcc.coord.core.coordinator import AtOnce, Coordinator, Executor, Planner
from hostcc.coord.core.intake import Intake
from hostcc.coord.core.message import Message, Outgoing
from hostcc.coord.core.node import Node
from hostcc.coord.core.notes import Notes
from hostcc.coord.core.settings import Settings
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.keys.none import NoKeys
from hostcc.coord.net.address import Address, parse_numeric
from hostcc.coord.net.carrier import MakeCarrier, ProcessStatus
from hostcc.coord.net.seeds import Seeds, advertised
from hostcc.coord.net.transport import Transport
from hostcc.coord.net.transport_settings import TransportSettings
from hostcc.coord.net.troubles import Trouble, Troubles
from hostcc.errors import HostccError
from hostcc.log import get_logger

log = get_logger("gossip")

DEFAULT_PORT = 7471
MAX_PINGS = 256
"""Pings whose answers are waited for, to measure round trips."""
MAX_PEERS = 20_000
NEWS = frozenset({"activation", "return"})
"""Events that are no reason to worry."""
RTT_GAIN = 0.2
"""Weight of a new round trip in the average."""


@dataclass(frozen=True)
class ServiceSettings:
    """How one host takes part."""

    name: str
    listen: Address
    keys: Path | None = None
    """Directory of the host's keys; None: without keys."""
    insecure: bool = False
    """Without keys, also listen where others than this host can reach it."""
    seeds: tuple[tuple[str, Address], ...] = ()
    """Members to begin with: (name, where)."""
    advertise: str = ""
    """HOST:PORT to tell the others; empty: worked out from `listen`."""
    software: str = ""
    gossip: Settings = field(default_factory=Settings)
    transport: TransportSettings = field(default_factory=TransportSettings)


@dataclass(frozen=True)
class PeerStatus:
    """One other member, for `hostcc peers`."""

    name: str
    address: str
    """HOST:PORT as it says itself; empty: it does not."""
    state: str
    """alive, suspect or dead."""
    link: str
    """dialled, accepted, connecting, or none at the moment."""
    rtt_s: float | None
    """From a ping to its answer, averaged; else the kernel's figure; None: never measured."""
    version: str
    held: str
    """Digest of the view that it holds; empty: it has not told us."""
    active: str
    """Digest of the view whose plan it follows."""
    heard_s: float | None
    """Seconds since its last message to us; None: there was none."""
    shut_out: bool
    """It sent what it should not, and is not listened to for now."""


@dataclass(frozen=True)
class GossipStatus:
    """The whole of it, for `hostcc status`."""

    name: str
    listen: str
    insecure: bool
    """There are no keys: whoever reaches the port may say anything.  Shown in red."""
    key: str
    """Fingerprint of the key in use; empty: none."""
    members: dict[str, int]
    """How many others are alive, suspect, dead."""
    held: str
    """Digest of the view that this host holds."""
    active: str
    """Digest of the view whose plan it follows; empty: none."""
    agreed: bool
    """Whether those that matter held the active view, too."""
    missing: tuple[str, ...]
    """Whom it waits for, or has stopped waiting for."""
    troubles: tuple[Trouble, ...]
    """Why others are not reached, or not let in."""
    dialled: int
    accepted: int
    process: ProcessStatus | None
    """What has the connections; None: the same process as the gossip."""
    counters: dict[str, int]
    """Messages and bytes sent and received, what was dropped or refused and why."""


class GossipService:
    """Start it, stop it; in between `node` may be told and asked things in the same loop."""

    def __init__(
        self,
        settings: ServiceSettings,
        planner: Planner,
        rules: str,
        *,
        executor: Executor = AtOnce,
        carry: MakeCarrier = Transport,
        rng: Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`planner` makes plans of views, `rules` names it and its options, `executor` where it
        runs (Coordinator), `carry` makes what moves messages.

        Raises HostccError (keys that cannot be read, an address that needs keys).
        """
        self.settings = settings
        self.keyring = Keyring(settings.keys) if settings.keys is not None else None
        self._keys = self.keyring if self.keyring is not None else NoKeys()
        self._rng = rng or Random()
        self._clock = clock
        self._planner, self._rules, self._executor = planner, rules, executor
        self._seeds = Seeds(settings.seeds)
        self._pings: OrderedDict[int, tuple[str, float]] = OrderedDict()
        self._rtts: OrderedDict[str, float] = OrderedDict()
        self._met: set[str] = set()
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
        self.notes = Notes(self._send_all, clock, self.transport.counters, self.transport.offence)
        """What hosts tell each other beside gossip; to be used while the service runs."""
        self._troubles = Troubles(self._seeds, self.transport)
        self.node: Node
        self.coordinator: Coordinator

    async def start(self) -> None:
        """Listen and take part.  Raises HostccError when the address cannot be taken."""
        await self.transport.start()
        own = self.settings.advertise or advertised(
            self.transport.address,
            [at for _, at in self.settings.seeds if at.is_numeric],
        )
        self.node = Node(
            self.settings.name,
            own,
            signer=self._keys,
            intake=Intake(self._keys),
            rng=self._rng,
            settings=self.settings.gossip,
            software=self.settings.software,
            # Above any earlier life, even where nobody is left who remembers it.
            incarnation=int(time.time()),
            stirred=self._arrange,
        )
        self.coordinator = Coordinator(
            self.node, self._planner, self._rules, self._rng, self._executor
        )
        self._key_in_use = self._fingerprint()
        for name in self._seeds:
            self.node.meet(name)
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

    async def stop(self) -> None:
        """Take part no more; the others notice by themselves."""
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
        """All other members, by name."""
        members = self.node.members
        names = {*members.others, *members.dead()}
        return [self._status(name) for name in sorted(names)[:MAX_PEERS]]

    def status(self) -> GossipStatus:
        """Who this host is among the others, and what they agree on."""
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
            held=agreement.held,
            active=agreement.active,
            agreed=agreement.agreed,
            missing=agreement.missing,
            troubles=self._troubles.found,
            dialled=dialled,
            accepted=accepted,
            process=self.transport.process,
            counters=dict(self.transport.counters),
        )

    def _tick(self) -> None:
        now = self._clock()
        if self._fingerprint() != self._key_in_use:
            self._key_in_use = self._fingerprint()
            self.node.renew()
        self._troubles.look(self.node, now)
        self._send_all(self.coordinator.tick(now), now)
        for event in self.node.take_events():
            tell = log.info if event.what in NEWS else log.warning
            tell("gossip", what=event.what, who=event.who, text=event.text)

    def _round(self) -> None:
        self._round_at = self._clock()
        self._wait(self._round_at + self.settings.gossip.round_s)  # whatever fails, there is a next
        for what in (self.transport.tick, self._tick, self._arrange):
            try:
                what()
            except HostccError as error:
                log.failure("gossip round", reason=str(error))
            except Exception as error:  # noqa: BLE001 - the rounds go on, whatever happens in one
                log.defect("gossip round", error)

    def _arrange(self) -> None:
        """Have the next round when it is due; again whenever it may be due earlier or later."""
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
        now = self._clock()
        if not self.node.heard(peer, now):
            return
        try:
            message = codec.decode(data)
        except codec.CodecError as error:
            self.node.offence(peer, str(error), now)
            self.transport.counters["refused"] += 1
            return
        if peer not in self._met and len(self._met) < MAX_PEERS:
            self._met.add(peer)
            self.node.meet(peer)
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
            if len(self._rtts) > MAX_PEERS:
                self._rtts.popitem(last=False)

    def _status(self, name: str) -> PeerStatus:
        link = self.transport.link(name)
        member = self.node.store.member(name)
        report = self.node.reports.get(name)
        ways = (("dialled", link.dialled == "up"), ("accepted", link.accepted))
        return PeerStatus(
            name=name,
            address=self.node.address(name),
            state=str(self.node.members.state(name)),
            link=next((way for way, stands in ways if stands), link.dialled or "none"),
            rtt_s=self._rtts.get(name, link.rtt_s),
            version=member.software if member is not None else "",
            held=report.held if report is not None else "",
            active=report.active if report is not None else "",
            heard_s=link.heard_s,
            shut_out=link.shut_out or not self.node.heard(name, self._clock()),
        )

    def _fingerprint(self) -> str:
        return "" if self.keyring is None else self.keyring.current.public.fingerprint
