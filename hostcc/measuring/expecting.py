"""Which jobs go on as they did, from readings as they come; the others have to be looked at."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
        self._rows: dict[str, list[float]] = {}
        """Job -> its part of `Expected`: first where the next iteration begins, then, from the
        end, until when it went on and whether that is in doubt."""
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
        return name in self._rows

    def sure_ns(self, name: str) -> float | None:
        """Until when it surely went on as it did; None where nothing was expected of it."""
        row = self._rows.get(name)
        return self._sure_ns.get(name) if row is None else row[SURE]

    def looked_at(self, name: str, watch: Watch | None) -> None:
        """Expect from now on what is known of a job now."""
        before = self._rows.pop(name, None)
        self._sure_ns.pop(name, None)
        from_ns = self.until_ns if before is None else before[NEXT]
        row = None if watch is None else expected(watch, from_ns)
        if row is not None:
            self._rows[name] = row

    def keep(self, names: Collection[str]) -> None:
        """Forget all other jobs."""
        self._rows = {name: row for name, row in self._rows.items() if name in names}
        self._sure_ns = {name: ns for name, ns in self._sure_ns.items() if name in names}

    def heard(self, window: Window, jobs: Mapping[int, str]) -> None:
        """What came after the last reading.  `jobs`: slot -> name."""
        if window.start_ns != self.until_ns or window.lost.bins:
            self._rows, self._sure_ns, self._slot = {}, {}, self._slot[:0]
            self._at_ns, self._sent = self._at_ns[:0], self._sent[:0]
        self.until_ns = window.end_ns
        if not self._rows:
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
            self._rows.pop(jobs.get(busiest, ""), None)
            self._keep(self._slot != busiest)

    def _compare(self, jobs: Mapping[int, str]) -> None:
        names = list(self._rows)
        numbers = {name: number for number, name in enumerate(names)}
        of_slot = np.full(MAX_JOBS, -1)
        for slot, name in jobs.items():
            of_slot[slot] = numbers.get(name, -1)
        job = of_slot[self._slot]
        self._keep(job >= 0)
        job = job[job >= 0]
        known = Expected(*np.array(list(self._rows.values())).T)
        now = compared(known, job, self._at_ns, self._sent, self.until_ns)
        told = np.stack((now.next_ns, now.doubt, now.sure_ns), axis=-1).tolist()
        for name, (next_ns, doubt, sure_ns), other in zip(
            names, told, now.other.tolist(), strict=True
        ):
            if other:
                del self._rows[name]
                self._sure_ns[name] = sure_ns
            else:
                row = self._rows[name]
                row[NEXT], row[DOUBT], row[SURE] = next_ns, doubt, sure_ns
        self._keep(~now.other[job] & (self._at_ns >= now.next_ns[job]))

    def _keep(self, which: npt.NDArray[np.bool_]) -> None:
        self._slot, self._at_ns = self._slot[which], self._at_ns[which]
        self._sent = self._sent[which]
