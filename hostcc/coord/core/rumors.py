"""Spreads fresh records: first whole to a few members, then announced by hash to more.

A share e^-eager of the members is missed at first; they request a record when it is announced (24
bytes). A record then costs a member about `eager` times its size instead of ln(members) times.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hostcc.coord.core.record_checker import CheckedRecord
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store

MAX_EXAMINED_RECORDS = 512
"""Records examined for one message, which bounds the cost of a flood."""
SWEEP_MARGIN_RECORDS = 256
"""Growth beyond twice the records of the last sweep that triggers the next sweep."""


class Rumors:
    """Records still to be spread; a newer record replaces an older one in its slot."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._eager: dict[int, CheckedRecord] = {}
        self._left: dict[int, int] = {}
        """Members that are still to be sent an eager record, where it was sent to some: of those
        that a member hears when it joins, thousands wait for their first."""
        self._announced: dict[int, tuple[CheckedRecord, int]] = {}
        self.most = SWEEP_MARGIN_RECORDS
        """Number of records above which outdated ones are dropped."""

    def __len__(self) -> int:
        return len(self._eager) + len(self._announced)

    def add(self, held: CheckedRecord) -> None:
        """Add a record that this member has just learned."""
        self._announced.pop(held.slot, None)
        self._eager.pop(held.slot, None)
        self._left.pop(held.slot, None)
        self._eager[held.slot] = held
        if len(self) > self.most:
            self._eager = {k: v for k, v in self._eager.items() if self._current(v)}
            self._left = {k: v for k, v in self._left.items() if k in self._eager}
            self._announced = {k: v for k, v in self._announced.items() if self._current(v[0])}
            self.most = SWEEP_MARGIN_RECORDS + 2 * len(self)

    def records(self, most_bytes: float, members: int) -> Iterator[CheckedRecord]:
        """Yield records to send to one member, at most `most_bytes` in total."""
        announcements = self._settings.announcements(members)
        for slot, held in list(islice(self._eager.items(), MAX_EXAMINED_RECORDS)):
            if held.size > most_bytes:
                return
            del self._eager[slot]
            left = self._left.pop(slot, self._settings.eager)
            if not self._current(held):
                continue
            most_bytes -= held.size
            if left > 1:
                self._eager[slot], self._left[slot] = held, left - 1
            elif announcements > 0:
                self._announced[slot] = (held, announcements)
            yield held

    def announcements(self, most: int) -> Iterator[CheckedRecord]:
        """Yield at most `most` records to announce to one member."""
        count = min(most, MAX_EXAMINED_RECORDS)
        for slot, (held, left) in list(islice(self._announced.items(), count)):
            del self._announced[slot]
            if not self._current(held):
                continue
            if left > 1:
                self._announced[slot] = (held, left - 1)
            yield held

    def _current(self, held: CheckedRecord) -> bool:
        record = held.record
        return self._store.get(record.writer, (record.kind, record.key)) is held
