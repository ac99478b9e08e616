"""Event-driven fluid simulation of a cluster: jobs arrive, iterate and leave.

Strict priority between levels, weighted max-min sharing per flow within one, computation that
overlaps with communication, any number of links. A controller sets levels, routes, weights and
shifts whenever jobs arrive or leave: a constant one evaluates a plan, one that calls
hostcc.schedule replays a trace. Scalar and simple: it is the reference for the batch simulation in
hostcc.schedule.fluid and for the compiled one in hostcc.sim.flowsim. Everything at one instant has
an order: exchanges and iterations end and jobs arrive and leave; the controller is called;
iterations and exchanges begin; rates are set.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hostcc.sim.periodic import Controller, Orders, SimJob

TIME_EPS_S = 1e-9
"""Events closer than this many seconds are simultaneous."""
SHARE_TOLERANCE = 1 + 1e-12
"""Shares within this ratio count as equal."""


@dataclass(frozen=True)
class History:
    """Results of a simulation."""

    compute_seconds: list[float]
    """Computing time within the window, by job."""
    iterations: list[int]
    """Iterations that ended within the window, by job."""
    finished: list[float | None]
    """When each job left; None: it did not."""
    ends: list[list[float]] = field(default_factory=list)
    """When the iterations ended, by job, also before the window."""
    carried: list[float] = field(default_factory=list)
    """Bytes, by link, also before the window."""


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
    *,
    delay: Sequence[float] = (),
    ramp: Sequence[float] = (1.0,),
    tell_sending: bool = False,
) -> History:
    """Run from 0 to t1 (seconds), measuring from t0 on; `capacity` in bytes/s, positive.

    `delay` in seconds, by link, after a flow's last byte. `ramp` scales the weight of a flow by
    the share of its bytes that is sent, in equal steps. With `tell_sending` the controller is
    also called when jobs begin and end sending. Jobs whose iteration takes no time at all are
    left out.
    """
    return _Run(jobs, capacity, controller, (t0, t1), (delay, ramp, tell_sending)).run()


@dataclass
class _Active:
    """A flow that is being sent."""

    job: int
    place: int
    """Among the job's flows."""
    links: tuple[int, ...]
    left: float
    step: int = 0
    """Of the ramp."""
    rate: float = 0.0


@dataclass
class _Ring:
    """Flows of a phase that send in rounds."""

    job: int
    places: list[int]
    routes: dict[int, tuple[int, ...]]
    rounds: int
    pending: int = 0
    over: float = 0.0
    done: int = 0


@dataclass
class _State:
    """What a running job does."""

    weight: float = 1.0
    level: int = 0
    clock: float = 0.0
    """When the present iteration's computation would have begun, had it never paused."""
    since: float | None = None
    """It has been computing from then on."""
    phase: int = 0
    rings: int = 0
    """That are being sent."""
    done: int = 0
    shift: float = 0.0
    grid: tuple[float, float, float] = (0.0, 0.0, 0.0)
    generation: int = 0
    """Timers of earlier ones are void."""


