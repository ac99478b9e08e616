"""Fresh records on their way: first as they are to a few, then announced to more.

What e^-eager of the members have missed they ask for when they hear its name (24 bytes), so a
record costs a member about eager times its size instead of ln(members) times.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hostcc.coord.core.intake import CheckedRecord
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store

EXAMINED = 512
"""Records looked at for one message, so that a flood costs a round no more than this."""
SWEPT = 256
"""Records above twice what was current at the last sweep, from which on there is another."""


class Rumors:
    """What is still to be told; a newer record takes the place of an older one."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._eager: dict[int, tuple[CheckedRecord, int]] = {}
        self._announced: dict[int, tuple[CheckedRecord, int]] = {}
        self.most = SWEPT
        """When there are more, those that are no longer current are dropped."""

    def __len__(self) -> int:
        return len(self._eager) + len(self._announced)

    def add(self, held: CheckedRecord) -> None:
        """Something that this member has just learned."""
        self._announced.pop(held.slot, None)
        self._eager.pop(held.slot, None)
        self._eager[held.slot] = (held, self._settings.eager)
        if len(self) > self.most:
            self._eager = {k: v for k, v in self._eager.items() if self._current(v[0])}
            self._announced = {k: v for k, v in self._announced.items() if self._current(v[0])}
            self.most = SWEPT + 2 * len(self)

    def records(self, most_bytes: float, members: int) -> Iterator[CheckedRecord]:
        """Records for one member, within a number of bytes."""
        announcements = self._settings.announcements(members)
        for slot, (held, left) in list(islice(self._eager.items(), EXAMINED)):
            if held.size > most_bytes:
                return
            del self._eager[slot]
            if not self._current(held):
                continue
            most_bytes -= held.size
            if left > 1:
                self._eager[slot] = (held, left - 1)
            elif announcements > 0:
                self._announced[slot] = (held, announcements)
            yield held

    def announcements(self, most: int) -> Iterator[CheckedRecord]:
        """Records to name to one member."""
        for slot, (held, left) in list(islice(self._announced.items(), min(most, EXAMINED))):
            del self._announced[slot]
            if not self._current(held):
                continue
            if left > 1:
                self._announced[slot] = (held, left - 1)
            yield held

    def _current(self, held: CheckedRecord) -> bool:
        record = held.record
        return self._store.get(record.writer, (record.kind, record.key)) is held
