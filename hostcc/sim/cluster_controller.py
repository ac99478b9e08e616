"""Turns arrivals and departures of a replayed cluster into plans, and plans into engine orders."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hostcc.schedule.plan import Known, Solution
from hostcc.sim.cluster_conditions import Conditions
from hostcc.sim.cluster_jobs import PlacedJob
from hostcc.sim.cluster_risk import RiskRecord
from hostcc.sim.cluster_schedulers import Scheduler
from hostcc.sim.cluster_view import ViewBuilder, job_of
from hostcc.sim.fabrics import Topology
from hostcc.sim.flowsim.run import LEVELS
from hostcc.sim.periodic import Grid, Orders

MOST_UNCOMPRESSED = 4094
"""Lowest level of a plan: above it is one for jobs that are profiled, below it `UNPLANNED`."""
UNPLANNED = LEVELS - 1
"""Level of jobs that no plan knows: packets without a mark come after those of every level."""
GRID_SLACK = 0.05
"""Share of an iteration by which it may be off before Cassini's agents adjust it."""
INTERLEAVED = "interleaved"
"""In the reason of who has a place in an interleaving."""
LEAST_WAIT_S = 1e-6


@dataclass
class ClusterController:
    """Called by the engine when jobs arrive or leave; makes a plan when those that send change."""

    topology: Topology
    jobs: Sequence[PlacedJob]
    alone: Sequence[float]
    """(J,) seconds of an iteration alone."""
    scheduler: Scheduler
    levels: int
    conditions: Conditions = field(default_factory=Conditions)
    seed: int = 0
    progress: Callable[[float], None] = lambda _: None
    clock: Callable[[], float] = time.perf_counter
    plans: int = 0
    moves: int = 0
    """Flows that changed their path while their job ran."""
    planning_seconds: float = 0.0
    """By `clock`, not simulated."""
    _sending: tuple[int, ...] = ()
    _planned: tuple[int, ...] = ()
    _profiled: dict[int, float] = field(default_factory=dict)
    """Job -> when its profile is complete."""
    _pending: list[tuple[float, Orders]] = field(default_factory=list)
    """Plans that are not in force yet."""
    _routes: dict[tuple[int, int], int] = field(default_factory=dict)
    """(Job, flow) -> the path that it has, by its number."""
    _before: Solution | None = None

    def __post_init__(self) -> None:
        """Read the failures, and prepare views."""
        self._views = ViewBuilder(
            self.topology,
            self.jobs,
            self.alone,
            self.seed,
            self.conditions.error,
            phased=self.scheduler.shifts,
        )
        self._known = Known()
        self.risk = RiskRecord([job.gpus for job in self.jobs])
        self._failures = [(one, one.links(self.topology)) for one in self.conditions.failures]
        times = {at for one, _ in self._failures for at in (one.at, one.until)}
        self._times = sorted(at for at in times if at < math.inf)
        self._delayed = self.conditions.lag_s > 0 or self.conditions.profiling_s > 0

    def __call__(self, now: float, running: Sequence[int]) -> Orders:
        """Return orders for the jobs that run at `now`."""
        self.progress(now)
        self.risk.now(now, running)
        if not self.scheduler.shared:
            return Orders()
        failed = self._failed(now)
        broken = failed != self._views.failed
        orders = [self._break(failed)] if broken else []
        sending = tuple(job for job in running if self.jobs[job].flows)
        new = [job for job in sending if job not in set(self._sending)]
        self._forget(set(self._sending) - set(sending))
        self._sending = sending
        if self._delayed:
            orders.append(self._welcome(now, new))
        ready = tuple(job for job in sending if self._profiled.get(job, now) <= now + LEAST_WAIT_S)
        if ready and (ready != self._planned or broken):
            begun = self.clock()
            self._pending.append((now + self.conditions.lag_s, self._plan(now, ready)))
            self.planning_seconds += self.clock() - begun
        self._planned = ready
        while self._pending and self._pending[0][0] <= now + LEAST_WAIT_S:
            orders.append(self._pending.pop(0)[1])
        return self._joined(orders, now)

    def _failed(self, now: float) -> frozenset[int]:
        soon = now + LEAST_WAIT_S
        down = [links for one, links in self._failures if one.at <= soon < one.until]
        return frozenset(link for links in down for link in links)

    def _break(self, failed: frozenset[int]) -> Orders:
        """Take links down and up; whose path is down gets another by hash, as switches do."""
        rates = self.topology.link_rates
        capacity = dict.fromkeys(failed - self._views.failed, 0.0)
        capacity |= {link: rates[link] for link in self._views.failed - failed}
        self._views.fail(failed)
        routes = {}
        for (job, flow), path in list(self._routes.items()):
            if path not in self._views.usable(job, flow):
                self._routes[job, flow] = self._views.hashed(job, flow)
                routes[job, flow] = self._views.paths(job, flow)[self._routes[job, flow]]
        self.moves += len(routes)
        return Orders(capacity=capacity, routes=routes)

    def _forget(self, gone: set[int]) -> None:
        if not gone:
            return
        self._routes = {key: path for key, path in self._routes.items() if key[0] not in gone}
        self._views.forget(gone)
        for job in gone:
            self._profiled.pop(job, None)

    def _welcome(self, now: float, new: Sequence[int]) -> Orders:
        """Give new jobs, which no plan knows yet, paths by hash and their first level.

        That is below all levels of a plan, and not its last one. On which level methods leave jobs
        that meet nobody is a matter of ties: Algorithm 1 ends on the last, the exact cut on the
        first. Beside a job on the last level a new one would get a share, beside others none.
        """
        levels, routes = {}, {}
        profiling = self.conditions.profiling_s
        for job in new:
            levels[job] = 0 if profiling else UNPLANNED
            if profiling:
                self._profiled[job] = now + profiling
            for flow in range(len(self.jobs[job].flows)):
                path = self._views.hashed(job, flow)
                self._routes[job, flow] = path
                routes[job, flow] = self._views.paths(job, flow)[path]
        return Orders(levels if self.scheduler.levels else {}, routes)

    def _plan(self, now: float, ready: Sequence[int]) -> Orders:
        kept = self._routes if self.scheduler.stays else None
        view = self._views.view(ready, kept)
        solution = self.scheduler.solved(view, self.levels, self._before, self._known)
        self._before = solution
        self.plans += 1
        orders = self._orders(now, solution)
        self.risk.planned(
            [job_of(name) for name in solution.problem.job_ids],
            solution.contenders > 0,
            [orders.levels.get(job_of(name), 0) for name in solution.problem.job_ids],
        )
        return orders

    def _orders(self, now: float, found: Solution) -> Orders:
        problem, decision = found.problem, found.decision
        numbers = [job_of(name) for name in problem.job_ids]
        routes = {}
        chosen = decision.routing - problem.table_start[problem.flow_table]
        for flow, job, place in zip(
            problem.flow_ids, problem.flow_job.tolist(), chosen.tolist(), strict=True
        ):
            key = (numbers[job], int(flow.rpartition(".")[2]))
            path = self._views.usable(*key)[place] if self._views.failed else place
            was = self._routes.get(key)
            if was == path:
                continue
            self.moves += was is not None
            self._routes[key] = path
            routes[key] = self._views.paths(*key)[path]
        weights = {}
        if self.scheduler.weights:
            weights = dict(zip(numbers, found.weight.tolist(), strict=True))
        grids = self._grids(now, found, numbers) if self.scheduler.shifts else {}
        return Orders(self._levels(found, numbers), routes, weights, grids=grids)

    def _levels(self, found: Solution, numbers: Sequence[int]) -> dict[int, int]:
        if not self.scheduler.levels:
            return {}
        given = found.level if self.scheduler.compressed else found.decision.rank
        above = int(self.conditions.profiling_s > 0)
        levels = np.minimum(given, MOST_UNCOMPRESSED) + above
        return dict(zip(numbers, levels.tolist(), strict=True))

    def _grids(self, now: float, found: Solution, numbers: Sequence[int]) -> dict[int, Grid]:
        """Return when iterations should begin: all at once, apart from their shifts."""
        shifts = found.shifts
        return {
            job: Grid(self.alone[job], now + shift, GRID_SLACK)
            if INTERLEAVED in reason
            else Grid(0)
            for job, shift, reason in zip(
                numbers, shifts.seconds.tolist(), shifts.reason, strict=True
            )
        }

    def _joined(self, orders: Sequence[Orders], now: float) -> Orders:
        """Return all orders as one; later ones win."""
        here = set(self._sending)
        levels: dict[int, int] = {}
        routes: dict[tuple[int, int], tuple[int, ...]] = {}
        weights: dict[int, float] = {}
        grids: dict[int, Grid] = {}
        capacity: dict[int, float] = {}
        for one in orders:
            levels |= {job: level for job, level in one.levels.items() if job in here}
            routes |= {key: links for key, links in one.routes.items() if key[0] in here}
            weights |= {job: weight for job, weight in one.weights.items() if job in here}
            grids |= {job: grid for job, grid in one.grids.items() if job in here}
            capacity |= one.capacity
        ahead = [at for at in self._times if at > now]
        ahead += [at for at, _ in self._pending]
        ahead += [at for at in self._profiled.values() if at > now]
        again = max(min(ahead), now + LEAST_WAIT_S) if ahead else math.inf
        return Orders(levels, routes, weights, grids=grids, capacity=capacity, again=again)
