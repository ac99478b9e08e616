"""One member's gossip: no I/O, no clock, and no randomness other than the `rng` it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from random import Random

from hostcc.coord.core import summary
from hostcc.coord.core.budget import Budget
from hostcc.coord.core.clock import Clock
from hostcc.coord.core.health import Health
from hostcc.coord.core.local_records import LocalRecords
from hostcc.coord.core.membership import Membership, State
from hostcc.coord.core.message import MAX_RECORDS, Message, Outgoing, ViewReport
from hostcc.coord.core.offenders import Event, Offenders
from hostcc.coord.core.outbox import Outbox
from hostcc.coord.core.payloads import ACCUSE, Content, Member
from hostcc.coord.core.peer_clock import clock_time
from hostcc.coord.core.peer_sampling import PeerSample
from hostcc.coord.core.probing import Prober
from hostcc.coord.core.reception import Reception
from hostcc.coord.core.record_checker import CheckedRecord, RecordChecker, slot_of
from hostcc.coord.core.repair import Repair
from hostcc.coord.core.repair_responder import RepairResponder
from hostcc.coord.core.rumors import Rumors
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.signing import Signer
from hostcc.coord.core.store import MEMBER_SLOT, Store
from hostcc.coord.core.view_reports import ViewReports
from hostcc.coord.plan_difference import NO_PLAN, PlanDigests

CATCH_UP_RECORDS = 32
"""New records in one message that show that this member is behind: compare stores again soon."""
MAX_CONTACTS = 256
MAX_NAMED_MEMBERS = 8
"""Members that one event names."""


class Node:
    """A member: call `tick` as `rest_s` says and `receive` for each message; send what they return.

    `now` is any clock in seconds that mostly goes forward; steps and pauses do no harm.
    """

    def __init__(
        self,
        name: str,
        address: str,
        *,
        signer: Signer,
        checker: RecordChecker,
        rng: Random,
        settings: Settings | None = None,
        software: str = "",
        incarnation: int = 1,
        on_pending: Callable[[], None] | None = None,
    ) -> None:
        """`incarnation`: first incarnation to try, such as the Unix time; raised if records of a
        higher one turn up. `on_pending`: called when there is something to send, since `rest_s` may
        then have become shorter."""
        self.name = name
        self.settings = settings = Settings() if settings is None else settings
        self.store = Store(settings)
        self.members = Membership(name, self.store, settings, rng)
        self.health = Health()
        self._reports = ViewReports(4 * settings.neighbours)
        self._rng = rng
        self._clock = Clock(2 * settings.round_s)
        member = Member(address, incarnation, software, rng.getrandbits(32))
        self._own = LocalRecords(name, member, self.store, checker, signer)
        self._prober = Prober(self.members, self.health, settings, rng)
        self._rumors = Rumors(self.store, settings)
        self._repair = Repair(self.store, checker, rng)
        self._offenders = Offenders(settings)
        self._reception = Reception(
            self._own, self.store, self.members, checker, self._offenders, settings, self._spread
        )
        self._budget = Budget(settings.bytes_per_s, settings.burst_bytes)
        self._responder = RepairResponder(self._repair, settings)
        self._sample = PeerSample(self.members, settings, rng)
        self._contacts: dict[str, None] = {}
        self._got_message = False
        self._refute_at = 0.0
        self._sync_at = 0.0
        self._rejoin_at = rng.uniform(0, settings.rejoin_s)
        self._last_tick: float | None = None
        self._ticked_at = 0.0
        self._longest_rest_s = settings.round_s
        """Longest rest granted since the last round, in seconds."""
        self._on_pending = on_pending
        self._got_report = False

    # Instructions of the caller.

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Members that share links or jobs with this one; set by whoever builds the view."""
        return self._sample.neighbours

    @neighbours.setter
    def neighbours(self, members: tuple[str, ...]) -> None:
        self._sample.neighbours = members

    def add_contact(self, peer: str) -> None:
        """Add a reachable member, from the configuration or because it connected."""
        if peer != self.name and len(self._contacts) < MAX_CONTACTS:
            self._contacts[peer] = None

    def begin(self) -> None:
        """Publish at once, for callers that know that the name is new.

        Other members first listen for `join_s`, or until they have caught up, so that they number
        their records above those of an earlier life.
        """
        if self._own.silent:
            self._spread(self._own.begin(self._clock.now))

    def publish(self, kind: str, key: str, content: Content) -> None:
        """Publish a record to all members. Raises payloads.PayloadError if it is out of bounds."""
        self._spread(self._own.publish((kind, key), content, self._clock.now))

    def withdraw(self, kind: str, key: str) -> None:
        """Withdraw a record from all members."""
        self._spread(self._own.withdraw((kind, key), self._clock.now))

    def report_view(
        self,
        holding: ViewReport,
        peers: Iterable[str],
        *,
        ask: bool = False,
        plan: PlanDigests = NO_PLAN,
    ) -> None:
        """Report this member's view, and the digests of its plan, to `peers` next round.

        `ask`: request theirs.
        """
        self._reports.schedule(holding, plan, peers, ask=ask)
        self._notify_pending()

    def forget_report(self, peer: str) -> None:
        """Drop the view report of a peer that is no neighbour."""
        self._reports.forget(peer)

    def renew(self) -> None:
        """Sign all own records again, because the signer's key has changed."""
        self._spread(self._own.renew(self._clock.now))

    def offence(self, peer: str, reason: str, now: float) -> None:
        """Count a message that the codec refused; after enough of them the peer is ignored."""
        self._offenders.strike(peer, reason, self._clock.advance(now), now)

    def adopt(self, store: Store) -> None:
        """Start with the records of another store: for simulations that begin with a formed
        cluster."""
        self.store.adopt(store)
        others = [name for name in store.writers() if name != self.name]
        self._rng.shuffle(others)
        self.members.adopt(others)

    # Queries of the caller.

    @property
    def reports(self) -> dict[str, ViewReport]:
        """Latest view report of each neighbour."""
        return self._reports.latest

    @property
    def reported_plans(self) -> dict[str, PlanDigests]:
        """Digests of the plan of each neighbour in `reports`."""
        return self._reports.plans

    @property
    def report_changes(self) -> int:
        """How often a neighbour's report was another than before."""
        return self._reports.changes

    def accepts_from(self, peer: str, now: float) -> bool:
        """Return whether to accept messages of a peer; ask before decoding, to keep hostile ones
        cheap."""
        return self._offenders.accepts_from(peer, self._clock.advance(now))

    def address(self, peer: str) -> str:
        """Return host:port of a member from its own record; empty: unknown."""
        member = self.store.member(peer)
        return member.address if member is not None else ""

    @property
    def incarnation(self) -> int:
        """Present incarnation of this member."""
        return self._own.incarnation

    def experienced_s(self, now: float) -> float:
        """Return this member's experienced seconds at `now`, by which deadlines are measured."""
        return self._clock.advance(now)

    def rest_s(self) -> float:
        """Return the seconds from the last round to the next one that has something to do.

        The caller may pause for so long: a rest that was granted is not counted as an absence.
        """
        settings, at = self.settings, self._ticked_at
        if (
            self._own.silent
            or self._got_report
            or (len(self._rumors) and self._sample.has_peers(self._contacts))
            or self._reports.pending
            or self.members.has_suspects
            or self._accused
        ):
            return settings.round_s
        due = min(self._prober.due, self._sync_at, self._rejoin_at)
        rest_s = max(settings.round_s, min(settings.rest_s, due - at))
        self._longest_rest_s = max(self._longest_rest_s, rest_s)
        self._clock.most_s = self._longest_rest_s + settings.round_s
        return rest_s

    def sizes(self) -> list[tuple[str, int, int]]:
        """Return (what, count, limit) for every structure that grows with what others send."""
        store, settings = self.store, self.settings
        records = sum(1 for _ in store.writers()) * settings.writer_records
        return [
            ("records", len(store), records),
            ("rumours", len(self._rumors), self._rumors.most),
            (
                "dropped records",
                store.dropped_count,
                records * (2 + ceil(settings.dropped_s / settings.tombstone_s)),
            ),
            ("reports", len(self.reports), 4 * settings.neighbours),
            ("contacts", len(self._contacts), MAX_CONTACTS),
        ]

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._offenders.events = self._offenders.events, []
        return events

    def add_event(self, event: Event) -> None:
        """Add an event that may interest an operator to `take_events`."""
        self._offenders.add_event(event)

    # Rounds and messages.

    def tick(self, now: float) -> list[Outgoing]:
        """Run one round; return the messages to send."""
        self._check_absence(now)
        self._ticked_at = at = self._clock.advance(now)
        self._longest_rest_s = self.settings.round_s
        self._clock.most_s = 2 * self.settings.round_s
        self._budget.refill(at)
        self.store.expire(at)
        for member in self.members.tick(at):
            self.store.forget(member, at)
        died, returned = self.members.take_changes()
        self._add_events("death", died, "dead: it has not answered for too long", now)
        self._add_events("return", returned, "alive again", now)
        alone = 1 if self._got_message else 5
        if self._own.silent and at >= alone * self.settings.join_s:
            self.begin()
        if self._accused and at >= self._refute_at and not self._own.silent:
            self._refute_at = at + self.settings.probe_s
            self.health.worse()
            self._spread(self._own.refute(at))
        self._sample.refresh(at)
        out = Outbox()
        self._probe(out, at)
        self._gossip(out)
        self._synchronise(out, at)
        self._reports.send_due(out)
        self._got_report = False
        return out.take()

    def receive(self, peer: str, message: Message, now: float) -> list[Outgoing]:
        """Process the decoded message of an authenticated peer; return the messages to send."""
        at = self._clock.advance(now)
        if peer == self.name or not self._offenders.accepts_from(peer, at):
            return []
        self._got_message = True
        out = Outbox()
        self._answer_probes(out, peer, message, at, now)
        if message.records:
            news, corrections = self._reception.take(peer, message.records, at, now)
            out.records(peer, corrections)
            if news >= CATCH_UP_RECORDS:
                self._sync_at = min(self._sync_at, at + self.settings.round_s)
        self._responder.answer(out, peer, message, at)
        self._reports.receive(out, peer, message)
        self._got_report |= message.holding is not None
        if (message.pings or message.leaves) and self.members.state(peer) is not State.ALIVE:
            self._inform_accused(out, peer)
        return out.take()

    def _add_events(self, what: str, members: list[str], text: str, now: float) -> None:
        # One event a round, however many members a partition takes away.
        if members:
            more = len(members) - MAX_NAMED_MEMBERS
            who = ", ".join(members[:MAX_NAMED_MEMBERS]) + (f" and {more} more" if more > 0 else "")
            self.add_event(Event(now, what, who, text))

    def _check_absence(self, now: float) -> None:
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
        for peer in self._sample.pick(self.settings.fanout, self._contacts):
            records = list(self._rumors.records(share, count))
            names = summary.pack(self._rumors.announcements(MAX_RECORDS))
            self._budget.take(sum(held.size for held in records) + len(names))
            out.records(peer, records)
            out.announce(peer, names)

    def _synchronise(self, out: Outbox, at: float) -> None:
        if self._own.silent:
            opening = self._repair.open(slot_of(self.name, *MEMBER_SLOT))
            for peer in self._sample.pick(self.settings.fanout, self._contacts):
                out.exchange(peer, opening)
        elif at >= self._sync_at:
            self._sync_at = at + self.settings.sync_s * self._rng.uniform(0.5, 1.5)
            peer = self._sample.pick_any(self._contacts)
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

    def _answer_probes(
        self, out: Outbox, peer: str, message: Message, at: float, now: float
    ) -> None:
        clock_ns = clock_time(now)
        for nonce in message.pings:
            out.ack(peer, nonce, clock_ns)
        for nonce in message.acks:
            onward = self._prober.acknowledge(nonce)
            if onward is not None:
                out.ack(*onward)
        for probe in message.probes:
            if probe.target == self.name:
                out.ack(peer, probe.nonce)
            elif self.store.incarnation(probe.target) >= 0:
                relayed = self._prober.relay(peer, probe, at)
                if relayed is not None:
                    out.ping(probe.target, relayed)

    def _inform_accused(self, out: Outbox, peer: str) -> None:
        # An accused member that talks to us must learn of it, so that it can refute.
        incarnation = self.store.incarnation(peer)
        for accuser, accused in self.store.accusers(peer).items():
            held = self.store.get(accuser, (ACCUSE, peer))
            if accused == incarnation and held is not None:
                out.records(peer, (held,))
                return

    def _spread(self, records: list[CheckedRecord]) -> None:
        for held in records:
            self._rumors.add(held)
        if records:
            self._notify_pending()

    def _notify_pending(self) -> None:
        if self._on_pending is not None:
            self._on_pending()
