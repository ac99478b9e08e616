"""Which jobs go on as they did, from readings as they come; the others have to be looked at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from hostcc.limits import MAX_JOBS
from hostcc.measure import bins
from hostcc.measure.expected import Expected, compared, expected
from hostcc.measure.meter import Window
from hostcc.measure.series import Floats, Ints
from hostcc.measure.watch import Watch

MOST = 1 << 17
"""Bins of destinations that are kept, 24 bytes each; of the job that has most nothing is expected
when there are more."""

NEXT, DOUBT, SURE = 0, -2, -1
"""Places in a row of `Expected`."""


class Expecting:
    """Jobs of known pattern are told after each look at them, readings of the meter in order."""

    def __init__(self) -> None:
        self._rows = np.zeros((0, len(fields(Expected))))
        """Of each job of which something is expected its part of `Expected`."""
        self._place: dict[str, int] = {}
        """Job -> which row."""
        self._of_slot: tuple[Mapping[int, str], Ints] | None = None
        """Slot -> row, or -1, and the jobs that it was made for."""
        self._sure_ns: dict[str, float] = {}
        """Until when those went on that do so no longer."""
        self._slot: Ints = np.zeros(0, np.int64)
        self._at_ns: Floats = np.zeros(0)
        self._sent: Floats = np.zeros(0)
        """What was counted, until the iteration that it is part of is complete."""
        self.until_ns = 0
        """End of the last reading."""

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
        if window.start_ns != self.until_ns or window.lost.bins:
            self._drop(set(self._place))
            self._sure_ns, self._slot = {}, self._slot[:0]
            self._at_ns, self._sent = self._at_ns[:0], self._sent[:0]
        self.until_ns = window.end_ns
        if not self._place:
            return
        shown = ~window.who["local"][window.row]
        slot = window.who["slot"][window.row[shown]].astype(np.int64)
        at_ns = window.start_ns + (window.bin[shown] + 0.5) * window.bin_ns
        sent = bins.payload(window.words[shown]).sum(axis=1, dtype=np.float64)
        self._slot = np.concatenate((self._slot, slot))
        self._at_ns = np.concatenate((self._at_ns, at_ns))
        self._sent = np.concatenate((self._sent, sent))
        self._compare(jobs)
        while len(self._slot) > MOST:
            busiest = int(np.bincount(self._slot).argmax())
            self._drop({jobs.get(busiest, "")})
            self._keep(self._slot != busiest)

    def _compare(self, jobs: Mapping[int, str]) -> None:
        job = self._rows_of(jobs)[self._slot]
        self._keep(job >= 0)
        job = job[job >= 0]
        now = compared(Expected(*self._rows.T), job, self._at_ns, self._sent, self.until_ns)
        self._rows[:, NEXT], self._rows[:, DOUBT], self._rows[:, SURE] = (
            now.next_ns, now.doubt, now.sure_ns
        )  # fmt: skip
        self._keep(~now.other[job] & (self._at_ns >= now.next_ns[job]))
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

    def _keep(self, which: npt.NDArray[np.bool_]) -> None:
        self._slot, self._at_ns = self._slot[which], self._at_ns[which]
        self._sent = self._sent[which]
