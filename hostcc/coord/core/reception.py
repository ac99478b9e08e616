"""Takes in records: tells what is new, what is refused, and whose allowance pays for it."""

from __future__ import annotations

from collections.abc import Callable

from hostcc.coord.core import payloads
from hostcc.coord.core.budget import NamedBudgets
from hostcc.coord.core.local_records import LocalRecords
from hostcc.coord.core.membership import Membership
from hostcc.coord.core.message import Record
from hostcc.coord.core.offenders import Offenders
from hostcc.coord.core.payloads import ACCUSE, CERTIFICATE, Member, PayloadError
from hostcc.coord.core.record_checker import (
    PROVING,
    CheckedRecord,
    RecordChecker,
    StrangerError,
    UnsignedError,
    slot_of,
    stamp_of,
)
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import PutResult, Store

MAX_CORRECTIONS = 16
"""Newer records that are returned for outdated ones in one message."""

Spread = Callable[[list[CheckedRecord]], None]


class Reception:
    """Puts received records into the store and passes new ones to `spread`."""

    def __init__(
        self,
        own: LocalRecords,
        store: Store,
        members: Membership,
        checker: RecordChecker,
        offenders: Offenders,
        settings: Settings,
        spread: Spread,
    ) -> None:
        self._own = own
        self._store = store
        self._members = members
        self._checker = checker
        self._offenders = offenders
        self._spread = spread
        self._writers = NamedBudgets(settings.writer_per_s, settings.writer_burst)
        self._unsigned = NamedBudgets(settings.writer_per_s, settings.writer_burst)
        self._unproven = NamedBudgets(settings.writer_per_s, settings.writer_burst)

    def take(
        self, peer: str, records: tuple[Record, ...], at: float, now: float
    ) -> tuple[int, list[CheckedRecord]]:
        """Return (number of new records, newer records to send back for outdated ones).

        `at` is experienced seconds, `now` the clock reading for events.
        """
        corrections: dict[int, CheckedRecord] = {}
        news = 0
        # Certificates first: they make the writers of the other records known.
        for record in sorted(records, key=lambda record: record.kind != CERTIFICATE):
            old, newer = self._old(record)
            if not old:
                held = self._admit(peer, record, at, now)
                news += held is not None and self._put(held, at, now) is PutResult.NEW
            elif newer is not None and len(corrections) < MAX_CORRECTIONS:
                corrections[newer.slot] = newer
        return news, list(corrections.values())

    def _old(self, record: Record) -> tuple[bool, CheckedRecord | None]:
        """Return (whether a record is outdated, the newer one if there is one), at no cost to its
        writer.

        Charging the writer would allow others to silence it by replaying its old records.
        """
        stamp = stamp_of(record)
        before = self._store.get(record.writer, (record.kind, record.key))
        if before is not None:
            if stamp < before.stamp:
                return True, before
            return record == before.record, None
        if record.writer == self._own.name:
            return False, None  # how a host learns of its earlier life
        dropped = self._store.dropped(slot_of(record.writer, record.kind, record.key), stamp)
        if dropped is not None:
            return True, dropped if dropped.record != record else None
        return self._void(record), None

    def _void(self, record: Record) -> bool:
        try:
            content = payloads.decode(record) if record.kind == ACCUSE else None
        except PayloadError:
            return False  # `_admit` refuses it and reports why
        return self._store.voids(record, content)

    def _admit(self, peer: str, record: Record, at: float, now: float) -> CheckedRecord | None:
        # A writer that is not known has no allowance: a relay could make up any number of them.
        known, proving = self._checker.knows(record.writer), record.kind in PROVING
        if not self._unsigned.left(peer, at) or (proving and not self._unproven.left(peer, at)):
            return None
        if known and not self._writers.take(record.writer, at):
            return None
        try:
            return self._checker.check(record)
        except StrangerError as error:
            # Nobody has signed it: the relay pays for what took time, and not whom it names.
            if proving:
                self._unproven.take(peer, at)
            if known:
                self._writers.give_back(record.writer)
            self._offenders.report_once("stranger", record.writer, str(error), at, now, peer)
        except (UnsignedError, PayloadError) as error:
            # An honest relay may know another key of the writer; the relay pays all the same.
            if isinstance(error, UnsignedError) and self._unsigned.take(peer, at):
                self._writers.give_back(record.writer)
            if peer == record.writer:
                self._offenders.strike(peer, str(error), at, now)
            else:
                self._offenders.report_once("refused", record.writer, str(error), at, now, peer)
        return None

    def _put(self, held: CheckedRecord, at: float, now: float) -> PutResult:
        record = held.record
        if record.writer == self._own.name:
            written = self._own.answer_foreign(held, at)
            if written and record.incarnation >= self._own.incarnation - 1:
                text = "a record of this name that this host has not written: replaced"
                self._offenders.report_once("name", self._own.name, text, at, now)
            self._spread(written)
            return PutResult.OLD
        new = self._store.get(record.writer, (record.kind, record.key)) is None
        fate = self._store.put(held, at)
        if fate is PutResult.NEW:
            self._spread([held])
            if isinstance(held.kept, Member):
                self._members.update_member(record.writer, new=new)
        return fate
