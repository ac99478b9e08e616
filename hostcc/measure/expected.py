"""Whether jobs go on as they did: what came since, of all of them at once, by the clock.

Says less than `following`, of a hundred jobs for what that takes for one: enough to tell which
jobs need not be analysed yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hostcc.measure.changes import Reference
from hostcc.measure.series import Floats, Ints
from hostcc.measure.watch import Watch

Bools = npt.NDArray[np.bool_]

SPREAD = 0.05
"""Periods by which the deviation of an iteration's bytes from their middle may differ from the
pattern's."""
SILENT = 0.1
"""Periods after an iteration's begin in which nothing is sent: there it is silent for longest."""

ODD = -1.0
"""Doubt about an iteration after which the next one has to be as it should be."""


@dataclass(frozen=True, eq=False)
class Expectation:
    """What n jobs send next, if they go on; each array has shape (n,)."""

    next_ns: Floats
    """Where the next iteration begins."""
    period_ns: Floats
    middle_ns: Floats
    """Mean of where an iteration's bytes are, from its begin."""
    spread_ns: Floats
    """Deviation of that."""
    sent: Floats
    """Bytes of an iteration."""
    moved_ns: Floats
    """By so much an iteration may be longer or shorter."""
    bytes_tolerance: Floats
    """By such a share it may send more or less."""
    doubt: Floats
    """About the last iteration: 0 where it was as it should be; where it only sent more, and the
    one before it was as it should be, its bytes in those of an iteration; else `ODD`."""
    sure_ns: Floats
    """Where the first iteration begins that was not as it should be, of those at the end, or that
    has not been compared."""

    def __len__(self) -> int:
        return len(self.next_ns)


def expected(watch: Watch, from_ns: float) -> list[float] | None:
    """A job's part of `Expectation`, in the order of its fields; None: nothing can be told of it.

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
    other: Bools
    """Whether a job does not go on as it did: two in a row were not as they should be; three, where
    the first two only sent more and not the same, as when segments are sent again."""
    sure_ns: Floats
    """As in `Expectation`; of one that does not go on where the first of those begins."""


def compared(
    known: Expectation, job: Ints, at_ns: Floats, sent: Floats, until_ns: float
) -> Outcome:
    """The iterations that are complete by now beside what was expected of them.

    `job`, `at_ns`, `sent`: bytes, when and of which job, shape (k,): all from `next_ns` until
    `until_ns`, and perhaps others from before.
    """
    count = np.maximum((until_ns - known.next_ns) // known.period_ns, 0).astype(np.int64)
    owner = np.repeat(np.arange(len(known)), count)
    first = np.cumsum(count) - count
    moved, before, here = _beside(known, count, first, owner, (job, at_ns, sent))
    number = np.arange(len(owner)) - first[owner]
    begin_ns = known.next_ns[owner] + number * known.period_ns[owner] + before
    doubt, next_ns = known.doubt.copy(), known.next_ns + count * known.period_ns
    some = np.flatnonzero(count)
    begins, last = first[some], (first + count - 1)[some]
    again = (here != 0) & (_earlier(here, doubt[some], begins) != 0)
    after = np.where(again, ODD, here)
    past = _earlier(after, doubt[some], begins)
    alike = np.abs(here - past) <= known.bytes_tolerance[owner] * past
    strange = np.flatnonzero(again & ((np.minimum(here, past) < 0) | alike))
    others, which = np.unique(owner[strange], return_index=True)
    doubt[some] = after[last]
    next_ns[some] += np.nan_to_num(moved[last])
    # The first that was not as it should be: the first of those in a row.
    odd = first + count
    odd[some] -= np.where(after[last] != 0, 1 + again[last], 0)
    ends = strange[which]
    odd[others] = ends - 1 - again[ends - 1]
    begin_ns = np.append(begin_ns, 0.0)
    sure_ns = np.where(odd < first + count, begin_ns[np.minimum(odd, len(owner))], next_ns)
    sure_ns = np.where(odd <= first, known.sure_ns, sure_ns)
    other = np.zeros(len(known), np.bool_)
    other[others] = True
    return Outcome(next_ns, doubt, other, sure_ns)


def _beside(
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
    before = np.nan_to_num(_earlier(moved, 0.0, first[count > 0]))
    times, tolerance = total / known.sent[owner], known.bytes_tolerance[owner]
    # What is no number, where nothing was sent, is not as it should be.
    where = (np.abs(moved - before) <= known.moved_ns[owner]) & (
        np.abs(spread - known.spread_ns[owner]) <= SPREAD * known.period_ns[owner]
    )
    doubt = np.where(where & (times > 1), times, ODD)
    doubt[where & (np.abs(times - 1) <= tolerance)] = 0.0
    return moved, before, doubt


def _earlier(values: Floats, at_first: Floats | float, begins: Ints) -> Floats:
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
