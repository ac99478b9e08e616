"""Which jobs go on as they did, from readings as they come; the others have to be looked at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields

import numpy as np

from hostcc.limits import MAX_JOBS
from hostcc.measure import bins
from hostcc.measure.expected import Expectation, compared, expected
from hostcc.measure.meter import NOBODY, Window
from hostcc.measure.series import NS, Floats, Ints
from hostcc.measure.watch import Watch

MOST = 1 << 17
"""Bins of destinations that are kept, 24 bytes each; of the job that has most nothing is expected
when there are more."""

NOTHING = np.zeros((3, 0))
OFTEN_NS = 2 * NS
"""Readings are compared with what is expected so often at least."""
NEXT, PERIOD, DOUBT, SURE = 0, 1, -2, -1
"""Places in a row of `Expectation`."""


class ExpectationTracker:
    """Jobs of known pattern are told after each look at them, readings of the meter in order."""

    def __init__(self) -> None:
        self._rows = np.zeros((0, len(fields(Expectation))))
        """Of each job of which something is expected its part of `Expectation`."""
        self._place: dict[str, int] = {}
        """Job -> which row."""
        self._of_slot: tuple[Mapping[int, str], Ints] | None = None
        """Slot -> row, or -1, and the jobs that it was made for."""
        self._sure_ns: dict[str, float] = {}
        """Until when those went on that do so no longer."""
        self._counted: Floats = NOTHING
        """What was counted, until the iteration that it is part of is complete: slot, when, bytes;
        shape (3, k)."""
        self.until_ns = 0
        """End of the last reading that was compared."""
        self._more: list[Window] = []
        """Those after it."""

    def goes_on(self, name: str) -> bool:
        """Whether a job has done nothing else since it was looked at."""
        return name in self._place

    def sure_ns(self, name: str) -> float | None:
        """Until when it surely went on as it did; None where nothing was expected of it."""
        place = self._place.get(name)
        return self._sure_ns.get(name) if place is None else float(self._rows[place, SURE])

    def looked_at(self, name: str, watch: Watch | None) -> None:
        """Expect from now on what is known of a job now."""
        place = self._place.get(name)
        from_ns = self.until_ns if place is None else float(self._rows[place, NEXT])
        self._sure_ns.pop(name, None)
        row = None if watch is None else expected(watch, from_ns)
        if row is None:
            self._drop({name})
        elif place is not None:
            self._rows[place] = row
        else:
            self._place[name], self._of_slot = len(self._rows), None
            self._rows = np.append(self._rows, [row], axis=0)

    def keep(self, names: Collection[str]) -> None:
        """Forget all other jobs."""
        self._drop(self._place.keys() - names)
        self._sure_ns = {name: ns for name, ns in self._sure_ns.items() if name in names}

    def heard(self, window: Window, jobs: Mapping[int, str]) -> None:
        """What came after the last reading.  `jobs`: slot -> name."""
        before_ns = self._more[-1].end_ns if self._more else self.until_ns
        if window.start_ns != before_ns or window.lost.bins:
            self._drop(set(self._place))
            self._sure_ns, self._counted, self._more = {}, NOTHING, []
            self.until_ns = window.start_ns
        self._more.append(window)
        if window.end_ns - self.until_ns < self._often_ns:
            return
        self.until_ns = window.end_ns
        more, self._more = self._more, []
        if not self._place:
            return
        self._counted = np.concatenate((self._counted, *map(_cells_of, more)), axis=1)
        self._compare(jobs)
        while self._counted.shape[1] > MOST:
            slot = self._counted[0]
            busiest = int(np.bincount(slot.astype(np.int64)).argmax())
            self._drop({jobs.get(busiest, "")})
            self._counted = self._counted[:, slot != busiest]

    @property
    def _often_ns(self) -> float:
        """So much is compared at once: an iteration of the job whose are shortest."""
        return min(OFTEN_NS, self._rows[:, PERIOD].min(initial=np.inf)) if self._place else 0.0

    def _compare(self, jobs: Mapping[int, str]) -> None:
        job = self._rows_of(jobs)[self._counted[0].astype(np.int64)]
        of_one = job >= 0
        job, (_, at_ns, sent) = job[of_one], (counted := self._counted[:, of_one])
        now = compared(Expectation(*self._rows.T), job, at_ns, sent, self.until_ns)
        self._rows[:, NEXT], self._rows[:, DOUBT], self._rows[:, SURE] = (
            now.next_ns, now.doubt, now.sure_ns
        )  # fmt: skip
        self._counted = counted[:, ~now.other[job] & (at_ns >= now.next_ns[job])]
        names = list(self._place)
        others = {names[place]: float(now.sure_ns[place]) for place in np.flatnonzero(now.other)}
        self._sure_ns.update(others)
        self._drop(others)

    def _rows_of(self, jobs: Mapping[int, str]) -> Ints:
        """Slot -> row; -1 where nothing is expected."""
        if self._of_slot is None or self._of_slot[0] != jobs:
            found = np.full(MAX_JOBS, -1)
            for slot, name in jobs.items():
                found[slot] = self._place.get(name, -1)
            self._of_slot = dict(jobs), found
        return self._of_slot[1]

    def _drop(self, names: Collection[str]) -> None:
        if self._place.keys().isdisjoint(names):
            return
        left = [name for name in self._place if name not in names]
        self._rows = self._rows[[self._place[name] for name in left]]
        self._place, self._of_slot = {name: place for place, name in enumerate(left)}, None


def _cells_of(window: Window) -> Floats:
    """Slot, when and how much of each cell, nobody's over loopback; shape (3, k)."""
    slot = np.where(window.who["local"], NOBODY, window.who["slot"])[window.row]
    at_ns = window.start_ns + (window.bin + 0.5) * window.bin_ns
    return np.stack((slot, at_ns, bins.payload_both(window.words)))
