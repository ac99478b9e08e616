"""How close the algorithms come to the optimum in small clusters (as in Crux, section 4.4).

The optimum is found by enumeration: every routing that behaves differently, every order that
differs on a pair of jobs that meets, and every assignment of levels, all in the same simulation.
The algorithms see the view, exact or with measurement errors; their decisions are scored on the
exact case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TypeVar

import numpy as np

from hostcc.model import ClusterView
from hostcc.schedule import compression, methods, simulated_search
from hostcc.schedule.assumed_work import completed
from hostcc.schedule.components import Component, Layout, SmallProblem
from hostcc.schedule.intensity import communication_time, intensity
from hostcc.schedule.job_pairs import graph, pairs
from hostcc.schedule.plan import Options, decide
from hostcc.schedule.problem import Floats, Ints, Problem, build
from hostcc.sim.small import FLOP_PER_S_OF_GPU, WINDOW_ITERATIONS, small_case, with_errors

Answer = TypeVar("Answer")

LEVEL_COUNT = 3
"""Levels that five jobs share, in compression and in the whole pipeline."""
RIVALS = ("crux", "taccl", "maxmin", "balance", "annealing", "ecmp")
"""Path selection methods for comparison."""
PIPELINES: dict[str, Options] = {
    "hostcc": Options(),
    "hostcc, no simulation": Options(simulations=0),
    "Crux": Options(paths="crux", order="crux", compression="algorithm1"),
    "TACCL*": Options(paths="taccl", order="hash", compression="balanced"),
    "maxmin": Options(paths="maxmin"),
    "balance": Options(paths="balance"),
    "annealing, intensity": Options(paths="annealing", order="intensity", compression="exact"),
    "Sincronia": Options(paths="ecmp", order="sincronia", compression="sincronia"),
    "Varys": Options(paths="ecmp", order="varys", compression="balanced"),
    "ECMP, intensity": Options(paths="ecmp", order="intensity", compression="exact"),
    "ECMP, random": Options(paths="ecmp", order="hash", compression="balanced"),
}


@dataclass
class CaseResult:
    """Results of one case: shares of the optimum, by (error, stage, method)."""

    index: int
    optimum: float
    """Worth per second of the best routing and order, over that without contention."""
    schedules: int
    """Simulated to know the optimum."""
    seconds: float
    """That this took."""
    shares: dict[tuple[float, str, str], float] = field(default_factory=dict)
    took: dict[tuple[float, str, str], float] = field(default_factory=dict)
    """Seconds of the algorithm."""


class ExactCase:
    """A case with its optimum, found by enumeration."""

    def __init__(self, view: ClusterView) -> None:
        self.problem = build(view)
        self.small = SmallProblem(self.problem)
        self.oracle = simulated_search.make_oracle(self.small, self.problem.work, WINDOW_ITERATIONS)
        layouts = list(self.small.layouts())
        parts = list(dict.fromkeys(part for layout in layouts for part in layout.components))
        orders = {part: self.small.orders(part) for part in parts}
        self.oracle.learn(list(orders.items()))
        self.best = {part: self._best(part, orders[part]) for part in parts}
        values = [self.at_best(layout) for layout in layouts]
        self.optimum = max(values)
        self.layout = self.routed(methods.ecmp(self.problem))
        """On which orders and levels are compared: contended, and nobody's choice."""
        self.order = self._whole(self.layout)

    def _best(self, part: Component, orders: Ints) -> tuple[float, list[int]]:
        listed: list[list[int]] = orders.tolist()
        values = [self.oracle.value(part, one) for one in listed]
        top = int(np.argmax(values))
        return values[top], listed[top]

    def at_best(self, layout: Layout) -> float:
        """Return the value of a routing under its best order."""
        return sum(self.best[part][0] for part in layout.components)

    def value(self, layout: Layout, levels: Ints) -> float:
        """Return the value of a routing with these levels (J,)."""
        return sum(
            self.oracle.value(part, levels[list(part.members)].tolist())
            for part in layout.components
        )

    def routed(self, routing: Ints) -> Layout:
        """Return the layout of a routing (F,)."""
        return self.small.layout(tuple(routing.tolist()))

    def _whole(self, layout: Layout) -> Ints:
        """Return the best order of all jobs (J,) for a routing."""
        rank = np.zeros(self.problem.job_count, np.int64)
        place = sorted(
            (own, member)
            for part in layout.components
            for member, own in zip(part.members, self.best[part][1], strict=True)
        )
        for index, (_, member) in enumerate(place):
            rank[member] = index
        return rank

    def best_levels(self, layout: Layout, rank: Ints, levels: int) -> float:
        """Return the highest value of an order on `levels` levels, over all assignments."""
        total = 0.0
        for part in layout.components:
            own = rank[list(part.members)]
            met = self.small.pairs(part)
            every = [
                one
                for one in product(range(levels), repeat=len(own))
                if all((one[a] - one[b]) * (own[a] - own[b]) >= 0 for a, b in met)
            ]
            self.oracle.learn([(part, np.array(every, np.int64))])
            total += max(self.oracle.value(part, one) for one in every)
        return total


