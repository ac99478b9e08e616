"""A cheap check of all jobs at once: whose iterations are as expected, and need no analysis yet.

A job's pattern predicts when its next iterations begin and what they send.  Readings of the meter
are compared with that: the bytes of each iteration, and mean and standard deviation of their times
in it.  A hundred jobs take about as long as one job in `iterations.completed`, which sees more.
It decides nothing: a job that deviates is analysed, and `change` tells whether it has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from hostcc.limits import MAX_JOBS
from hostcc.measure import bins
from hostcc.measure.iterations import Reference
from hostcc.measure.meter import NOBODY, Window
from hostcc.measure.pattern_watch import Watch
from hostcc.measure.series import NS, Floats, Ints

Bools = npt.NDArray[np.bool_]

SPREAD = 0.05
"""Periods by which the standard deviation of the times of an iteration's bytes may differ from the
pattern's."""
SILENT = 0.1
"""Periods after an iteration's begin in which nothing is sent: there it is silent for longest."""

MAX_CELLS = 1 << 17
"""Bins of destinations that are kept, 24 bytes each; when there are more, the job that has most is
no longer checked."""
MAX_INTERVAL_NS = 2 * NS
"""Readings are compared with what is expected at least so often."""
NEXT, PERIOD, DOUBT, REGULAR_UNTIL = 0, 1, -2, -1
"""Places in a row of `Expectation`."""
NO_CELLS = np.zeros((3, 0))

DEVIATED = -1.0
"""Doubt about an iteration after which the next one has to be as expected."""


@dataclass(frozen=True, eq=False)
class Expectation:
    """What n jobs send next, if they stay regular; each array has shape (n,)."""

    next_ns: Floats
    """Where the next iteration begins."""
    period_ns: Floats
    middle_ns: Floats
    """Mean time of an iteration's bytes, from its begin."""
    spread_ns: Floats
    """Standard deviation of that time."""
    sent: Floats
    """Bytes of an iteration."""
    moved_ns: Floats
    """By this an iteration may be longer or shorter."""
    bytes_tolerance: Floats
    """By such a share it may send more or less."""
    doubt: Floats
    """About the last iteration: 0 where it was as expected; where it only sent more, and the one
    before it was as expected, its bytes over those expected; else `DEVIATED`."""
    regular_until_ns: Floats
    """Where the first iteration begins, of those at the end, that was not as expected or has not
    been compared."""

    def __len__(self) -> int:
        return len(self.next_ns)