class _Run:
    def __init__(
        self,
        jobs: Sequence[SimJob],
        capacity: Sequence[float],
        controller: Controller,
        window: tuple[float, float],
        options: tuple[Sequence[float], Sequence[float], bool],
    ) -> None:
        self.jobs, self.capacity, self.controller = jobs, list(capacity), controller
        self.t0, self.t1, self.now = *window, 0.0
        self.delay, self.ramp, self.tell_sending = options
        count = len(jobs)
        self.states = [_State() for _ in jobs]
        self.flows = [[flow for phase in job.phases for flow in phase.flows] for job in jobs]
        self.routes: dict[tuple[int, int], tuple[int, ...]] = {}
        self.active: list[_Active] = []
        self.rings: dict[tuple[int, int], _Ring] = {}
        self.running: set[int] = set()
        self.changed = self.sent = False
        self.again = math.inf
        self.seconds = [0.0] * count
        self.ended = [0] * count
        self.finished: list[float | None] = [None] * count
        self.ends: list[list[float]] = [[] for _ in jobs]
        self.carried = [0.0] * len(capacity)
        self.order = 0
        self.endings: list[tuple[float, int, int, int, Callable[[int], None]]] = []
        self.stops: list[tuple[float, int]] = []
        self.beginnings: list[tuple[float, int, int, int, Callable[[int], None]]] = []
        for index, job in enumerate(jobs):
            if job.compute > TIME_EPS_S or any(f.bytes > 0 and f.links for f in self.flows[index]):
                self._end_at(max(job.start, 0.0), index, self._arrive)

    def _end_at(self, when: float, job: int, what: Callable[[int], None]) -> None:
        self.order += 1
        entry = (when, job, self.order, self.states[job].generation, what)
        heapq.heappush(self.endings, entry)

    def _begin_at(self, when: float, job: int, what: Callable[[int], None]) -> None:
        self.order += 1
        entry = (when, job, self.order, self.states[job].generation, what)
        heapq.heappush(self.beginnings, entry)

    def run(self) -> History:
        """Process all events in order."""
        while True:
            self._run_due_events()
            if self.now >= self.t1:
                for job in self.running:
                    self._rest(job)
                return History(self.seconds, self.ended, self.finished, self.ends, self.carried)
            self._set_rates()
            ahead = min(self.t1, self.again) - self.now
            if self.stops:
                ahead = min(ahead, self.stops[0][0] - self.now)
            for timers in (self.endings, self.beginnings):
                if timers:
                    ahead = min(ahead, timers[0][0] - self.now)
            for flow in self.active:
                if flow.rate > 0:
                    ahead = min(ahead, (flow.left - self._floor(flow)) / flow.rate)
            self._send(max(ahead, 0.0))

    def _run_due_events(self) -> None:
        """Everything that is due."""
        while True:
            self._run_timers(self.endings)
            while self.stops and self.stops[0][0] <= self.now + TIME_EPS_S:
                self._leave(heapq.heappop(self.stops)[1])
            if self.changed or self.again <= self.now + TIME_EPS_S:
                self._apply_controller()
                self.changed = False
            if not self._run_timers(self.beginnings):
                break
        if self.sent and self.tell_sending:
            self._apply_controller()
        self.sent = False

    def _run_timers(self, timers: list[tuple[float, int, int, int, Callable[[int], None]]]) -> bool:
        any_ran = False
        while timers and timers[0][0] <= self.now + TIME_EPS_S:
            _, job, _, generation, what = heapq.heappop(timers)
            if generation == self.states[job].generation:
                what(job)
                any_ran = True
        return any_ran

    def _floor(self, flow: _Active) -> float:
        """Return the bytes that are left when the flow's weight changes."""
        spec, steps = self.flows[flow.job][flow.place], len(self.ramp)
        return spec.bytes * (steps - 1 - flow.step) / steps if spec.rounds == 1 else 0.0

    def _send(self, ahead: float) -> None:
        self.now += ahead
        over = []
        for flow in self.active:
            floor = self._floor(flow)
            before = flow.left
            if flow.rate > 0 and (flow.left - floor) / flow.rate <= ahead + TIME_EPS_S:
                flow.left = floor
                flow.step += floor > 0
                if floor <= 0:
                    over.append(flow)
            else:
                flow.left -= flow.rate * ahead
            for link in flow.links:
                self.carried[link] += before - flow.left
        if over:
            gone = set(map(id, over))
            self.active = [flow for flow in self.active if id(flow) not in gone]
            for flow in over:
                self._on_flow_over(flow)

    def _on_flow_over(self, flow: _Active) -> None:
        ring = self.rings[flow.job, self.flows[flow.job][flow.place].ring]
        delay = sum(self.delay[link] for link in flow.links) if self.delay else 0.0
        ring.over = max(ring.over, self.now + delay)
        ring.pending -= 1
        if not ring.pending:
            self._end_at(ring.over, flow.job, lambda _: self._end_round(ring))

    def _arrive(self, job: int) -> None:
        self.running.add(job)
        self.changed = True
        heapq.heappush(self.stops, (self.jobs[job].stop, job))
        self._begin_at(self.now, job, self._align)

    def _apply_controller(self) -> None:
        self.again = math.inf
        orders = self.controller(self.now, sorted(self.running))
        self.again = orders.again
        for job, level in orders.levels.items():
            self.states[job].level = level
        for job, weight in orders.weights.items():
            self.states[job].weight = weight
        for job, shift in orders.shifts.items():
            self.states[job].shift += shift
        for job, grid in orders.grids.items():
            self.states[job].grid = (grid.period, grid.origin, grid.slack)
        for link, rate in orders.capacity.items():
            self.capacity[link] = rate
        self.routes.update(orders.routes)
        if orders.at_once:
            for flow in self.active:
                flow.links = orders.routes.get((flow.job, flow.place), flow.links)
            for ring in self.rings.values():
                for place in ring.routes:
                    ring.routes[place] = orders.routes.get((ring.job, place), ring.routes[place])

    def _align(self, job: int) -> None:
        """Wait for the job's shift and grid, then start an iteration."""
        state = self.states[job]
        when = self.now + state.shift
        state.shift = 0.0
        period, origin, slack = state.grid
        if period > 0:
            late = math.fmod(when - origin, period)
            late += period if late < 0 else 0
            if min(late, period - late) > slack * period + TIME_EPS_S:
                when += period - late
        if when > self.now + TIME_EPS_S:
            self._begin_at(when, job, lambda job: self._begin(job, self.now))
        else:
            early = not state.done and self.jobs[job].start < 0
            self._begin(job, self.jobs[job].start if early else self.now)

    def _begin(self, job: int, when: float) -> None:
        """Start an iteration."""
        state = self.states[job]
        state.clock = state.since = when
        state.phase = 0
        self._await_phase(job)

    def _await_phase(self, job: int) -> None:
        """Communicate once the computation is so far; after the last phase, end."""
        spec, state = self.jobs[job], self.states[job]
        if state.phase < len(spec.phases):
            when = max(state.clock + spec.phases[state.phase].start, 0.0)
            self._begin_at(when, job, self._communicate)
        else:
            self._end_at(max(state.clock + spec.compute, self.now), job, self._end)

    def _communicate(self, job: int) -> None:
        state, phases = self.states[job], self.jobs[job].phases
        first = sum(len(phase.flows) for phase in phases[: state.phase])
        if phases[state.phase].blocks:
            self._rest(job)
            state.clock -= self.now  # until it goes on
        self.sent = True
        made: dict[int, _Ring] = {}
        for place, flow in enumerate(phases[state.phase].flows, first):
            links = self.routes.get((job, place), flow.links)
            if flow.bytes > 0 and links:
                ring = made.setdefault(flow.ring, _Ring(job, [], {}, flow.rounds))
                ring.routes[place] = links
                ring.places.append(place)
        state.rings = len(made)
        for key, ring in made.items():
            self.rings[job, key] = ring
            self._begin_round(ring)
        if not made:
            self._end_phase(job)

    def _begin_round(self, ring: _Ring) -> None:
        ring.pending, ring.over = len(ring.places), self.now
        for place in ring.places:
            flow = self.flows[ring.job][place]
            step = ring.done * len(self.ramp) // flow.rounds
            self.active.append(_Active(ring.job, place, ring.routes[place], flow.bytes, step))

    def _end_round(self, ring: _Ring) -> None:
        ring.done += 1
        if ring.done < ring.rounds:
            self._begin_round(ring)
            return
        self.states[ring.job].rings -= 1
        if not self.states[ring.job].rings:
            self._end_phase(ring.job)

    def _end_phase(self, job: int) -> None:
        state = self.states[job]
        self.sent = True
        if self.jobs[job].phases[state.phase].blocks:
            state.clock += self.now
            state.since = self.now
        state.phase += 1
        self._await_phase(job)

    def _rest(self, job: int) -> None:
        """Count the computing time until now."""
        state = self.states[job]
        if state.since is not None:
            last = min(self.now, self.t1, state.clock + self.jobs[job].compute)
            self.seconds[job] += max(last - max(self.t0, state.since), 0.0)
        state.since = None

    def _end(self, job: int) -> None:
        state = self.states[job]
        self._rest(job)
        state.done += 1
        self.ends[job].append(self.now)
        if self.t0 + TIME_EPS_S < self.now <= self.t1:
            self.ended[job] += 1
        if state.done == self.jobs[job].iterations:
            self._leave(job)
        else:
            self._begin_at(self.now, job, self._align)

    def _leave(self, job: int) -> None:
        if job not in self.running:
            return
        self._rest(job)
        self.finished[job] = self.now
        self.running.discard(job)
        self.active = [flow for flow in self.active if flow.job != job]
        self.states[job].generation += 1
        self.sent |= self.states[job].rings > 0
        self.changed = True

    def _set_rates(self) -> None:
        """Rates: level by level, each by progressive filling of what is left."""
        free = dict(enumerate(self.capacity))
        by_level: dict[int, list[_Active]] = {}
        for flow in self.active:
            by_level.setdefault(self.states[flow.job].level, []).append(flow)
        for level in sorted(by_level):
            waiting = by_level[level]
            weights = {id(flow): self._weight(flow) for flow in waiting}
            while waiting:
                crossing: dict[int, float] = {}
                for flow in waiting:
                    for link in flow.links:
                        crossing[link] = crossing.get(link, 0) + weights[id(flow)]
                share = {link: free[link] / weight for link, weight in crossing.items()}
                limit = [
                    min(self._cap(flow) / weights[id(flow)], *(share[link] for link in flow.links))
                    for flow in waiting
                ]
                least = min(limit) * SHARE_TOLERANCE
                rest = []
                for flow, most in zip(waiting, limit, strict=True):
                    if most > least:
                        rest.append(flow)
                        continue
                    flow.rate = most * weights[id(flow)]
                    for link in flow.links:
                        free[link] = max(free[link] - flow.rate, 0.0)
                waiting = rest

    def _cap(self, flow: _Active) -> float:
        return self.flows[flow.job][flow.place].rate

    def _weight(self, flow: _Active) -> float:
        spec = self.flows[flow.job][flow.place]
        return spec.weight * self.states[flow.job].weight * self.ramp[flow.step]
