"""Spreads fresh records: first whole to a few members, then announced by hash to more.

A share e^-eager of the members is missed at first; they request a record when it is announced (24
bytes). A record then costs a member about `eager` times its size instead of ln(members) times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from hostcc.coord.core.record_checker import CheckedRecord
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store

MAX_EXAMINED_RECORDS = 512
"""Records examined for one message, which bounds the cost of a flood."""
SWEEP_MARGIN_RECORDS = 256
"""Growth beyond twice the records of the last sweep that triggers the next sweep."""


class Rumors:
    """Records still to be spread; one that a newer record has replaced is skipped when its turn
    comes."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._eager = RecordQueue(self._current)
        self._announced = RecordQueue(self._current)
        self.most = SWEEP_MARGIN_RECORDS
        """Number of records above which outdated ones are dropped."""

    def __len__(self) -> int:
        return len(self._eager) + len(self._announced)

    def add(self, held: CheckedRecord) -> None:
        """Add a record that this member has just learned."""
        self._eager.add(held, self._settings.eager)
        if len(self) > self.most:
            self._eager.sweep()
            self._announced.sweep()
            self.most = SWEEP_MARGIN_RECORDS + 2 * len(self)

    def records(self, most_bytes: float, members: int) -> Iterator[CheckedRecord]:
        """Yield records to send to one member, at most `most_bytes` in total."""
        announcements = self._settings.announcements(members)
        for _ in range(min(len(self._eager), MAX_EXAMINED_RECORDS)):
            if self._eager.first.size > most_bytes:
                return
            held, left = self._eager.take()
            if not self._current(held):
                continue
            most_bytes -= held.size
            if left > 1:
                self._eager.add(held, left - 1)
            elif announcements > 0:
                self._announced.add(held, announcements)
            yield held

    def announcements(self, most: int) -> Iterator[CheckedRecord]:
        """Yield at most `most` records to announce to one member."""
        for _ in range(min(most, len(self._announced), MAX_EXAMINED_RECORDS)):
            held, left = self._announced.take()
            if not self._current(held):
                continue
            if left > 1:
                self._announced.add(held, left - 1)
            yield held

    def _current(self, held: CheckedRecord) -> bool:
        return self._store.get(held.writer, (held.kind, held.key)) is held


class RecordQueue:
    """Records in turn, each with the number of members that it is still for.

    Two rows instead of pairs or a mapping: a member that joins has tens of thousands to pass on.
    """

    def __init__(self, current: Callable[[CheckedRecord], bool]) -> None:
        """`current` tells whether a record is still held."""
        self._current = current
        self._records: deque[CheckedRecord] = deque()
        self._left: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._records)

    @property
    def first(self) -> CheckedRecord:
        """The record whose turn it is."""
        return self._records[0]

    def add(self, held: CheckedRecord, left: int) -> None:
        """Add a record at the end."""
        self._records.append(held)
        self._left.append(left)

    def take(self) -> tuple[CheckedRecord, int]:
        """Remove and return the record whose turn it is, and for how many members it is."""
        return self._records.popleft(), self._left.popleft()

    def sweep(self) -> None:
        """Drop records that are no longer held."""
        for _ in range(len(self)):
            held, left = self.take()
            if self._current(held):
                self.add(held, left)
