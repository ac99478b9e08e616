"""The event-driven fluid simulation of a cluster: jobs come, iterate and go.

Strict priority between levels, max-min per flow within one, computation that overlaps with
communication, any number of links.  A controller is asked for levels and routes whenever jobs
come or go: a constant one judges a plan, one that calls hostcc.schedule replays a trace.
Scalar and plain: it is the reference for the batch simulation of hostcc.schedule.fluid.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

TIME_EPS = 1e-9
"""Events so many seconds apart are one."""
SAME = 1 + 1e-12
"""Shares closer than this are one."""


@dataclass(frozen=True)
class SimFlow:
    """One flow of a job."""

    bytes: float
    """Per iteration."""
    links: tuple[int, ...]
    """Where it goes unless the controller says otherwise; indices into the capacities."""


@dataclass(frozen=True)
class SimJob:
    """One job, seconds and bytes."""

    compute: float
    """Per iteration."""
    comm_start: float
    """From an iteration's start to its communication."""
    flows: tuple[SimFlow, ...]
    start: float = 0.0
    """Of the first iteration; may be negative, but nothing is sent before 0."""
    iterations: int | None = None
    """After which it leaves; None: it stays."""


@dataclass(frozen=True)
class Orders:
    """What a controller wants from now on."""

    levels: Mapping[int, int]
    """Job -> level, 0 the highest; jobs that are not named keep theirs (at first: 0)."""
    routes: Mapping[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    """(Job, place of the flow in it) -> links, for flows that start from now on."""


class Controller(Protocol):
    """Decides when the set of jobs changes."""

    def __call__(self, now: float, running: Sequence[int]) -> Orders:
        """Levels and routes for the jobs that run at `now`."""


@dataclass(frozen=True)
class History:
    """What became of the jobs."""

    compute_seconds: list[float]
    """Within the window, by job."""
    iterations: list[int]
    """That ended within the window."""
    finished: list[float | None]
    """When a job left."""


def constant(levels: Sequence[int]) -> Controller:
    """A controller that always wants the same levels."""
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
    """Run from 0 to t1 (seconds), counting from t0.  `capacity`: bytes/s, positive.

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
            if job.compute > TIME_EPS or any(flow.bytes > 0 and flow.links for flow in job.flows):
                self._at(max(job.start, 0.0), index, self._arrive)

    def _at(self, when: float, job: int, what: Callable[[int], None]) -> None:
        heapq.heappush(self.timers, (when, job, what))

    def run(self) -> History:
        """Event by event."""
        while True:
            self._fire()
            self._share()
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
                self._fire()
                return History(self.seconds, self.ended, self.finished)

    def _fire(self) -> None:
        """Everything that is due."""
        while self.timers and self.timers[0][0] <= self.now + TIME_EPS:
            _, job, what = heapq.heappop(self.timers)
            what(job)

    def _send(self, ahead: float) -> None:
        over = []
        for flow in self.active:
            if flow.rate > 0 and flow.left / flow.rate <= ahead + TIME_EPS:
                over.append(flow)
            else:
                flow.left -= flow.rate * ahead
        if over:
            gone = set(map(id, over))
            self.active = [flow for flow in self.active if id(flow) not in gone]
            for flow in over:
                self.pending[flow.job] -= 1
                if not self.pending[flow.job]:
                    self._sent(flow.job, self.now + ahead)

    def _arrive(self, job: int) -> None:
        self.running.add(job)
        self._ask()
        self._begin(job, self.jobs[job].start if self.jobs[job].start < 0 else self.now)

    def _ask(self) -> None:
        orders = self.controller(self.now, sorted(self.running))
        for job, level in orders.levels.items():
            self.levels[job] = level
        self.routes.update(orders.routes)

    def _begin(self, job: int, when: float) -> None:
        """An iteration starts."""
        spec = self.jobs[job]
        self.compute_end[job] = when + spec.compute
        last = min(self.t1, when + spec.compute)
        self.seconds[job] += max(last - max(self.t0, when), 0.0)
        self._at(max(when + spec.comm_start, 0.0), job, self._communicate)

    def _communicate(self, job: int) -> None:
        for place, flow in enumerate(self.jobs[job].flows):
            links = self.routes.get((job, place), flow.links)
            if flow.bytes > 0 and links:
                self.active.append(_Active(job, links, flow.bytes))
                self.pending[job] += 1
        if not self.pending[job]:
            self._sent(job, self.now)

    def _sent(self, job: int, when: float) -> None:
        """All flows of the iteration have ended; it ends when the computation has, too."""
        self._at(max(self.compute_end[job], when), job, self._end)

    def _end(self, job: int) -> None:
        self.done[job] += 1
        if self.t0 < self.now <= self.t1:
            self.ended[job] += 1
        if self.done[job] == self.jobs[job].iterations:
            self.finished[job] = self.now
            self.running.discard(job)
            self._ask()
        elif self.now < self.t1:
            self._begin(job, self.now)

    def _share(self) -> None:
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
                least = min(limit) * SAME
                rest = []
                for flow, most in zip(waiting, limit, strict=True):
                    if most > least:
                        rest.append(flow)
                        continue
                    flow.rate = most
                    for link in flow.links:
                        free[link] = max(free[link] - most, 0.0)
                waiting = rest
