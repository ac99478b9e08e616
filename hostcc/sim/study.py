"""How near the best schedules of small clusters the algorithms come (as in Crux, section 4.4).

The optimum is by enumeration: every routing that behaves differently, every order that
differs on a pair of jobs that meets, every assignment of levels; all in the same simulation.
The algorithms see the view, exact or with errors of measurement; what they decide is scored
on the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from hostcc.model import ClusterView
from hostcc.schedule import checked, compression, methods
from hostcc.schedule.components import Component, Layout, Small
from hostcc.schedule.contention import graph, pairs
from hostcc.schedule.intensity import communication_time, intensity
from hostcc.schedule.oracle import Oracle
from hostcc.schedule.plan import Options, decide
from hostcc.schedule.problem import Floats, Ints, Problem, build
from hostcc.sim.small import WINDOW, measured, small_case

LEVELS = 3
"""That five jobs have to share, in compression and in the whole pipeline."""
RIVALS = ("crux", "taccl", "annealing", "ecmp")
"""In path selection."""
PIPELINES: dict[str, Options] = {
    "hostcc": Options(),
    "hostcc, no simulation": Options(simulations=0),
    "Crux": Options(paths="crux", order="crux", compression="algorithm1"),
    "TACCL*": Options(paths="taccl", order="hash", compression="balanced"),
    "annealing, intensity": Options(paths="annealing", order="intensity", compression="exact"),
    "Sincronia": Options(paths="ecmp", order="sincronia", compression="sincronia"),
    "Varys": Options(paths="ecmp", order="varys", compression="balanced"),
    "ECMP, intensity": Options(paths="ecmp", order="intensity", compression="exact"),
    "ECMP, random": Options(paths="ecmp", order="hash", compression="balanced"),
}


@dataclass
class CaseResult:
    """One case: shares of the optimum, by (error, stage, method)."""

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


class Truth:
    """Everything about a case, by enumeration."""

    def __init__(self, view: ClusterView) -> None:
        self.problem = build(view)
        self.small = Small(self.problem)
        self.oracle = checked.oracle(self.small, self.problem.work, WINDOW)
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
        """What a routing is worth under its best order."""
        return sum(self.best[part][0] for part in layout.components)

    def value(self, layout: Layout, levels: Ints) -> float:
        """What a routing is worth with these levels (J,)."""
        return score(self.oracle, layout, levels)

    def routed(self, routing: Ints) -> Layout:
        """A routing (F,) taken apart."""
        return self.small.layout(tuple(routing.tolist()))

    def _whole(self, layout: Layout) -> Ints:
        """The best order of all jobs (J,) for a routing."""
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
        """The most that an order is worth on so many levels: all ways to assign them."""
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


def score(oracle: Oracle, layout: Layout, levels: Ints) -> float:
    """Worth per second of a layout under levels (J,)."""
    return sum(
        oracle.value(part, levels[list(part.members)].tolist()) for part in layout.components
    )


def study(seed: int, index: int, errors: Sequence[float]) -> CaseResult:
    """One case, the algorithms with each error of measurement (fractions; 0: exact)."""
    view = small_case(seed, index)
    begun = time.perf_counter()
    truth = Truth(view)
    alone = np.array([job.period_s for job in sorted(view.jobs, key=lambda job: job.job)])
    ideal = float((truth.problem.work / alone).sum())
    enough = truth.best_levels(truth.layout, truth.order, LEVELS)
    result = CaseResult(
        index,
        truth.optimum / ideal,
        truth.oracle.simulated,
        time.perf_counter() - begun,
    )
    for error in errors:
        seen = build(view if not error else measured(view, error, seed, index))
        _paths(truth, seen, error, result)
        _orders(truth, seen, error, result)
        _levels(truth, seen, error, result, enough)
        _pipelines(truth, seen, error, result)
    return result


def _note(
    result: CaseResult,
    where: tuple[float, str, str],
    method: Callable[[], Ints],
    worth: Callable[[Ints], float],
    best: float,
) -> None:
    begun = time.perf_counter()
    found = method()
    result.took[where] = time.perf_counter() - begun
    result.shares[where] = worth(found) / best


def _paths(truth: Truth, seen: Problem, error: float, result: CaseResult) -> None:
    options: Mapping[str, Callable[[], Ints]] = {
        "hostcc, no simulation": lambda: methods.ROUTES["hostcc"](seen),
        **{name: _bound(methods.ROUTES[name], seen) for name in RIVALS},
    }
    for name, method in options.items():
        _note(
            result,
            (error, "paths", name),
            method,
            lambda routing: truth.at_best(truth.routed(routing)),
            truth.optimum,
        )


def _bound(route: methods.Route, seen: Problem) -> Callable[[], Ints]:
    return lambda: route(seen)


def _ordered(truth: Truth, seen: Problem) -> Ints:
    """hostcc's order where the routing is given."""
    small = Small(seen)
    judge = checked.oracle(small, seen.work)
    layout = small.layout(truth.layout.routing)
    return checked.search(small, judge, seen.work, None, Options().simulations, [layout]).rank


def _orders(truth: Truth, seen: Problem, error: float, result: CaseResult) -> None:
    routing = np.array(truth.layout.routing, np.int64)
    options: dict[str, Callable[[], Ints]] = {
        "hostcc": lambda: _ordered(truth, seen),
        "hostcc, no simulation": lambda: methods.ORDERS["hostcc"](seen, routing),
    }
    for name, order in methods.ORDERS.items():
        if name != "hostcc":
            options[name] = lambda order=order: order(seen, routing)  # type: ignore[misc]
    for name, method in options.items():
        _note(
            result,
            (error, "order", name),
            method,
            lambda rank: truth.value(truth.layout, rank),
            truth.at_best(truth.layout),
        )


def _levels(truth: Truth, seen: Problem, error: float, result: CaseResult, best: float) -> None:
    routing = np.array(truth.layout.routing, np.int64)
    worth: Floats = intensity(seen.work, communication_time(seen, routing))
    contention = graph(pairs(seen, routing), truth.order, worth)
    options: dict[str, Callable[[], Ints]] = {"hostcc": lambda: _compressed(truth, seen)}
    for name, compress in compression.METHODS.items():
        options[f"{name} cut" if name == "exact" else name] = (
            lambda compress=compress: compress(contention, truth.order, LEVELS)  # type: ignore[misc]
        )
    for name, method in options.items():
        _note(
            result,
            (error, "levels", name),
            method,
            lambda levels: truth.value(truth.layout, levels),
            best,
        )


def _compressed(truth: Truth, seen: Problem) -> Ints:
    """hostcc's levels where routing and order are given."""
    small = Small(seen)
    judge = checked.oracle(small, seen.work)
    level = np.zeros(seen.job_count, np.int64)
    for part in small.layout(truth.layout.routing).components:
        own = np.argsort(np.argsort(truth.order[list(part.members)])).tolist()
        _, fitted = checked.compress(judge, part, [own], LEVELS)
        level[list(part.members)] = fitted
    return level


def _pipelines(truth: Truth, seen: Problem, error: float, result: CaseResult) -> None:
    for name, options in PIPELINES.items():
        begun = time.perf_counter()
        found = decide(seen, options, LEVELS)
        took = time.perf_counter() - begun
        layout = truth.routed(found.routing)
        worth = {"pipeline": truth.value(layout, found.level)}
        if name == "hostcc":  # which chooses paths and order together
            worth["paths"] = truth.at_best(layout)
        for stage, value in worth.items():
            result.took[error, stage, name] = took
            result.shares[error, stage, name] = value / truth.optimum
