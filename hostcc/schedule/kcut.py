"""The exact maximum K-cut under an order: which jobs share a priority level (the default).

Levels l in 0 .. K - 1 with l(u) <= l(v) on every edge u -> v; the cut, the sum of
w min(1, l(v) - l(u)), is concave in the differences, so the linear programme is the dual of a
minimum-cost flow and integral.  Steepest ascent from l = 0: at most K - 1 times the smallest
set whose raise by one gains most is raised.  What results is the componentwise smallest
optimum: it is unique, so every host finds the same.

The flow of one step is where the next begins: an edge at difference 0 carries at least w, at 1
between 0 and w, beyond nothing.  A set can be raised with gain while flow is left over, and
the smallest best one is what the left-over reaches.  Integers throughout.

From the levels and the flow of a similar graph less is to do: sets are raised while that gains,
then lowered while that gains, which ends at an optimum from anywhere (Murota and Shioura, Math.
Programming 2014, on L-natural-convex functions), then lowered while that loses nothing.  As the
smallest optimum is unique it does not matter where the search began.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule import sorting
from hostcc.schedule.graph import Contention
from hostcc.schedule.problem import Ints

ENDLESS = np.int64(2**61)
FAR = np.int64(2**40)
PULSES = 20
"""Rounds of pushes between two looks at all distances."""


@dataclass(frozen=True)
class Cut:
    """A maximum cut, and the flow that proves it."""

    level: Ints
    """(J,) 0 the highest."""
    x: Ints
    """(E,) on the edges."""


def exact(graph: Contention, levels: int) -> Ints:
    """Levels (J,) of the smallest maximum cut with `levels` levels, 0 the highest."""
    return cut(graph, levels).level


def cut(graph: Contention, levels: int, like: Cut | None = None) -> Cut:
    """The same with its flow.  `like`: levels and a flow, any, to begin with; the nearer to the
    optimum the sooner it is found."""
    top = max(0, min(levels, graph.jobs) - 1)
    if like is None:
        flow = _Flow(graph, np.zeros(graph.jobs, np.int64), graph.weight, top)
        flow.rise()
        return Cut(flow.level, flow.x)
    flow = _Flow(graph, _feasible(graph, np.minimum(like.level, top), top), like.x, top)
    flow.rise()
    flow.mirror()
    flow.rise()
    flow.mirror()
    flow.settle()
    return Cut(flow.level, flow.x)


def _feasible(graph: Contention, level: Ints, top: int) -> Ints:
    """Levels that respect every edge, near to the given ones; -1: of a job that has none.

    Where an edge is not respected that end gives way which has more such edges: it goes between
    those of its neighbours that stay.  What is left is lowered.
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
    """x on the edges, and at each job what comes in and does not go out (`left`).

    Every edge is two arcs, forwards (more x) and backwards (less x); arcs stand in the order of
    their tails, forwards before backwards, `twin` is the opposite of each.
    """

    def __init__(self, graph: Contention, level: Ints, x: Ints, top: int) -> None:
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

    def rise(self) -> None:
        """Raise sets while that gains."""
        while True:
            self._push_all()
            raised = self._search((self.left > 0) & (self.level < self.top)) < FAR
            if not raised.any():
                break
            self.level += raised

    def mirror(self) -> None:
        """Up becomes down: the same flow on the edges turned round, levels from the other end."""
        self.first, self.second = self.second, self.first
        self.forwards, self.backwards = self.backwards, self.forwards
        self.left = -self.left
        self.level = self.top - self.level

    def settle(self) -> None:
        """Lower sets while that loses nothing: every optimum agrees with the one flow."""
        while True:
            self._open()
            fixed = self._search((self.left > 0) | (self.level == 0)) < FAR
            if fixed.all():
                break
            self.level -= ~fixed

    def _bounds(self) -> tuple[Ints, Ints]:
        """What x may be on each edge."""
        apart = self.level[self.second] - self.level[self.first]
        together = apart == 0
        most = self.weight * (apart == 1)
        most[together] = ENDLESS
        return self.weight * together, most

    def _open(self) -> Ints:
        """Give every arc its room, the least x of each edge."""
        least, most = self._bounds()
        self.room[self.forwards] = most - self.x
        self.room[self.backwards] = self.x - least
        return least

    def _push_all(self) -> None:
        """Move flow from where it is left over to where it is missing, until no more can.  On
        the top level it may stay."""
        least = self._open()
        full = self.level == self.top
        hopeful = ~full
        while len(over := np.flatnonzero((self.left > 0) & hopeful)):
            distance = self._search((self.left < 0) | full, over)
            # What reaches no such place never will: flow only moves towards one.
            hopeful[over[distance[over] == FAR]] = False
            able = np.where(full, 0, FAR)
            for _ in range(PULSES):
                if not self._pulse(distance, able):
                    break
        self.x = least + self.room[self.backwards]

    def _arcs(self, jobs: Ints, count: Ints, ends: Ints) -> Ints:
        """The arcs of some jobs, of which each has `count`, those up to it `ends`."""
        arcs: Ints = (self.start[jobs] - ends + count).repeat(count)
        arcs += self.steps[: len(arcs)]
        return arcs

    def _search(self, start: NDArray[np.bool_], back: Ints | None = None) -> Ints:
        """(J,) hops from `start` over arcs with room, FAR: not at all.  With `back`, jobs, hops
        to `start`; and FAR also for what is farther than all of those."""
        distance = np.where(start, 0, FAR)
        frontier = np.flatnonzero(start)
        for hop in range(1, self.jobs + 1):
            count = self.degree[frontier]
            arcs = self._arcs(frontier, count, count.cumsum())
            target = self.head[arcs]
            (new,) = (distance[target] == FAR).nonzero()
            arcs, target = arcs[new], target[new]
            target = target[self.room[arcs if back is None else self.twin[arcs]] > 0]
            if not len(target):
                break
            distance[target] = hop
            if back is not None and distance[back].max() < FAR:
                break
            (frontier,) = (distance == hop).nonzero()
        return distance

    def _pulse(self, distance: Ints, able: Ints) -> bool:
        """Every job with flow left over that is nearer than `able` pushes what it can one hop
        nearer, its arcs in turn; one that keeps some takes a new distance.  Whether there was
        any such job."""
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
            least = np.minimum.reduceat(np.where(self.room[arcs] > 0, near, FAR), first)
            (stuck,) = (kept & (least >= here)).nonzero()
            distance[active[stuck]] = np.minimum(least[stuck] + 1, FAR)
        return True