def study(seed: int, index: int, errors: Sequence[float]) -> CaseResult:
    """Run one case with each error of measurement (fractions; 0: exact)."""
    view = small_case(seed, index)
    begun = time.perf_counter()
    truth = ExactCase(view)
    alone = np.array([job.period_s for job in sorted(view.jobs, key=lambda job: job.job)])
    ideal = float((truth.problem.work / alone).sum())
    enough = truth.best_levels(truth.layout, truth.order, LEVEL_COUNT)
    result = CaseResult(
        index,
        truth.optimum / ideal,
        truth.oracle.simulated,
        time.perf_counter() - begun,
    )
    judged = _ScoredCase(truth, result)
    for error in errors:
        measured = view if not error else with_errors(view, error, seed, index)
        seen = build(measured)
        _paths(judged, seen, error)
        _orders(judged, seen, error)
        _levels(judged, seen, error, enough)
        _pipelines(judged, seen, error)
        _unknown_work(judged, measured, error)
    judged.score()
    return result


@dataclass
class _ScoredCase:
    """Results of the algorithms for a case; scored at the end, in one simulation."""

    truth: ExactCase
    result: CaseResult
    found: list[tuple[tuple[float, str, str], Layout, Ints | None, float]] = field(
        default_factory=list
    )
    """Where, the layout and levels (None: at its best), and the value that is 1."""

    def time(self, where: tuple[float, str, str], method: Callable[[], Answer]) -> Answer:
        """Return a method's answer, and record how long it took."""
        begun = time.perf_counter()
        answer = method()
        self.result.took[where] = time.perf_counter() - begun
        return answer

    def note(
        self, where: tuple[float, str, str], layout: Layout, levels: Ints | None, best: float
    ) -> None:
        """Record a layout under levels (J,), to be scored as a share of `best`."""
        self.found.append((where, layout, levels, best))

    def score(self) -> None:
        """Simulate what is not known yet, and compute all shares."""
        self.truth.oracle.learn(
            [
                (part, levels[None, list(part.members)])
                for _, layout, levels, _ in self.found
                if levels is not None
                for part in layout.components
            ]
        )
        for where, layout, levels, best in self.found:
            if levels is None:
                value = self.truth.at_best(layout)
            else:
                value = self.truth.value(layout, levels)
            self.result.shares[where] = value / best


def _paths(judged: _ScoredCase, seen: Problem, error: float) -> None:
    options: Mapping[str, Callable[[], Ints]] = {
        "hostcc, no simulation": lambda: methods.ROUTES["hostcc"](seen),
        **{name: _bound(methods.ROUTES[name], seen) for name in RIVALS},
    }
    truth = judged.truth
    for name, method in options.items():
        where = (error, "paths", name)
        judged.note(where, truth.routed(judged.time(where, method)), None, truth.optimum)


def _bound(route: methods.Route, seen: Problem) -> Callable[[], Ints]:
    return lambda: route(seen)


