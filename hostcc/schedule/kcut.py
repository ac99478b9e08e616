"""The exact maximum K-cut under an order: which jobs share a priority level (the default).

Levels l in 0 .. K - 1 with l(u) <= l(v) on every edge u -> v; the cut, the sum of
w min(1, l(v) - l(u)), is concave in the differences, so the linear programme is the dual of a
minimum-cost flow and integral.  Steepest ascent from l = 0: at most K - 1 times the smallest
set whose raise by one gains most is raised.  What results is the componentwise smallest
optimum: it is unique, so every host finds the same.

The flow of one step is where the next begins: an edge at difference 0 carries at least w, at 1
between 0 and w, beyond nothing.  A set can be raised with gain while flow is left over, and
the smallest best one is what the left-over reaches.  Integers throughout.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule import sorting
from hostcc.schedule.graph import Contention, spans
from hostcc.schedule.problem import Ints

ENDLESS = np.int64(2**61)
FAR = np.int64(2**40)
PULSES = 10
"""Rounds of pushes between two looks at all distances."""


def exact(graph: Contention, levels: int) -> Ints:
    """Levels (J,) of the smallest maximum cut with `levels` levels, 0 the highest."""
    flow = _Flow(graph)
    for _ in range(min(levels, graph.jobs) - 1):
        flow.push_all()
        raised = flow.reached()
        if not raised.any():
            break
        flow.level += raised
    return flow.level


class _Flow:
    """x on the edges, and at each job what comes in and does not go out (`left`).

    Every edge is two arcs, forwards (more x) and backwards (less x); arcs stand in the order of
    their tails, `twin` is the opposite of each.
    """

    def __init__(self, graph: Contention) -> None:
        edges, self.jobs = len(graph.first), graph.jobs
        self.first, self.second, self.weight = graph.first, graph.second, graph.weight
        self.x = graph.weight.copy()
        self.level = np.zeros(graph.jobs, np.int64)
        self.left = np.zeros(graph.jobs, np.int64)
        np.add.at(self.left, graph.second, graph.weight)
        np.subtract.at(self.left, graph.first, graph.weight)
        tail = np.concatenate([graph.first, graph.second])
        by_tail = sorting.order(tail)
        place = np.empty(2 * edges, np.int64)
        place[by_tail] = np.arange(2 * edges)
        self.forwards, self.backwards = place[:edges], place[edges:]
        self.tail = tail[by_tail]
        self.head = np.concatenate([graph.second, graph.first])[by_tail]
        self.twin = np.empty(2 * edges, np.int64)
        self.twin[self.forwards], self.twin[self.backwards] = self.backwards, self.forwards
        self.start = np.searchsorted(self.tail, np.arange(graph.jobs + 1))
        self.room = np.zeros(2 * edges, np.int64)

    def push_all(self) -> None:
        """Move flow from where it is left over to where it is missing, until no more can."""
        apart = self.level[self.second] - self.level[self.first]
        least = np.where(apart == 0, self.weight, 0)
        most = np.where(apart == 0, ENDLESS, np.where(apart == 1, self.weight, 0))
        self.room[self.forwards] = most - self.x
        self.room[self.backwards] = self.x - least
        while True:
            distance = self._search(self.left < 0, self.room[self.twin] > 0)
            if not ((self.left > 0) & (distance < FAR)).any():
                break
            for _ in range(PULSES):
                if not self._pulse(distance):
                    break
        self.x = least + self.room[self.backwards]

    def reached(self) -> NDArray[np.bool_]:
        """(J,) jobs that left-over flow can get to."""
        return self._search(self.left > 0, self.room > 0) < FAR

    def _search(self, start: NDArray[np.bool_], usable: NDArray[np.bool_]) -> Ints:
        """(J,) hops from `start` over usable arcs, FAR: not at all."""
        distance = np.where(start, 0, FAR)
        frontier = np.flatnonzero(start)
        for hop in range(1, self.jobs + 1):
            arcs = spans(self.start[frontier], self.start[frontier + 1])
            target = self.head[arcs[usable[arcs]]]
            target = target[distance[target] == FAR]
            if not len(target):
                break
            distance[target] = hop
            frontier = np.flatnonzero(distance == hop)
        return distance

    def _pulse(self, distance: Ints) -> bool:
        """Every job with flow left over pushes what it can one hop nearer; one that keeps some
        takes a new distance.  Whether there was any such job."""
        active = np.flatnonzero((self.left > 0) & (distance < FAR))
        if not len(active):
            return False
        first, last = self.start[active], self.start[active + 1]
        arcs = spans(first, last)
        near = distance[self.head[arcs]]
        owner = np.repeat(np.arange(len(active)), last - first)
        here = distance[active]
        room = self.room[arcs]
        usable = (room > 0) & (near == here[owner] - 1)
        self._push(arcs[usable], room[usable], owner[usable], active)
        kept = self.left[active] > 0
        if kept.any():
            onward = np.where(self.room[arcs] > 0, near, FAR)
            least = np.minimum.reduceat(onward, np.cumsum(last - first) - (last - first))
            stuck = kept & (least >= here)
            distance[active[stuck]] = np.minimum(least[stuck] + 1, FAR)
        return True

    def _push(self, arcs: Ints, room: Ints, owner: Ints, active: Ints) -> None:
        """Fill each job's arcs in turn: each takes what those before it have left."""
        if not len(arcs):
            return
        have = self.left[active][owner]
        space = np.minimum(room, have)
        before = np.cumsum(space) - space
        count = np.bincount(owner)
        count = count[count > 0]
        before -= np.repeat(before[np.cumsum(count) - count], count)
        given = np.clip(have - before, 0, space)
        sent = given > 0
        arcs, given = arcs[sent], given[sent]
        np.subtract.at(self.left, self.tail[arcs], given)
        np.add.at(self.left, self.head[arcs], given)
        self.room[arcs] -= given
        self.room[self.twin[arcs]] += given
