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

from hostcc.schedule.graph import Contention, spans
from hostcc.schedule.problem import Ints

ENDLESS = np.int64(2**61)
FAR = np.int64(2**40)


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

    Arc e < E is edge e forwards (more x), arc E + e is edge e backwards (less x).
    """

    def __init__(self, graph: Contention) -> None:
        self.edges, self.jobs = len(graph.first), graph.jobs
        self.weight = graph.weight
        self.x = graph.weight.copy()
        self.level = np.zeros(graph.jobs, np.int64)
        self.left = np.zeros(graph.jobs, np.int64)
        np.add.at(self.left, graph.second, graph.weight)
        np.subtract.at(self.left, graph.first, graph.weight)
        self.tail = np.concatenate([graph.first, graph.second])
        self.head = np.concatenate([graph.second, graph.first])
        self.by_tail = np.argsort(self.tail, kind="stable")
        self.tail_start = np.searchsorted(self.tail[self.by_tail], np.arange(graph.jobs + 1))

    def _room(self) -> Ints:
        """What each arc can still take."""
        first, second = self.tail[: self.edges], self.head[: self.edges]
        apart = self.level[second] - self.level[first]
        most = np.where(apart == 0, ENDLESS, np.where(apart == 1, self.weight, 0))
        least = np.where(apart == 0, self.weight, 0)
        return np.concatenate([most - self.x, self.x - least])

    def reached(self) -> NDArray[np.bool_]:
        """(J,) jobs that left-over flow can get to."""
        return self._search(self.left > 0, self._room() > 0) < FAR

    def push_all(self) -> None:
        """Move flow from where it is left over to where it is missing, until no more can."""
        while True:
            room = self._room()
            # Backwards from where flow is missing: arc e is usable where its opposite has room.
            usable = room > 0
            opposite = np.concatenate([usable[self.edges :], usable[: self.edges]])
            distance = self._search(self.left < 0, opposite)
            active = (self.left > 0) & (distance < FAR)
            if not active.any():
                return
            self._wave(room, distance, int(distance[active].max()))

    def _search(self, start: NDArray[np.bool_], usable: NDArray[np.bool_]) -> Ints:
        """(J,) hops from `start` over usable arcs, FAR: not at all."""
        distance = np.where(start, 0, FAR)
        frontier = np.flatnonzero(start)
        for hop in range(1, self.jobs + 1):
            arcs = self.by_tail[spans(self.tail_start[frontier], self.tail_start[frontier + 1])]
            target = self.head[arcs[usable[arcs]]]
            target = target[distance[target] == FAR]
            if not len(target):
                break
            distance[target] = hop
            frontier = np.flatnonzero(distance == hop)
        return distance

    def _wave(self, room: Ints, distance: Ints, farthest: int) -> None:
        """One sweep, from the farthest jobs down: each pushes all it can one hop nearer."""
        usable = (room > 0) & (distance[self.tail] == distance[self.head] + 1)
        usable &= distance[self.tail] < FAR
        for hop in range(farthest, 0, -1):
            jobs = np.flatnonzero((self.left > 0) & (distance == hop))
            if not len(jobs):
                continue
            arcs = self.by_tail[spans(self.tail_start[jobs], self.tail_start[jobs + 1])]
            arcs = arcs[usable[arcs]]
            tails = self.tail[arcs]
            # Fill a job's arcs in turn: each takes what those before it have left.
            space = np.minimum(room[arcs], self.left[tails])
            before = np.cumsum(space) - space
            fresh = np.r_[True, tails[1:] != tails[:-1]]
            before -= before[fresh][np.cumsum(fresh) - 1]
            given = np.clip(self.left[tails] - before, 0, space)
            np.subtract.at(self.left, tails, given)
            np.add.at(self.left, self.head[arcs], given)
            forwards = arcs < self.edges
            self.x[arcs[forwards]] += given[forwards]
            self.x[arcs[~forwards] - self.edges] -= given[~forwards]
