"""Event-driven fluid simulation of a cluster: jobs arrive, iterate and leave.

Strict priority between levels, max-min fair sharing per flow within one, computation that overlaps
with communication, any number of links. A controller sets levels and routes whenever jobs arrive or
leave: a constant one evaluates a plan, one that calls hostcc.schedule replays a trace. Scalar and
simple: it is the reference for the batch simulation in hostcc.schedule.fluid.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

TIME_EPS_S = 1e-9
"""Events closer than this many seconds are simultaneous."""
SHARE_TOLERANCE = 1 + 1e-12
"""Shares within this ratio count as equal."""


@dataclass(frozen=True)
class SimFlow:
    """One flow of a job."""

    bytes: float
    """Bytes per iteration."""
    links: tuple[int, ...]
    """Links, as indices into the capacities, unless the controller sets others."""


@dataclass(frozen=True)
class SimJob:
    """A job; times in seconds, sizes in bytes."""

    compute: float
    """Computation per iteration."""
    comm_start: float
    """Time from an iteration's start to its communication."""
    flows: tuple[SimFlow, ...]
    start: float = 0.0
    """Start of the first iteration; may be negative, but nothing is sent before 0."""
    iterations: int | None = None
    """Iterations after which it leaves; None: it stays."""


@dataclass(frozen=True)
class Orders:
    """Levels and routes that a controller sets from now on."""

    levels: Mapping[int, int]
    """Job -> level, 0 the highest; jobs that are not named keep theirs (at first 0)."""
    routes: Mapping[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    """(Job, index of the flow) -> links, for flows that start from now on."""


class Controller(Protocol):
    """Sets levels and routes when the set of jobs changes."""

    def __call__(self, now: float, running: Sequence[int]) -> Orders:
        """Return levels and routes for the jobs that run at `now`."""


@dataclass(frozen=True)
class History:
    """Results of a simulation."""

    compute_seconds: list[float]
    """Computing time within the window, by job."""
    iterations: list[int]
    """Iterations that ended within the window, by job."""
    finished: list[float | None]
    """When each job left; None: it did not."""


def constant(levels: Sequence[int]) -> Controller:
    """Return a controller that always sets the same levels."""
    orders = Orders(dict(enumerate(levels)))

    def control(now: float, running: Sequence[int]) -> Orders:  # noqa: ARG001
        return orders

    return control


def simulate(
    jobs: Sequence[SimJob],
    capacity: Sequence[float],
    controller: Controller,
    t0: float,
    t1: float,
) -> History:
    """Run from 0 to t1 (seconds), measuring from t0 on; `capacity` in bytes/s, positive.

    Jobs whose iteration takes no time at all are left out.
    """
    return _Run(jobs, capacity, controller, t0, t1).run()


@dataclass
class _Active:
    """A flow that is being sent."""

    job: int
    links: tuple[int, ...]
    left: float
    rate: float = 0.0


class _Run:
    def __init__(
        self,
        jobs: Sequence[SimJob],
        capacity: Sequence[float],
        controller: Controller,
        t0: float,
        t1: float,
    ) -> None:
        self.jobs, self.capacity, self.controller = jobs, capacity, controller
        self.t0, self.t1, self.now = t0, t1, 0.0
        count = len(jobs)
        self.levels = [0] * count
        self.routes: dict[tuple[int, int], tuple[int, ...]] = {}
        self.active: list[_Active] = []
        self.sending = [False] * count
        self.pending = [0] * count
        self.compute_end = [0.0] * count
        self.done = [0] * count
        self.running: set[int] = set()
        self.seconds = [0.0] * count
        self.ended = [0] * count
        self.finished: list[float | None] = [None] * count
        self.timers: list[tuple[float, int, Callable[[int], None]]] = []
        for index, job in enumerate(jobs):
            if job.compute > TIME_EPS_S or any(flow.bytes > 0 and flow.links for flow in job.flows):
                self._schedule(max(job.start, 0.0), index, self._arrive)

    def _schedule(self, when: float, job: int, what: Callable[[int], None]) -> None:
        heapq.heappush(self.timers, (when, job, what))

    def run(self) -> History:
        """Process all events in order."""
        while True:
            self._run_due_events()
            self._set_rates()
            ahead = self.t1 - self.now
            if self.timers:
                ahead = min(ahead, self.timers[0][0] - self.now)
            for flow in self.active:
                if flow.rate > 0:
                    ahead = min(ahead, flow.left / flow.rate)
            ahead = max(ahead, 0.0)
            self._send(ahead)
            self.now += ahead
            if self.now >= self.t1:
                # What ends just now has ended within the window.
                self._run_due_events()
                return History(self.seconds, self.ended, self.finished)

    def _run_due_events(self) -> None:
        """Everything that is due."""
        while self.timers and self.timers[0][0] <= self.now + TIME_EPS_S:
            _, job, what = heapq.heappop(self.timers)
            what(job)

    def _send(self, ahead: float) -> None:
        over = []
        for flow in self.active:
            if flow.rate > 0 and flow.left / flow.rate <= ahead + TIME_EPS_S:
                over.append(flow)
            else:
                flow.left -= flow.rate * ahead
        if over:
            gone = set(map(id, over))
            self.active = [flow for flow in self.active if id(flow) not in gone]
            for flow in over:
                self.pending[flow.job] -= 1
                if not self.pending[flow.job]:
                    self._on_flows_done(flow.job, self.now + ahead)

    def _arrive(self, job: int) -> None:
        self.running.add(job)
        self._apply_controller()
        self._begin(job, self.jobs[job].start if self.jobs[job].start < 0 else self.now)

    def _apply_controller(self) -> None:
        orders = self.controller(self.now, sorted(self.running))
        for job, level in orders.levels.items():
            self.levels[job] = level
        self.routes.update(orders.routes)

    def _begin(self, job: int, when: float) -> None:
        """Start an iteration."""
        spec = self.jobs[job]
        self.compute_end[job] = when + spec.compute
        last = min(self.t1, when + spec.compute)
        self.seconds[job] += max(last - max(self.t0, when), 0.0)
        self._schedule(max(when + spec.comm_start, 0.0), job, self._communicate)

    def _communicate(self, job: int) -> None:
        for place, flow in enumerate(self.jobs[job].flows):
            links = self.routes.get((job, place), flow.links)
            if flow.bytes > 0 and links:
                self.active.append(_Active(job, links, flow.bytes))
                self.pending[job] += 1
        if not self.pending[job]:
            self._on_flows_done(job, self.now)

    def _on_flows_done(self, job: int, when: float) -> None:
        """All flows of the iteration have ended; it ends when the computation has, too."""
        self._schedule(max(self.compute_end[job], when), job, self._end)

    def _end(self, job: int) -> None:
        self.done[job] += 1
        if self.t0 < self.now <= self.t1:
            self.ended[job] += 1
        if self.done[job] == self.jobs[job].iterations:
            self.finished[job] = self.now
            self.running.discard(job)
            self._apply_controller()
        elif self.now < self.t1:
            self._begin(job, self.now)

    def _set_rates(self) -> None:
        """Rates: level by level, each by progressive filling of what is left."""
        free = dict(enumerate(self.capacity))
        by_level: dict[int, list[_Active]] = {}
        for flow in self.active:
            by_level.setdefault(self.levels[flow.job], []).append(flow)
        for level in sorted(by_level):
            waiting = by_level[level]
            while waiting:
                crossing: dict[int, int] = {}
                for flow in waiting:
                    for link in flow.links:
                        crossing[link] = crossing.get(link, 0) + 1
                share = {link: free[link] / count for link, count in crossing.items()}
                limit = [min(share[link] for link in flow.links) for flow in waiting]
                least = min(limit) * SHARE_TOLERANCE
                rest = []
                for flow, most in zip(waiting, limit, strict=True):
                    if most > least:
                        rest.append(flow)
                        continue
                    flow.rate = most
                    for link in flow.links:
                        free[link] = max(free[link] - most, 0.0)
                waiting = rest
