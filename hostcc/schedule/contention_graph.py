"""The contention graph: which job precedes which on a shared link, and with what weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.errors import CycleError, OptionsError
from hostcc.schedule.problem import Floats, Ints

WEIGHT_BITS = 30
"""Bits of integer weights: hosts that agree on the weights agree exactly on the result."""


@dataclass(frozen=True)
class ContentionGraph:
    """Edges from the job that goes first to the one that waits; no cycles, no parallel edges."""

    jobs: int
    first: Ints
    """(E,)"""
    second: Ints
    """(E,)"""
    weight: Ints
    """(E,) value of having the two on different levels; at least 0."""

    @staticmethod
    def of(jobs: int, first: Ints, second: Ints, weight: Floats) -> ContentionGraph:
        """Return the graph of these edges; weights of parallel edges add.

        Weights are scaled by a power of two, so integers keep their ratios. Raises CycleError, and
        OptionsError for weights that are negative or not finite.
        """
        graph = ContentionGraph._summed(jobs, first, second, weight)
        graph.topological()
        return graph

    @staticmethod
    def ranked(rank: Ints, first: Ints, second: Ints, weight: Floats) -> ContentionGraph:
        """Return the graph of edges that all lead down a ranking (J,), so that no cycle is
        possible."""
        if not (rank[first] < rank[second]).all():
            raise CycleError("contention graph: expected edges from lower to higher ranks")
        return ContentionGraph._summed(len(rank), first, second, weight)

    @staticmethod
    def _summed(jobs: int, first: Ints, second: Ints, weight: Floats) -> ContentionGraph:
        first, second = np.asarray(first, np.int64), np.asarray(second, np.int64)
        weight = np.asarray(weight, np.float64)
        _check(weight)
        pairs, where = sorting.unique(first * max(1, jobs) + second)
        summed = np.asarray(np.bincount(where, weight, len(pairs)), np.float64)
        first, second = np.divmod(pairs, max(1, jobs))
        return ContentionGraph(jobs, first, second, integer_weights(summed))

    def topological(self) -> Ints:
        """Return the jobs in a topological order: Kahn's, in layers, each layer by index.

        Raises CycleError.
        """
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
            layer = sorting.distinct(freed[waiting[freed] == 0])
        done = np.concatenate(layers) if layers else np.zeros(0, np.int64)
        if len(done) < self.jobs:
            stuck = int(np.flatnonzero(waiting > 0)[0])
            raise CycleError(f"contention graph: job {stuck}: expected no cycle through it")
        return done

    def cut(self, levels: Ints) -> int:
        """Return the weight of the edges whose ends are on different levels."""
        return int(self.weight[levels[self.first] < levels[self.second]].sum())


def integer_weights(weight: Floats) -> Ints:
    """Return weights as integers of WEIGHT_BITS bits, scaled by a power of two.

    Integers keep their ratios. Raises OptionsError for weights that are negative or not finite.
    """
    _check(weight)
    most = weight.max(initial=0.0)
    # ldexp, as the power of two itself would overflow for the smallest floats.
    return np.asarray(np.rint(np.ldexp(weight, WEIGHT_BITS - np.frexp(most)[1])).astype(np.int64))


def _check(weight: Floats) -> None:
    if len(weight) and not (weight.min() >= 0 and weight.max() < np.inf):
        raise OptionsError("contention graph: weight: expected a number of at least 0")


def spans(first: Ints, last: Ints) -> Ints:
    """Return the numbers first[i] .. last[i] - 1 of every i, concatenated."""
    count = last - first
    total = int(count.sum())
    if not total:
        return np.zeros(0, np.int64)
    base: Ints = (first - (count.cumsum() - count)).repeat(count)
    base += np.arange(total)
    return base


def places(count: Ints) -> Ints:
    """Return the numbers 0 .. count[i] - 1 of every i, concatenated: places within groups."""
    return spans(np.zeros_like(count), count)
