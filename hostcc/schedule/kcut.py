"""The exact maximum K-cut under an order: which jobs share a priority level (the default).

Levels l in 0 .. K - 1 with l(u) <= l(v) on every edge u -> v. The cut, the sum of w min(1, l(v) -
l(u)), is concave in the differences. So the linear programme is the dual of a minimum-cost flow and
has integer solutions. Steepest ascent from l = 0 raises, at most K - 1 times, the smallest set
whose raise by one gains most. The result is the componentwise smallest optimum. It is unique, so
every host finds the same.

The flow of one step is the start of the next: an edge at difference 0 carries at least w, at 1
between 0 and w, beyond that nothing. A set can be raised with gain while excess flow is left, and
the smallest best set is what the excess reaches. All numbers are integers.

A search that starts from the levels and flow of a similar graph has less to do. Sets are raised
while that gains, then lowered while that gains. This ends at an optimum from any start (Murota and
Shioura, Math. Programming 2014, on L-natural-convex functions). Then sets are lowered while that
loses nothing. As the smallest optimum is unique, the start does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule import sorting
from hostcc.schedule.contention_graph import ContentionGraph
from hostcc.schedule.problem import Ints

UNBOUNDED = np.int64(2**61)
"""Capacity of an edge without limit."""
UNREACHED = np.int64(2**40)
"""Distance of a job that cannot be reached."""
PUSH_ROUNDS = 20
"""Rounds of pushes between two computations of all distances."""


@dataclass(frozen=True)
class Cut:
    """A maximum cut, and the flow that proves it."""

    level: Ints
    """(J,) 0 the highest."""
    x: Ints
    """(E,) flow on the edges."""


def exact(graph: ContentionGraph, levels: int) -> Ints:
    """Return levels (J,) of the smallest maximum cut with `levels` levels, 0 the highest."""
    return cut(graph, levels).level


def cut(graph: ContentionGraph, levels: int, like: Cut | None = None) -> Cut:
    """Return the smallest maximum cut with its flow.

    `like`: any levels and flow to start from; the nearer to the optimum, the sooner it is found.
    """
    top = max(0, min(levels, graph.jobs) - 1)
    if like is None:
        flow = _Flow(graph, np.zeros(graph.jobs, np.int64), graph.weight, top)
        flow.raise_sets()
        return Cut(flow.level, flow.x)
    flow = _Flow(graph, _feasible(graph, np.minimum(like.level, top), top), like.x, top)
    flow.raise_sets()
    flow.mirror()
    flow.raise_sets()
    flow.mirror()
    flow.lower_sets()
    return Cut(flow.level, flow.x)


def _feasible(graph: ContentionGraph, level: Ints, top: int) -> Ints:
    """Return levels that respect every edge, close to the given ones; -1: a job without one.

    Of an edge that is not respected, the end with more such edges moves between those of its
    neighbours that stay. Remaining violations are resolved by lowering.
    """
    first, second = graph.first, graph.second
    wrong = np.flatnonzero(level[first] > level[second])
    ends = first[wrong], second[wrong]
    count = np.bincount(np.concatenate(ends), minlength=graph.jobs)
    gives_way = level < 0
    gives_way[np.where(count[ends[0]] >= count[ends[1]], *ends)] = True
    least, most = np.zeros(graph.jobs, np.int64), np.full(graph.jobs, top)
    down = np.flatnonzero(gives_way[second] & ~gives_way[first])
    up = np.flatnonzero(gives_way[first] & ~gives_way[second])
    np.maximum.at(least, second[down], level[first[down]])
    np.minimum.at(most, first[up], level[second[up]])
    level = np.where(gives_way, np.clip(level, least, np.maximum(most, least)), level)
    while (falling := level[first] > level[second]).any():
        np.minimum.at(level, first[falling], level[second[falling]])
    return level


class _Flow:
    """Flow x on the edges, and at each job the excess of inflow over outflow (`left`).

    Every edge is two arcs, forwards (more x) and backwards (less x). Arcs are ordered by their
    tails, forwards before backwards; `twin` is the opposite arc.
    """

    def __init__(self, graph: ContentionGraph, level: Ints, x: Ints, top: int) -> None:
        edges, self.jobs, self.top = len(graph.first), graph.jobs, top
        self.first, self.second, self.weight = graph.first, graph.second, graph.weight
        self.level = level.copy()
        out = np.bincount(graph.first, minlength=graph.jobs)
        into = np.bincount(graph.second, minlength=graph.jobs)
        self.degree = out + into
        self.start = self.degree.cumsum() - self.degree
        self.steps = np.arange(2 * edges)
        # Edges stand in the order of their first ends.
        self.forwards = self.steps[:edges] + (into.cumsum() - into)[graph.first]
        by_second = sorting.order(graph.second)
        self.backwards = np.empty(edges, np.int64)
        self.backwards[by_second] = self.steps[:edges] + out.cumsum()[graph.second[by_second]]
        self.head = np.empty(2 * edges, np.int64)
        self.head[self.forwards], self.head[self.backwards] = graph.second, graph.first
        self.twin = np.empty(2 * edges, np.int64)
        self.twin[self.forwards], self.twin[self.backwards] = self.backwards, self.forwards
        self.room = np.zeros(2 * edges, np.int64)
        self.x = np.clip(x, *self._bounds())
        self.left = np.zeros(graph.jobs, np.int64)
        np.add.at(self.left, graph.second, self.x)
        np.subtract.at(self.left, graph.first, self.x)

    def raise_sets(self) -> None:
        """Raise sets while that gains."""
        while True:
            self._push_all()
            raised = self._search((self.left > 0) & (self.level < self.top)) < UNREACHED
            if not raised.any():
                break
            self.level += raised

    def mirror(self) -> None:
        """Turn the problem upside down: edges reversed, levels counted from the other end."""
        self.first, self.second = self.second, self.first
        self.forwards, self.backwards = self.backwards, self.forwards
        self.left = -self.left
        self.level = self.top - self.level

    def lower_sets(self) -> None:
        """Lower sets while that loses nothing: every optimum is consistent with the one flow."""
        while True:
            self._open()
            fixed = self._search((self.left > 0) | (self.level == 0)) < UNREACHED
            if fixed.all():
                break
            self.level -= ~fixed

    def _bounds(self) -> tuple[Ints, Ints]:
        """Return the least and most x of each edge."""
        apart = self.level[self.second] - self.level[self.first]
        together = apart == 0
        most = self.weight * (apart == 1)
        most[together] = UNBOUNDED
        return self.weight * together, most

    def _open(self) -> Ints:
        """Set every arc's residual capacity; return the least x of each edge."""
        least, most = self._bounds()
        self.room[self.forwards] = most - self.x
        self.room[self.backwards] = self.x - least
        return least

    def _push_all(self) -> None:
        """Push excess to where flow is missing until no more can move; on the top level it may
        stay."""
        least = self._open()
        full = self.level == self.top
        hopeful = ~full
        while len(over := np.flatnonzero((self.left > 0) & hopeful)):
            distance = self._search((self.left < 0) | full, over)
            # Excess that cannot reach a sink never will: flow only moves towards one.
            hopeful[over[distance[over] == UNREACHED]] = False
            able = np.where(full, 0, UNREACHED)
            for _ in range(PUSH_ROUNDS):
                if not self._push_once(distance, able):
                    break
        self.x = least + self.room[self.backwards]

    def _arcs(self, jobs: Ints, count: Ints, ends: Ints) -> Ints:
        """Return the arcs of some jobs; each has `count` of them, cumulatively `ends`."""
        arcs: Ints = (self.start[jobs] - ends + count).repeat(count)
        arcs += self.steps[: len(arcs)]
        return arcs

    def _search(self, start: NDArray[np.bool_], back: Ints | None = None) -> Ints:
        """Return (J,) hops from `start` over arcs with residual capacity; UNREACHED: no way.

        With `back`, jobs: hops to `start`, and UNREACHED also beyond the farthest of those jobs.
        """
        distance = np.where(start, 0, UNREACHED)
        frontier = np.flatnonzero(start)
        for hop in range(1, self.jobs + 1):
            count = self.degree[frontier]
            arcs = self._arcs(frontier, count, count.cumsum())
            target = self.head[arcs]
            (new,) = (distance[target] == UNREACHED).nonzero()
            arcs, target = arcs[new], target[new]
            target = target[self.room[arcs if back is None else self.twin[arcs]] > 0]
            if not len(target):
                break
            distance[target] = hop
            if back is not None and distance[back].max() < UNREACHED:
                break
            (frontier,) = (distance == hop).nonzero()
        return distance

    def _push_once(self, distance: Ints, able: Ints) -> bool:
        """Push from every job with excess that is nearer than `able` to jobs one hop nearer.

        A job that keeps some excess takes a new distance. Returns whether there was such a job.
        """
        (active,) = ((self.left > 0) & (distance < able)).nonzero()
        if not len(active):
            return False
        count, here, have = self.degree[active], distance[active], self.left[active]
        ends = count.cumsum()
        first = ends - count
        arcs = self._arcs(active, count, ends)
        head = self.head[arcs]
        near = distance[head]
        most = have.repeat(count)
        space = np.minimum(self.room[arcs], most)
        space *= near == (here - 1).repeat(count)
        # Each arc takes what those before it have left.
        before = space.cumsum() - space
        before -= before[first].repeat(count)
        most -= before
        given = np.minimum(space, np.maximum(most, 0, out=most))
        (sent,) = given.nonzero()
        if len(sent):
            through, much = arcs[sent], given[sent]
            self.left[active] = have - np.add.reduceat(given, first)
            np.add.at(self.left, head[sent], much)
            self.room[through] -= much
            self.room[self.twin[through]] += much
        kept = self.left[active] > 0
        if kept.any():
            least = np.minimum.reduceat(np.where(self.room[arcs] > 0, near, UNREACHED), first)
            (stuck,) = (kept & (least >= here)).nonzero()
            distance[active[stuck]] = np.minimum(least[stuck] + 1, UNREACHED)
        return True