def expected(watch: Watch, from_ns: float) -> list[float] | None:
    """A job's part of `Expectation`, in the order of its fields; None: nothing can be expected.

    `from_ns`: what came before is not there to be compared.
    """
    known = watch.known
    if known is None or known.floor > 0:
        return None
    bin_ns = watch.levels[watch.level].bin_ns
    period_ns = known.period * bin_ns
    passed = max(0.0, np.ceil((from_ns - watch.next_ns) / period_ns - SILENT))
    middle, spread = _shape(known)
    return [
        watch.next_ns + passed * period_ns,
        period_ns,
        middle * bin_ns,
        spread * bin_ns,
        known.sent,
        known.interval_tolerance * period_ns,
        known.bytes_tolerance,
        0.0,
        watch.next_ns,
    ]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What n jobs did; each array has shape (n,)."""

    next_ns: Floats
    """Where the next iterations begin now."""
    doubt: Floats
    """As in `Expectation`."""
    deviates: Bools
    """Whether a job needs an analysis: two iterations in a row were not as expected; three, where
    the first two only sent more and not the same, as when segments are sent again."""
    regular_until_ns: Floats
    """As in `Expectation`; of a job that deviates where the first of those iterations begins."""


def compared(
    known: Expectation, job: Ints, at_ns: Floats, sent: Floats, until_ns: float
) -> Outcome:
    """The iterations that are complete by now, compared with what was expected.

    `job`, `at_ns`, `sent`: bytes, when and of which job, shape (k,): all from `next_ns` until
    `until_ns`, and perhaps others from before.
    """
    count = np.maximum((until_ns - known.next_ns) // known.period_ns, 0).astype(np.int64)
    owner = np.repeat(np.arange(len(known)), count)
    first = np.cumsum(count) - count
    moved, before, here = _deviations(known, count, first, owner, (job, at_ns, sent))
    number = np.arange(len(owner)) - first[owner]
    begin_ns = known.next_ns[owner] + number * known.period_ns[owner] + before
    doubt, next_ns = known.doubt.copy(), known.next_ns + count * known.period_ns
    some = np.flatnonzero(count)
    begins, last = first[some], (first + count - 1)[some]
    again = (here != 0) & (_previous(here, doubt[some], begins) != 0)
    after = np.where(again, DEVIATED, here)
    past = _previous(after, doubt[some], begins)
    alike = np.abs(here - past) <= known.bytes_tolerance[owner] * past
    strange = np.flatnonzero(again & ((np.minimum(here, past) < 0) | alike))
    others, which = np.unique(owner[strange], return_index=True)
    doubt[some] = after[last]
    next_ns[some] += np.nan_to_num(moved[last])
    # The first that was not as expected: the first of those in a row.
    odd = first + count
    odd[some] -= np.where(after[last] != 0, 1 + again[last], 0)
    ends = strange[which]
    odd[others] = ends - 1 - again[ends - 1]
    begin_ns = np.append(begin_ns, 0.0)
    regular_until_ns = np.where(odd < first + count, begin_ns[np.minimum(odd, len(owner))], next_ns)
    regular_until_ns = np.where(odd <= first, known.regular_until_ns, regular_until_ns)
    deviates = np.zeros(len(known), np.bool_)
    deviates[others] = True
    return Outcome(next_ns, doubt, deviates, regular_until_ns)


def _deviations(
    known: Expectation, count: Ints, first: Ints, owner: Ints, sent: tuple[Ints, Floats, Floats]
) -> tuple[Floats, Floats, Floats]:
    """By how much each complete iteration's bytes, and those of the one before it, came late,
    nanoseconds, and doubt about it alone; shapes (iterations,).

    `count`, `first`: iterations of each job and the first of them; `owner`: the job of each;
    `sent`: of which job, when and how much.
    """
    job, at_ns, size = sent
    after_ns = at_ns - known.next_ns[job]
    number = np.floor(after_ns / known.period_ns[job])
    complete = (number >= 0) & (number < count[job])
    job, size = job[complete], size[complete]
    after_ns, number = after_ns[complete], number[complete].astype(np.int64)
    after_ns -= number * known.period_ns[job] + known.middle_ns[job]
    total, moved, spread = _moments(first[job] + number, size, after_ns, len(owner))
    before = np.nan_to_num(_previous(moved, 0.0, first[count > 0]))
    times, tolerance = total / known.sent[owner], known.bytes_tolerance[owner]
    # What is no number, where nothing was sent, is not as expected.
    where = (np.abs(moved - before) <= known.moved_ns[owner]) & (
        np.abs(spread - known.spread_ns[owner]) <= SPREAD * known.period_ns[owner]
    )
    doubt = np.where(where & (times > 1), times, DEVIATED)
    doubt[where & (np.abs(times - 1) <= tolerance)] = 0.0
    return moved, before, doubt


def _previous(values: Floats, at_first: Floats | float, begins: Ints) -> Floats:
    """Of each iteration the value of the one before it; `begins`: those that are their job's
    first, and theirs."""
    found = np.concatenate(((0.0,), values[:-1]))[: len(values)]
    found[begins] = at_first
    return found


def _moments(group: Ints, weight: Floats, at: Floats, groups: int) -> tuple[Floats, Floats, Floats]:
    """What the weights of each group sum up to, and mean and deviation of where they are.

    Shapes (groups,); the last two are nan where there is nothing.
    """
    total = np.asarray(np.bincount(group, weight, groups), np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(group, weight * at, groups) / total
        square = np.bincount(group, weight * (at - mean[group]) ** 2, groups) / total
    return total, mean, np.sqrt(square)


def _shape(known: Reference) -> tuple[float, float]:
    """Mean and deviation of where the pattern's bytes are, bins from its begin."""
    weight = np.maximum(known.pattern, 0.0)
    scale = known.period / len(weight)
    at = (np.arange(len(weight)) + 0.5) * scale
    total = max(float(weight.sum()), 1e-300)
    middle = float(at @ weight) / total
    return middle, float(np.sqrt((at - middle) ** 2 @ weight / total))


