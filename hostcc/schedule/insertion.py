"""Improves an order by re-insertion: jobs move to the best place among their contenders.

A move is judged at the others' present rates: below i, j loses about worth_j v_j^2 d_ij v_i. Jobs
move one at a time. Of very many jobs all move at once, each as if the others stayed, which finds
nearly as much in a few vector operations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.problem import Floats, Ints

MAX_JOINT_MOVES = 2
"""Times that all jobs move at once."""
MAX_SWEEPS = 4
"""Times that every job is considered by itself."""
MAX_SWEEP_JOBS = 1500
"""Jobs above which all move at once."""
MIN_RELATIVE_GAIN = 1e-9
"""Relative gain that a move must exceed."""
RATE_ROUNDS = 24
"""Iterations of the rates: exact after the length of the longest chain, and close much earlier."""
RATE_TOLERANCE = 1e-6
"""Change of rates at which their iteration stops."""


class InsertionSearch:
    """Improves an order of J jobs.

    Pair n consists of jobs `one[n]` and `other[n]`: the first loses `one_below[n]` below the
    second, the second `other_below[n]` below the first.
    """

    def __init__(
        self,
        jobs: int,
        pairs: tuple[Ints, Ints],
        losses: tuple[Floats, Floats],
        worth: Floats,
        start: Ints,
    ) -> None:
        """`losses`: (one_below, other_below); `worth` (J,) FLOP/s; `start` (J,) ranks."""
        self.jobs, self.worth = jobs, worth
        lossy = np.flatnonzero((losses[0] > 0) | (losses[1] > 0))
        self.one, self.other = pairs[0][lossy], pairs[1][lossy]
        self.one_below, self.other_below = losses[0][lossy], losses[1][lossy]
        # Each pair once for either job: the jobs that it faces, next to each other.
        owner = np.concatenate([self.one, self.other])
        self.by = sorting.order(owner)
        self.owner = owner[self.by]
        self.faced = np.concatenate([self.other, self.one])[self.by]
        self.starts = np.searchsorted(self.owner, np.arange(jobs + 1))
        self.position = start.astype(np.float64)

    def run(self) -> Ints:
        """Return the ranks (J,) of the best order found."""
        if self.jobs <= MAX_SWEEP_JOBS:
            self._repeat(self._one_by_one, MAX_SWEEPS)
        else:
            self._repeat(self._together, MAX_JOINT_MOVES)
        return self.position.astype(np.int64)

    def _repeat(self, improve: Callable[[Floats], bool], times: int) -> None:
        """Repeat `improve` while it helps; `position` holds ranks before and after."""
        speed = self._speeds()
        value = float((speed * self.worth).sum())
        for _ in range(times):
            before, self.position = self.position, self.position.copy()
            if not improve(speed):
                break
            by_place = np.argsort(self.position, kind="stable")
            self.position = np.empty(self.jobs)
            self.position[by_place] = np.arange(self.jobs)
            speed, last = self._speeds(), value
            value = float((speed * self.worth).sum())
            if value <= last * (1 + MIN_RELATIVE_GAIN):
                self.position = before
                break

    def _speeds(self) -> Floats:
        """Return v (J,) under the present order."""
        under = self.position[self.other] < self.position[self.one]
        loss = np.where(under, self.one_below, self.other_below)
        loses = np.flatnonzero(loss > 0)
        loss, under = loss[loses], under[loses]
        one, other = self.one[loses], self.other[loses]
        lower, upper = np.where(under, one, other), np.where(under, other, one)
        speed = np.ones(self.jobs)
        for _ in range(RATE_ROUNDS):
            fresh = 1 / (1 + np.bincount(lower, loss * speed[upper], self.jobs))
            if np.abs(fresh - speed).max(initial=0.0) < RATE_TOLERANCE:
                break
            speed = fresh
        return speed

    def _changes(self, speed: Floats) -> Floats:
        """Return (N,) the additional loss if `one` goes below `other`."""
        v, u = speed[self.one], speed[self.other]
        down = self.worth[self.one] * v * v * self.one_below * u
        up = self.worth[self.other] * u * u * self.other_below * v
        return np.asarray(down - up)

    def _either(self, change: Floats) -> Floats:
        """Return the same by `owner` and `faced`."""
        return np.concatenate([change, -change])[self.by]

    def _together(self, speed: Floats) -> bool:
        """Move every job to where it would go if it were the only one to move."""
        if not len(self.owner):
            return False
        place = self.position.astype(np.int64)[self.faced]
        by = sorting.order(self.owner * self.jobs + place)
        place = place[by]
        # What standing below one more costs, from the top downwards.
        worse = self._either(self._changes(speed))[by]
        own = np.flatnonzero(np.diff(self.starts))
        starts = self.starts[own]
        count = np.diff(np.append(starts, len(by)))
        total = np.cumsum(worse)
        total -= np.repeat((total - worse)[starts], count)
        least = np.minimum(np.minimum.reduceat(total, starts), 0.0)
        passed = np.where(place < np.repeat(self.position[own], count), worse, 0.0)
        now = np.add.reduceat(passed, starts)
        first = np.where(total <= np.repeat(least, count), np.arange(len(by)), len(by))
        cut = np.minimum.reduceat(first, starts)
        behind = place[np.minimum(cut, len(by) - 1)] + 0.5
        goal = np.where(least < 0, behind, place[starts] - 0.5)
        better = least < now - MIN_RELATIVE_GAIN * np.maximum(np.abs(now), np.abs(least))
        self.position[own[better]] = goal[better]
        return bool(better.any())

    def _one_by_one(self, speed: Floats) -> bool:
        """Re-insert every job that would gain by passing a contender, the most promising first."""
        change = self._changes(speed)
        under = self.position[self.other] < self.position[self.one]
        wrong = np.maximum(np.where(under, change, -change), 0.0)
        hope: Floats = np.bincount(self.one, wrong, self.jobs).astype(np.float64)
        hope += np.bincount(self.other, wrong, self.jobs)
        worse, starts = self._either(change), self.starts.tolist()
        moved = False
        for job in np.argsort(-hope, kind="stable")[: int((hope > 0).sum())].tolist():
            own = slice(starts[job], starts[job + 1])
            moved |= _insert(job, self.faced[own], worse[own], self.position)
        return moved


def _insert(job: int, others: Ints, worse: Floats, position: Floats) -> bool:
    """Move `job` to its best place; `worse[k]`: additional loss of going below others[k]."""
    line = position[others]
    by = line.argsort(kind="stable")
    line = line[by]
    # Cost relative to standing before all others.
    passed = np.zeros(len(by) + 1)
    np.cumsum(worse[by], out=passed[1:])
    cut = int(passed.argmin())
    least, now = float(passed[cut]), float(passed[line.searchsorted(position[job])])
    if least >= now - MIN_RELATIVE_GAIN * max(abs(now), abs(least)):
        return False
    before = line[cut - 1] if cut else line[0] - 2.0
    after = line[cut] if cut < len(line) else line[-1] + 2.0
    position[job] = (before + after) / 2
    return True
