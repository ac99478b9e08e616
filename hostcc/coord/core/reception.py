"""Records that come in: what is news, what is refused, and who bears the cost of it."""

from __future__ import annotations

from collections.abc import Callable

from hostcc.coord.core import payloads
from hostcc.coord.core.budget import Allowances
from hostcc.coord.core.intake import (
    CheckedRecord,
    Intake,
    StrangerError,
    UnsignedError,
    slot_of,
    stamp_of,
)
from hostcc.coord.core.local_records import LocalRecords
from hostcc.coord.core.membership import Membership
from hostcc.coord.core.message import Record
from hostcc.coord.core.offenders import Offenders
from hostcc.coord.core.payloads import ACCUSE, Member, PayloadError
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Fate, Store

CORRECTIONS = 16
"""Newer records that are sent back for old ones in one message."""

Spread = Callable[[list[CheckedRecord]], None]


class Reception:
    """Takes records into the store, and tells `spread` what is news."""

    def __init__(
        self,
        own: LocalRecords,
        store: Store,
        members: Membership,
        intake: Intake,
        offenders: Offenders,
        settings: Settings,
        spread: Spread,
    ) -> None:
        self._own = own
        self._store = store
        self._members = members
        self._intake = intake
        self._offenders = offenders
        self._spread = spread
        self._writers = Allowances(settings.writer_per_s, settings.writer_burst)
        self._unsigned = Allowances(settings.writer_per_s, settings.writer_burst)

    def take(
        self, peer: str, records: tuple[Record, ...], at: float, now: float
    ) -> tuple[int, list[CheckedRecord]]:
        """(How many were news, what to send back for those that are old).

        `at` is experienced time, `now` what the clock says, for events.
        """
        corrections: dict[int, CheckedRecord] = {}
        news = 0
        for record in records:
            old, newer = self._old(record)
            if not old:
                held = self._admit(peer, record, at, now)
                news += held is not None and self._put(held, at, now) is Fate.NEW
            elif newer is not None and len(corrections) < CORRECTIONS:
                corrections[newer.slot] = newer
        return news, list(corrections.values())

    def _old(self, record: Record) -> tuple[bool, CheckedRecord | None]:
        """(Whether a record is old, a newer one if there is one), before anything is spent on it.

        What is old costs its writer none of its allowance: else whoever has kept some could
        silence the writer by saying it again.
        """
        stamp = stamp_of(record)
        before = self._store.get(record.writer, (record.kind, record.key))
        if before is not None:
            if stamp < before.stamp:
                return True, before
            return record == before.record, None
        if record.writer == self._own.name:
            return False, None  # the way in which a host meets its own past
        noted = self._store.noted(slot_of(record.writer, record.kind, record.key), stamp)
        if noted is not None:
            return True, noted if noted.record != record else None
        return self._void(record), None

    def _void(self, record: Record) -> bool:
        try:
            content = payloads.decode(record) if record.kind == ACCUSE else None
        except PayloadError:
            return False  # refused below, and told
        return self._store.voids(record, content)

    def _admit(self, peer: str, record: Record, at: float, now: float) -> CheckedRecord | None:
        if not (self._unsigned.left(peer, at) and self._writers.take(record.writer, at)):
            return None
        try:
            return self._intake.admit(record)
        except StrangerError as error:
            self._offenders.tell("stranger", record.writer, str(error), at, now)
        except (UnsignedError, PayloadError) as error:
            # A relay may know another key of the writer than this host: honest, but its cost.
            if isinstance(error, UnsignedError) and self._unsigned.take(peer, at):
                self._writers.give_back(record.writer)
            if peer == record.writer:
                self._offenders.strike(peer, str(error), at, now)
            else:
                self._offenders.tell("refused", record.writer, str(error), at, now)
        return None

    def _put(self, held: CheckedRecord, at: float, now: float) -> Fate:
        record = held.record
        if record.writer == self._own.name:
            said = self._own.heard(held, at)
            if said and record.incarnation >= self._own.incarnation - 1:
                text = "a record of this name that this host has not written: outdone"
                self._offenders.tell("name", self._own.name, text, at, now)
            self._spread(said)
            return Fate.OLD
        new = self._store.get(record.writer, (record.kind, record.key)) is None
        fate = self._store.put(held, at)
        if fate is Fate.NEW:
            self._spread([held])
            if isinstance(held.content, Member):
                self._members.seen(record.writer, new=new)
        return fate