class ExpectationTracker:
    """Knows after each reading of the meter which jobs are as they were when last analysed."""

    def __init__(self) -> None:
        self._rows = np.zeros((0, len(fields(Expectation))))
        """Of each job of which something is expected its part of `Expectation`."""
        self._place: dict[str, int] = {}
        """Job -> which row."""
        self._regular_until_ns: dict[str, float] = {}
        """Until when jobs were as expected that are so no longer."""
        self._counted: Floats = NO_CELLS
        """What was counted, until the iteration that it is part of is complete: slot, when, bytes;
        shape (3, k)."""
        self.until_ns = 0
        """End of the last reading that was compared."""
        self._more: list[Window] = []
        """Those after it."""

    def is_regular(self, name: str) -> bool:
        """Whether a job's iterations have been as expected since it was analysed."""
        return name in self._place

    def regular_until_ns(self, name: str) -> float | None:
        """Until when they surely were; None where nothing was expected."""
        place = self._place.get(name)
        return (
            self._regular_until_ns.get(name)
            if place is None
            else float(self._rows[place, REGULAR_UNTIL])
        )

    def expect(self, name: str, watch: Watch | None) -> None:
        """Expect from now on the pattern that an analysis has found."""
        place = self._place.get(name)
        from_ns = self.until_ns if place is None else float(self._rows[place, NEXT])
        self._regular_until_ns.pop(name, None)
        row = None if watch is None else expected(watch, from_ns)
        if row is None:
            self._drop({name})
        elif place is not None:
            self._rows[place] = row
        else:
            self._place[name] = len(self._rows)
            self._rows = np.append(self._rows, [row], axis=0)

    def keep(self, names: Collection[str]) -> None:
        """Forget all other jobs."""
        self._drop(self._place.keys() - names)
        self._regular_until_ns = {
            name: ns for name, ns in self._regular_until_ns.items() if name in names
        }

    def add_reading(self, window: Window, jobs: Mapping[int, str]) -> None:
        """Compare a reading, which comes after the last one.  `jobs`: slot -> name."""
        before_ns = self._more[-1].end_ns if self._more else self.until_ns
        if window.start_ns != before_ns or window.lost.bins:
            self._drop(set(self._place))
            self._regular_until_ns, self._counted, self._more = {}, NO_CELLS, []
            self.until_ns = window.start_ns
        self._more.append(window)
        if window.end_ns - self.until_ns < self._interval_ns:
            return
        self.until_ns = window.end_ns
        more, self._more = self._more, []
        if not self._place:
            return
        self._counted = np.concatenate((self._counted, *map(_cells_of, more)), axis=1)
        self._compare(jobs)
        while self._counted.shape[1] > MAX_CELLS:
            slot = self._counted[0]
            busiest = int(np.bincount(slot.astype(np.int64)).argmax())
            self._drop({jobs.get(busiest, "")})
            self._counted = self._counted[:, slot != busiest]

    @property
    def _interval_ns(self) -> float:
        """Nanoseconds that are compared at once: an iteration of the job with the shortest."""
        return (
            min(MAX_INTERVAL_NS, self._rows[:, PERIOD].min(initial=np.inf)) if self._place else 0.0
        )

    def _compare(self, jobs: Mapping[int, str]) -> None:
        job = self._rows_of(jobs)[self._counted[0].astype(np.int64)]
        of_one = job >= 0
        job, (_, at_ns, sent) = job[of_one], (counted := self._counted[:, of_one])
        now = compared(Expectation(*self._rows.T), job, at_ns, sent, self.until_ns)
        self._rows[:, NEXT], self._rows[:, DOUBT], self._rows[:, REGULAR_UNTIL] = (
            now.next_ns, now.doubt, now.regular_until_ns
        )  # fmt: skip
        self._counted = counted[:, ~now.deviates[job] & (at_ns >= now.next_ns[job])]
        names = list(self._place)
        others = {
            names[place]: float(now.regular_until_ns[place])
            for place in np.flatnonzero(now.deviates)
        }
        self._regular_until_ns.update(others)
        self._drop(others)

    def _rows_of(self, jobs: Mapping[int, str]) -> Ints:
        """Slot -> row; -1 where nothing is expected."""
        found = np.full(MAX_JOBS, -1)
        for slot, name in jobs.items():
            found[slot] = self._place.get(name, -1)
        return found

    def _drop(self, names: Collection[str]) -> None:
        if self._place.keys().isdisjoint(names):
            return
        left = [name for name in self._place if name not in names]
        self._rows = self._rows[[self._place[name] for name in left]]
        self._place = {name: place for place, name in enumerate(left)}


def _cells_of(window: Window) -> Floats:
    """Slot, when and how much of each cell, nobody's over loopback; shape (3, k)."""
    slot = np.where(window.who["local"], NOBODY, window.who["slot"])[window.row]
    at_ns = window.start_ns + (window.bin + 0.5) * window.bin_ns
    return np.stack((slot, at_ns, bins.payload_both(window.words)))