def _ordered(truth: ExactCase, seen: Problem) -> Ints:
    """Return hostcc's order for a given routing."""
    small = SmallProblem(seen)
    judge = simulated_search.make_oracle(small, seen.work)
    layout = small.layout(truth.layout.routing)
    return simulated_search.search(
        small, judge, seen.work, None, Options().simulations, [layout]
    ).rank


def _orders(judged: _ScoredCase, seen: Problem, error: float) -> None:
    truth = judged.truth
    routing = np.array(truth.layout.routing, np.int64)
    options: dict[str, Callable[[], Ints]] = {
        "hostcc": lambda: _ordered(truth, seen),
        "hostcc, no simulation": lambda: methods.ORDERS["hostcc"](seen, routing),
    }
    for name, order in methods.ORDERS.items():
        if name != "hostcc":
            options[name] = lambda order=order: order(seen, routing)  # type: ignore[misc]
    for name, method in options.items():
        where = (error, "order", name)
        rank = judged.time(where, method)
        judged.note(where, truth.layout, rank, truth.at_best(truth.layout))


def _levels(judged: _ScoredCase, seen: Problem, error: float, best: float) -> None:
    truth = judged.truth
    routing = np.array(truth.layout.routing, np.int64)
    worth: Floats = intensity(seen.work, communication_time(seen, routing))
    contention = graph(pairs(seen, routing), truth.order, worth)
    options: dict[str, Callable[[], Ints]] = {"hostcc": lambda: _compressed(truth, seen)}
    for name, compress in compression.METHODS.items():
        options[f"{name} cut" if name == "exact" else name] = (
            lambda compress=compress: compress(contention, truth.order, LEVEL_COUNT)  # type: ignore[misc]
        )
    for name, method in options.items():
        where = (error, "levels", name)
        judged.note(where, truth.layout, judged.time(where, method), best)


def _compressed(truth: ExactCase, seen: Problem) -> Ints:
    """Return hostcc's levels for a given routing and order."""
    small = SmallProblem(seen)
    judge = simulated_search.make_oracle(small, seen.work)
    level = np.zeros(seen.job_count, np.int64)
    ranks = {
        part: [np.argsort(np.argsort(truth.order[list(part.members)])).tolist()]
        for part in small.layout(truth.layout.routing).components
    }
    found = simulated_search.compress(judge, ranks, LEVEL_COUNT)
    for part, (_, fitted) in zip(ranks, found, strict=True):
        level[list(part.members)] = fitted
    return level


def _pipelines(judged: _ScoredCase, seen: Problem, error: float) -> None:
    truth = judged.truth
    for name, options in PIPELINES.items():
        where = (error, "pipeline", name)
        found = judged.time(where, partial(decide, seen, options, LEVEL_COUNT))
        layout = truth.routed(found.routing)
        judged.note(where, layout, found.level, truth.optimum)
        if name == "hostcc":  # which chooses paths and order together
            judged.note((error, "paths", name), layout, None, truth.optimum)
            judged.result.took[error, "paths", name] = judged.result.took[where]


def _unknown_work(judged: _ScoredCase, measured: ClusterView, error: float) -> None:
    # Where GPUs cannot be read, computing that overlaps with communication is not seen either.
    blind = _without_work(measured, 0.0)
    views = {
        "measured": measured,
        "assumed, GPUs known": completed(_without_work(measured, FLOP_PER_S_OF_GPU)),
        "assumed": completed(blind),
        "zero": blind,
    }
    truth = judged.truth
    for name, view in views.items():
        where = (error, "work", name)
        found = judged.time(where, partial(decide, build(view), Options(), LEVEL_COUNT))
        judged.note(where, truth.routed(found.routing), found.level, truth.optimum)


def _without_work(view: ClusterView, flop_per_s: float) -> ClusterView:
    """Return what hosts see that cannot read GPUs, but know what each of them computes at."""
    jobs = tuple(
        replace(
            job,
            work=0.0,
            compute_s=job.comm_start_s,
            assumed_flop_per_s=job.gpus * flop_per_s,
        )
        for job in view.jobs
    )
    return replace(view, jobs=jobs, digest="")
