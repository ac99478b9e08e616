"""Fluid simulation: what schedules do to the jobs, for many schedules at a time.

Computation and communication alternate as in Crux (SIGCOMM'24, section 4.2). An iteration computes
for `compute` seconds, sends its flows from `comm_start` seconds on, and ends when both have ended;
the next starts at once. Links serve priority levels strictly, 0 first; within a level flows share
max-min fairly (per flow, by water-filling).

Every variant of a batch has its own clock. One step takes each variant to its next event, so that
arithmetic is on arrays (rows, B). hostcc.sim has an independent scalar implementation; tests
compare the two with each other and with exact results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.problem import Floats, Ints
from hostcc.schedule.rate_cache import MAX_ROWS, RateCache
from hostcc.schedule.simulation_rows import SimulationRows
from hostcc.schedule.waterfill import Sharing

TIME_EPS_S = 1e-9
"""Events closer than this many seconds are simultaneous."""
COMPACT_EVERY_STEPS = 64
"""Steps between removals of the variants that have ended."""
RATES_IF_ONE_IN = 4
"""New rates are computed once one in this many running variants waits for them."""


@dataclass(frozen=True)
class Cycle:
    """How J jobs alternate between computing and sending; all arrays (J,), in seconds."""

    compute: Floats
    comm_start: Floats
    start: Floats
    """Start of the first iteration; may be negative. Nothing is sent before 0."""


@dataclass(frozen=True)
class Group:
    """Variants that share a routing."""

    rows: SimulationRows
    """Flows of the members."""
    levels: Ints
    """(variants, members), 0 the highest priority."""
    members: Ints | None = None
    """Indices of the jobs that take part; None: all J. The others stay idle."""


@dataclass(frozen=True)
class Outcome:
    """Results of a batch, variants in the order of its groups."""

    compute_seconds: Floats
    """(B, J) computing time within the window."""
    iterations: Ints
    """(B, J) iterations that ended in the window."""


def simulate(cycle: Cycle, groups: Sequence[Group], t0: float, t1: float) -> Outcome:
    """Run every variant from time 0 to t1, measuring from t0 on.

    A job whose iteration takes no time at all is left out: its results are 0.
    """
    jobs = len(cycle.compute)
    groups = [group for group in groups if len(group.levels)]
    if not groups or not jobs:
        count = sum(len(group.levels) for group in groups)
        return Outcome(np.zeros((count, jobs)), np.zeros((count, jobs), np.int64))
    return _Batch(cycle, groups, t0, t1).run()


class _Batch:
    """State of the simulation: each variant's jobs in the order of their levels, W rows each."""

    def __init__(self, cycle: Cycle, groups: Sequence[Group], t0: float, t1: float) -> None:
        self.t0, self.t1 = t0, t1
        self.all_jobs = len(cycle.compute)
        self.jobs = max(group.levels.shape[1] for group in groups)
        self.width = max(group.rows.size.shape[1] for group in groups)
        levels = [_filled(group.levels, self.jobs) for group in groups]
        order = [np.argsort(one, axis=1, kind="stable") for one in levels]
        names = [self._names(group)[one] for group, one in zip(groups, order, strict=True)]
        self.order = np.concatenate(names).T
        self.sharing = Sharing.build(
            [group.rows for group in groups],
            order,
            np.take_along_axis(np.concatenate(levels), np.concatenate(order), 1).T,
        )
        size = self.sharing.size
        self.compute = np.append(cycle.compute, 0.0)[self.order]
        self.comm_start = np.append(cycle.comm_start, 0.0)[self.order]
        begun = np.append(cycle.start, np.inf)[self.order]
        empty = size.reshape(self.jobs, self.width, -1).max(axis=1) <= 0
        begun[empty & (self.compute <= TIME_EPS_S)] = np.inf
        self.compute_end = begun + self.compute
        self.comm_at = np.maximum(begun + self.comm_start, 0.0)
        self.sending = np.zeros(begun.shape, np.bool_)
        self.bytes = np.where(size > 0, size, np.inf)
        self.left = np.full(size.shape, np.inf)
        self.active = np.zeros(size.shape, np.bool_)
        self.busy = np.zeros(begun.shape, np.bool_)
        self.now = np.zeros(begun.shape[1])
        self.seconds = self._within(begun)
        self.ended = np.zeros(begun.shape, np.int64)
        self.place = np.arange(begun.shape[1])
        rows, count = size.shape
        self.memory = RateCache(rows, count) if rows <= MAX_ROWS else None

    def _names(self, group: Group) -> Ints:
        """Return a group's jobs by place; unused places hold job J, which never runs."""
        everybody = np.arange(self.all_jobs)
        members = everybody if group.members is None else group.members
        return np.append(members, np.full(self.jobs - len(members), self.all_jobs))

    def _within(self, begun: Floats) -> Floats:
        """Return seconds of the window that the computation of an iteration begun then takes."""
        last = np.minimum(self.t1, begun + self.compute)
        seconds: Floats = np.maximum(last - np.maximum(self.t0, begun), 0.0)
        return seconds

    def run(self) -> Outcome:
        count = len(self.now)
        seconds = np.zeros((count, self.all_jobs + 1))
        ended = np.zeros((count, self.all_jobs + 1), np.int64)
        step = 0
        while len(self.now):
            with np.errstate(divide="ignore", invalid="ignore"):
                self._step()
            step += 1
            if step % COMPACT_EVERY_STEPS == 0 or len(self.now) < 8:
                over = self.now >= self.t1
                if over.all() or (over.mean() > 0.1 and step % COMPACT_EVERY_STEPS == 0):
                    where = self.place[over, None], self.order[:, over].T
                    seconds[where] = self.seconds[:, over].T
                    ended[where] = self.ended[:, over].T
                    self._keep(~over)
        return Outcome(seconds[:, :-1], ended[:, :-1])

    def _keep(self, which: NDArray[np.bool_]) -> None:
        names = "order bytes compute comm_start compute_end comm_at sending left seconds ended"
        for name in [*names.split(), "active", "busy"]:
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[:, which]))
        self.now, self.place = self.now[which], self.place[which]
        self.sharing = self.sharing.kept(np.flatnonzero(which))

    def _step(self) -> None:
        rates, waiting = self._rates()
        waits = np.where(self.sending, self.compute_end, self.comm_at)
        waits[self.busy] = np.inf
        need = self.left / rates
        soonest = np.minimum(waits.min(axis=0) - self.now, need.min(axis=0))
        ahead = np.minimum(np.maximum(soonest, 0.0), self.t1 - self.now)
        if waiting is not None:
            ahead[waiting] = 0.0
        self.now = self.now + ahead
        rates *= ahead
        self.left -= rates
        np.copyto(self.left, np.inf, where=need <= ahead + TIME_EPS_S)
        self._update_active()
        self._start_and_end_phases()

    def _update_active(self) -> None:
        self.active = self.left < np.inf
        self.busy = np.any(self.active.reshape(self.jobs, self.width, -1), axis=1)

    def _rates(self) -> tuple[Floats, Ints | None]:
        """Return (R, B) bytes/s, and variants that wait because rates are computed in bulk."""
        if self.memory is None:
            return self.sharing.rates(self.active), None
        place, code = self.memory.place(self.active, self.place)
        running = self.now < self.t1
        fresh = np.flatnonzero(~self.memory.contains(place, code) & running)
        late = None
        if len(fresh) * RATES_IF_ONE_IN >= np.count_nonzero(running):
            if len(fresh):
                rates = self.sharing.kept(fresh).rates(self.active[:, fresh])
                self.memory.store(place[fresh], code[fresh], rates)
        elif len(fresh):
            late = fresh
        rates = self.memory.at(place)
        if late is not None:
            rates[:, late] = 0.0
        return rates, late

    def _start_and_end_phases(self) -> None:
        reached = self.now + TIME_EPS_S
        ends = self.sending & ~self.busy & (self.compute_end <= reached)
        if ends.any():
            np.copyto(self.compute_end, self.now + self.compute, where=ends)
            np.copyto(self.comm_at, self.now + self.comm_start, where=ends)
            self.seconds += np.where(ends, self._within(self.now), 0.0)
            self.ended += ends & (self.now > self.t0) & (self.now <= self.t1)
            self.sending &= ~ends
        starts = ~self.sending & (self.comm_at <= reached)
        if starts.any():
            self.sending |= starts
            shape = (self.jobs, self.width, -1)
            left, bytes_ = self.left.reshape(shape), self.bytes.reshape(shape)
            np.copyto(left, bytes_, where=starts[:, None, :])
            self._update_active()


def _filled(levels: Ints, jobs: int) -> Ints:
    """Return levels (variants, jobs), with added places after all others."""
    count, there = levels.shape
    last = int(levels.max(initial=0)) + 1
    added = np.broadcast_to(last + np.arange(jobs - there), (count, jobs - there))
    return np.concatenate([levels, added], axis=1).astype(np.int64)
