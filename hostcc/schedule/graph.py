"""The contention graph: who stands before whom on a shared link, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.errors import CycleError, OptionsError
from hostcc.schedule.problem import Floats, Ints

WEIGHT_BITS = 30
"""Weights become whole numbers of so many bits: hosts that agree on them agree on the result."""


@dataclass(frozen=True)
class Contention:
    """Edges from the job that goes first to the one that waits; no cycles, no pair twice."""

    jobs: int
    first: Ints
    """(E,)"""
    second: Ints
    """(E,)"""
    weight: Ints
    """(E,) what it is worth that the two are on different levels; at least 0."""

    @staticmethod
    def of(jobs: int, first: Ints, second: Ints, weight: Floats) -> Contention:
        """Parallel edges add.  Raises CycleError, and OptionsError for weights that are negative
        or no numbers.  Scaling is by a power of two, so whole weights keep their ratios."""
        graph = Contention._summed(jobs, first, second, weight)
        graph.topological()
        return graph

    @staticmethod
    def ranked(rank: Ints, first: Ints, second: Ints, weight: Floats) -> Contention:
        """The same for edges that lead down a ranking (J,) of the jobs: no cycle is possible."""
        if not (rank[first] < rank[second]).all():
            raise CycleError("contention graph: expected edges from lower to higher ranks")
        return Contention._summed(len(rank), first, second, weight)

    @staticmethod
    def _summed(jobs: int, first: Ints, second: Ints, weight: Floats) -> Contention:
        first, second = np.asarray(first, np.int64), np.asarray(second, np.int64)
        weight = np.asarray(weight, np.float64)
        _check(weight)
        pairs, where = sorting.unique(first * max(1, jobs) + second)
        summed = np.asarray(np.bincount(where, weight, len(pairs)), np.float64)
        first, second = np.divmod(pairs, max(1, jobs))
        return Contention(jobs, first, second, whole(summed))

    def topological(self) -> Ints:
        """The jobs in an order that respects every edge: Kahn's, layer by layer, each layer by
        index.  Raises CycleError."""
        order = np.argsort(self.first, kind="stable")
        second = self.second[order]
        starts = np.searchsorted(self.first[order], np.arange(self.jobs + 1))
        waiting = np.bincount(self.second, minlength=self.jobs)
        layer = np.flatnonzero(waiting == 0)
        layers = []
        while len(layer):
            layers.append(layer)
            freed = second[spans(starts[layer], starts[layer + 1])]
            np.subtract.at(waiting, freed, 1)
            layer = np.unique(freed[waiting[freed] == 0])
        done = np.concatenate(layers) if layers else np.zeros(0, np.int64)
        if len(done) < self.jobs:
            stuck = int(np.flatnonzero(waiting > 0)[0])
            raise CycleError(f"contention graph: job {stuck}: expected no cycle through it")
        return done

    def cut(self, levels: Ints) -> int:
        """Weight of the edges whose ends are on different levels."""
        return int(self.weight[levels[self.first] < levels[self.second]].sum())


def whole(weight: Floats) -> Ints:
    """Weights as whole numbers of WEIGHT_BITS: multiplied by a power of two, so those that are
    whole keep their ratios.  Raises OptionsError for weights that are negative or no numbers."""
    _check(weight)
    most = weight.max(initial=0.0)
    scale = 2.0 ** (WEIGHT_BITS - np.frexp(most)[1]) if most > 0 else 1.0
    return np.asarray(np.rint(weight * scale).astype(np.int64))


def _check(weight: Floats) -> None:
    if len(weight) and not (weight.min() >= 0 and weight.max() < np.inf):
        raise OptionsError("contention graph: weight: expected a number of at least 0")


def spans(first: Ints, last: Ints) -> Ints:
    """The numbers first[i] .. last[i] - 1 of every i, one after the other."""
    count = last - first
    total = int(count.sum())
    if not total:
        return np.zeros(0, np.int64)
    base: Ints = (first - (count.cumsum() - count)).repeat(count)
    base += np.arange(total)
    return base
