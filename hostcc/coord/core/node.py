"""One member's gossip: no I/O, no clock, no randomness but what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from random import Random

from hostcc.coord.core import summary
from hostcc.coord.core.answers import Answers
from hostcc.coord.core.budget import Budget
from hostcc.coord.core.clock import Clock
from hostcc.coord.core.health import Health
from hostcc.coord.core.intake import CheckedRecord, Intake, slot_of
from hostcc.coord.core.local_records import LocalRecords
from hostcc.coord.core.membership import Membership, State
from hostcc.coord.core.message import MAX_RECORDS, Message, Outgoing, ViewReport
from hostcc.coord.core.offenders import Event, Offenders
from hostcc.coord.core.outbox import Outbox
from hostcc.coord.core.payloads import ACCUSE, Content, Member
from hostcc.coord.core.peer_sampling import PeerSample
from hostcc.coord.core.probing import Prober
from hostcc.coord.core.reception import Reception
from hostcc.coord.core.repair import Repair
from hostcc.coord.core.reports import Reports
from hostcc.coord.core.rumors import Rumors
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.signing import Signer
from hostcc.coord.core.store import MEMBER_SLOT, Store

MANY = 32
"""Records from one message that show that there is more to catch up with."""
MAX_CONTACTS = 256
NAMED = 8
"""Members in one event."""


class Node:
    """A member: `tick` as `rest_s` says, `receive` whatever arrives, send what they return.

    `now` is any clock that mostly goes forward, in seconds; steps do no harm.
    """

    def __init__(
        self,
        name: str,
        address: str,
        *,
        signer: Signer,
        intake: Intake,
        rng: Random,
        settings: Settings | None = None,
        software: str = "",
        incarnation: int = 1,
        stirred: Callable[[], None] | None = None,
    ) -> None:
        """`incarnation`: to begin with, such as the time; a higher one is found if needed;
        `stirred`: called whenever there is something to say, so that `rest_s` may be less."""
        self.name = name
        self.settings = settings = Settings() if settings is None else settings
        self.store = Store(settings)
        self.members = Membership(name, self.store, settings, rng)
        self.health = Health()
        self._reports = Reports(4 * settings.neighbours)
        self._rng = rng
        self._clock = Clock(2 * settings.round_s)
        member = Member(address, incarnation, software, rng.getrandbits(32))
        self._own = LocalRecords(name, member, self.store, intake, signer)
        self._prober = Prober(self.members, self.health, settings, rng)
        self._rumors = Rumors(self.store, settings)
        self._repair = Repair(self.store, intake, rng)
        self._offenders = Offenders(settings)
        self._reception = Reception(
            self._own, self.store, self.members, intake, self._offenders, settings, self._spread
        )
        self._budget = Budget(settings.bytes_per_s, settings.burst_bytes)
        self._answers = Answers(self._repair, settings)
        self._circle = PeerSample(self.members, settings, rng)
        self._contacts: dict[str, None] = {}
        self._answered = False
        self._refute_at = 0.0
        self._sync_at = 0.0
        self._rejoin_at = rng.uniform(0, settings.rejoin_s)
        self._last_tick: float | None = None
        self._ticked_at = 0.0
        self._longest_rest_s = settings.round_s
        """Of those that were asked for since."""
        self._stirred = stirred
        self._heard_holding = False

    # What the caller says.

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Members that share links or jobs, for whoever knows the view to set."""
        return self._circle.neighbours

    @neighbours.setter
    def neighbours(self, members: tuple[str, ...]) -> None:
        self._circle.neighbours = members

    def meet(self, peer: str) -> None:
        """A member that can be reached, from the configuration or because it connected."""
        if peer != self.name and len(self._contacts) < MAX_CONTACTS:
            self._contacts[peer] = None

    def begin(self) -> None:
        """Speak at once: for callers that know that the name is new.  Others wait join_s, or
        until they have caught up, so that they outdo an earlier life that they have forgotten.
        """
        if self._own.silent:
            self._spread(self._own.begin(self._clock.now))

    def publish(self, kind: str, key: str, content: Content) -> None:
        """Say something to everybody.  Raises payloads.PayloadError when it is out of bounds."""
        self._spread(self._own.publish((kind, key), content, self._clock.now))

    def withdraw(self, kind: str, key: str) -> None:
        """Say that it is no more."""
        self._spread(self._own.withdraw((kind, key), self._clock.now))

    def hold(self, holding: ViewReport, peers: Iterable[str], *, ask: bool = False) -> None:
        """Tell peers which view this member holds, with the next round; `ask`: and ask them."""
        self._reports.say(holding, peers, ask=ask)
        self._stir()

    def renew(self) -> None:
        """Sign everything anew: the signer has another key, and the old one will end."""
        self._spread(self._own.renew(self._clock.now))

    def offence(self, peer: str, reason: str, now: float) -> None:
        """A peer sent something that the codec refused: enough of them, and it is not heard."""
        self._offenders.strike(peer, reason, self._clock.advance(now), now)

    def adopt(self, store: Store) -> None:
        """Know what another knows: how simulated members start in mid-life."""
        self.store.adopt(store)
        others = [name for name in store.writers() if name != self.name]
        self._rng.shuffle(others)
        self.members.adopt(others)

    # What the caller asks.

    @property
    def reports(self) -> dict[str, ViewReport]:
        """What neighbours said last about the view that they hold."""
        return self._reports.heard

    def heard(self, peer: str, now: float) -> bool:
        """Whether to listen to a peer: ask before decoding, so that a hostile one costs little."""
        return self._offenders.heard(peer, self._clock.advance(now))

    def address(self, peer: str) -> str:
        """host:port of a member, from its own record; empty: unknown."""
        member = self.store.member(peer)
        return member.address if member is not None else ""

    @property
    def incarnation(self) -> int:
        """Of this member."""
        return self._own.incarnation

    def experience(self, now: float) -> float:
        """Seconds that this member has lived through until now, by which deadlines are measured."""
        return self._clock.advance(now)

    def rest_s(self) -> float:
        """From the last round to the next one that has something to do, seconds.

        Who asks may wait for so long: not to be called meanwhile is then no absence.
        """
        settings, at = self.settings, self._ticked_at
        if (
            self._own.silent
            or self._heard_holding
            or (len(self._rumors) and self._circle.anybody(self._contacts))
            or self._reports.waiting
            or self.members.doubtful
            or self._accused
        ):
            return settings.round_s
        due = min(self._prober.due, self._sync_at, self._rejoin_at)
        rest_s = max(settings.round_s, min(settings.rest_s, due - at))
        self._longest_rest_s = max(self._longest_rest_s, rest_s)
        self._clock.most_s = self._longest_rest_s + settings.round_s
        return rest_s

    def sizes(self) -> list[tuple[str, int, int]]:
        """(what, how many, how many at most): everything that grows with what others send."""
        store, settings = self.store, self.settings
        records = sum(1 for _ in store.writers()) * settings.writer_records
        return [
            ("records", len(store), records),
            ("rumours", len(self._rumors), self._rumors.most),
            ("notes", store.notes, records * (2 + ceil(settings.note_s / settings.tombstone_s))),
            ("reports", len(self.reports), 4 * settings.neighbours),
            ("contacts", len(self._contacts), MAX_CONTACTS),
        ]

    def take_events(self) -> list[Event]:
        """What happened since the last time."""
        events, self._offenders.events = self._offenders.events, []
        return events

    def note(self, event: Event) -> None:
        """Something that an operator may want to know, for `take_events`."""
        self._offenders.note(event)

    # Rounds and messages.

    def tick(self, now: float) -> list[Outgoing]:
        """One round: what to send."""
        self._notice_absence(now)
        self._ticked_at = at = self._clock.advance(now)
        self._longest_rest_s = self.settings.round_s
        self._clock.most_s = 2 * self.settings.round_s
        self._budget.refill(at)
        self.store.expire(at)
        for member in self.members.tick(at):
            self.store.forget(member, at)
        died, returned = self.members.take_changes()
        self._tell_of("death", died, "dead: it has not answered for too long", now)
        self._tell_of("return", returned, "alive again", now)
        alone = 1 if self._answered else 5
        if self._own.silent and at >= alone * self.settings.join_s:
            self.begin()
        if self._accused and at >= self._refute_at and not self._own.silent:
            self._refute_at = at + self.settings.probe_s
            self.health.worse()
            self._spread(self._own.refute(at))
        self._circle.refresh(at)
        out = Outbox()
        self._probe(out, at)
        self._gossip(out)
        self._synchronise(out, at)
        self._reports.tell(out)
        self._heard_holding = False
        return out.take()

    def receive(self, peer: str, message: Message, now: float) -> list[Outgoing]:
        """What an authenticated peer said, decoded: what to send in return."""
        at = self._clock.advance(now)
        if peer == self.name or not self._offenders.heard(peer, at):
            return []
        self._answered = True
        out = Outbox()
        self._answer_probes(out, peer, message, at)
        if message.records:
            news, corrections = self._reception.take(peer, message.records, at, now)
            out.records(peer, corrections)
            if news >= MANY:
                self._sync_at = min(self._sync_at, at + self.settings.round_s)
        self._answers.answer(out, peer, message, at)
        self._reports.hear(out, peer, message.holding)
        self._heard_holding |= message.holding is not None
        if (message.pings or message.leaves) and self.members.state(peer) is not State.ALIVE:
            self._tell_accused(out, peer)
        return out.take()

    def _tell_of(self, what: str, members: list[str], text: str, now: float) -> None:
        """One event a round, however many members a partition takes away."""
        if members:
            more = len(members) - NAMED
            who = ", ".join(members[:NAMED]) + (f" and {more} more" if more > 0 else "")
            self.note(Event(now, what, who, text))

    def _notice_absence(self, now: float) -> None:
        expected_s = self._longest_rest_s + 2 * self.settings.round_s
        if self._last_tick is not None and now - self._last_tick > expected_s:
            self.health.worse()
            self._prober.missed_rounds()
        self._last_tick = now

    @property
    def _accused(self) -> bool:
        return self.incarnation in self.store.accusers(self.name).values()

    def _probe(self, out: Outbox, at: float) -> None:
        pings, requests, accused = self._prober.tick(at, self.neighbours)
        for target, nonce in pings:
            out.ping(target, nonce)
        for helper, probe in requests:
            out.probe(helper, probe)
        if accused:
            self._accuse(accused, at)

    def _accuse(self, member: str, at: float) -> None:
        incarnation = self.store.incarnation(member)
        accusers = [one for one in self.store.accusers(member).values() if one == incarnation]
        if incarnation >= 0 and len(accusers) <= self.settings.confirmations:
            self._spread(self._own.accuse(member, at))

    def _gossip(self, out: Outbox) -> None:
        if not len(self._rumors):
            return
        share = min(self._budget.left / self.settings.fanout, self.settings.burst_bytes)
        count = self.members.count
        for peer in self._circle.pick(self.settings.fanout, self._contacts):
            records = list(self._rumors.records(share, count))
            names = summary.pack(self._rumors.announcements(MAX_RECORDS))
            self._budget.take(sum(held.size for held in records) + len(names))
            out.records(peer, records)
            out.announce(peer, names)

    def _synchronise(self, out: Outbox, at: float) -> None:
        if self._own.silent:
            opening = self._repair.open(slot_of(self.name, *MEMBER_SLOT))
            for peer in self._circle.pick(self.settings.fanout, self._contacts):
                out.exchange(peer, opening)
        elif at >= self._sync_at:
            self._sync_at = at + self.settings.sync_s * self._rng.uniform(0.5, 1.5)
            peer = self._circle.pick_any(self._contacts)
            if peer:
                out.exchange(peer, self._repair.open())
            for member in self.members.unfounded():
                if self._rng.random() < 3 / self.members.count:
                    self._accuse(member, at)
        if at >= self._rejoin_at:
            self._rejoin_at = at + self.settings.rejoin_s * self._rng.uniform(0.5, 1.5)
            away = [*self.members.dead(), *filter(self._unknown, self._contacts)]
            if away:
                out.exchange(self._rng.choice(away), self._repair.open())

    def _unknown(self, peer: str) -> bool:
        return self.store.incarnation(peer) < 0

    def _answer_probes(self, out: Outbox, peer: str, message: Message, at: float) -> None:
        for nonce in message.pings:
            out.ack(peer, nonce)
        for nonce in message.acks:
            onward = self._prober.answered(nonce)
            if onward is not None:
                out.ack(*onward)
        for probe in message.probes:
            if probe.target == self.name:
                out.ack(peer, probe.nonce)
            elif self.store.incarnation(probe.target) >= 0:
                relayed = self._prober.relay(peer, probe, at)
                if relayed is not None:
                    out.ping(probe.target, relayed)

    def _tell_accused(self, out: Outbox, peer: str) -> None:
        """Somebody talks to us who is accused: let it know, so that it can refute."""
        incarnation = self.store.incarnation(peer)
        for accuser, accused in self.store.accusers(peer).items():
            held = self.store.get(accuser, (ACCUSE, peer))
            if accused == incarnation and held is not None:
                out.records(peer, (held,))
                return

    def _spread(self, said: list[CheckedRecord]) -> None:
        for held in said:
            self._rumors.add(held)
        if said:
            self._stir()

    def _stir(self) -> None:
        if self._stirred is not None:
            self._stirred()
