"""Local search that lowers the most loaded link, then the next: for unequal demands and links.

The loads of all links, sorted in falling order, are compared lexicographically, and only changes
that lower this order are made. A step moves one flow off the most loaded link that allows it. If no
single flow can move, two are swapped; if no two can, a chain of flows push each other on (an
ejection chain). A sum of squares would be a simpler objective, but can raise the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints

EPSILON = 1e-9
"""Relative difference below which two loads count as equal."""
CHAIN_WIDTH = 6
"""Pushes tried at each step of a chain."""
CHAIN_DEPTH = 3
"""Flows in a chain."""
MAX_CHAIN_FLOWS = 2000
"""Flows above which chains do not pay."""


@dataclass
class _State:
    fabric: Fabric
    table: Ints
    demand: Floats
    choice: Ints
    links: Ints
    """(P, F) links in use."""
    load: Floats
    steps: int
    """Remaining inspections of a link."""
    moved: list[tuple[int, int]] = field(default_factory=list)
    """(Flow, its previous candidate) of the present chain."""

    def move(self, flow: int, candidate: int) -> None:
        self.moved.append((flow, int(self.choice[flow])))
        self._set(flow, candidate)

    def undo(self, to: int) -> None:
        while len(self.moved) > to:
            flow, candidate = self.moved.pop()
            self._set(flow, candidate)

    def _set(self, flow: int, candidate: int) -> None:
        pad = len(self.load) - 2
        self.load[self.links[:, flow]] -= self.demand[flow]
        self.links[:, flow] = self.fabric.table[self.table[flow], candidate]
        self.load[self.links[:, flow]] += self.demand[flow]
        self.load[pad] = 0.0
        self.choice[flow] = candidate

    def on(self, link: int) -> Ints:
        """Return the flows on a link."""
        hit = self.links[0] == link
        for row in self.links[1:]:
            hit |= row == link
        return np.flatnonzero(hit)


def improve(
    fabric: Fabric,
    table: Ints,
    demand: Floats,
    choice: Ints,
    *,
    floor: float = 0.0,
    steps: int = 400,
    movable: NDArray[np.bool_] | None = None,
) -> Ints:
    """Return (F,) candidates that are no worse than `choice`.

    `table`, `demand` (integers, see fabric.integer_demands) and `choice` are (F,). Ends when no
    link is above `floor` (load over capacity), when nothing helps, or after `steps` inspections of
    a link. Only flows in `movable` change.
    """
    load = fabrics.loads(fabric, table, demand, choice)
    links = np.ascontiguousarray(fabric.table[table, choice].T)
    if movable is not None:
        links[:, ~movable] = len(load) - 2  # on no link, as far as a search can see
    state = _State(fabric, table, demand, choice.copy(), links, load, steps)
    depth = CHAIN_DEPTH if len(table) <= MAX_CHAIN_FLOWS else 1
    real = fabric.link_count
    if real == 0:
        return state.choice
    stuck = np.zeros(real, np.bool_)
    since = 0
    while state.steps > 0:
        use = state.load[:-2] / fabric.capacity[:-2]
        use[stuck] = -1.0
        hot = int(use.argmax())
        if use[hot] <= floor * (1 + EPSILON) or use[hot] <= 0:
            if not since or not stuck.any():
                break
            stuck[:], since = False, 0
            continue
        if _relieve(state, hot, float(use[hot]) * (1 - EPSILON), depth):
            state.moved.clear()
            since += 1
        else:
            stuck[hot] = True
    return state.choice


def _relieve(state: _State, hot: int, limit: float, depth: int) -> bool:
    """Move one flow off link `hot` so that every link it touches ends below `limit`."""
    state.steps -= 1
    flows = state.on(hot)
    flows = flows[state.demand[flows] > 0]
    for moved, _ in state.moved:  # by this chain
        flows = flows[flows != moved]
    if not len(flows):
        return False
    worst, over = _outcomes(state, flows, hot, limit)
    left = (state.load[hot] - state.demand[flows]) / state.fabric.capacity[hot]
    after = np.maximum(worst, left[:, None])
    best = int(after.argmin())
    row, candidate = divmod(best, after.shape[1])
    if after.flat[best] < limit:
        state.move(int(flows[row]), candidate)
        return True
    if not state.moved and _swap(state, flows, hot, limit):
        return True
    return depth > 1 and _push(state, flows, worst, over, limit, depth, left)


def _push(
    state: _State,
    flows: Ints,
    worst: Floats,
    over: Ints,
    limit: float,
    depth: int,
    left: Floats,
) -> bool:
    """Move a flow to a link that is then too full, and relieve that one."""
    possible = np.where((over == 1) & (left < limit)[:, None], worst, np.inf)
    ranked = np.argsort(possible, axis=None, kind="stable")[:CHAIN_WIDTH]
    for spot in ranked:
        if not np.isfinite(possible.flat[spot]) or state.steps <= 0:
            return False
        row, candidate = divmod(int(spot), possible.shape[1])
        mark, flow = len(state.moved), int(flows[row])
        state.move(flow, candidate)
        links = state.links[:, flow]
        use = state.load[links] / state.fabric.capacity[links]
        full = int(links[int(use.argmax())])
        if use.max() < limit or _relieve(state, full, limit, depth - 1):
            return True
        state.undo(mark)
    return False


def _outcomes(state: _State, flows: Ints, hot: int, limit: float) -> tuple[Floats, Ints]:
    """Return (N, K) the peak load over capacity on each candidate with the flow on it.

    Also how many of its links are then at `limit` or above; infinite for candidates that keep
    `hot`.
    """
    paths = state.fabric.table[state.table[flows]]
    own = _among(paths, state.links[:, flows].T[:, None, None, :])
    extra = np.where(own, 0.0, state.demand[flows][:, None, None])
    use = (state.load[paths] + extra) / state.fabric.capacity[paths]
    barred = len(state.load) - 1
    use[((paths == hot) | (paths == barred)).any(axis=2)] = np.inf
    return use.max(axis=2), (use >= limit).sum(axis=2)


def _swap(state: _State, flows: Ints, hot: int, limit: float) -> bool:
    """Swap a flow on `hot` with a smaller one, by the number of the candidate.

    In a Clos the number is the spine, for every table, so both flows stay within the links that one
    move changes at their own ToRs.
    """
    state.steps -= 1
    slots = state.choice[flows]
    slot = int(slots[0])
    mine = flows[slots == slot]
    through = (state.fabric.table[:, slot] == hot).any(axis=1)
    others = np.flatnonzero(through[state.table])
    fixed = (state.links[:, others] == len(state.load) - 2).all(axis=0)
    others = others[(state.choice[others] != slot) & ~fixed]
    if not len(others):
        return False
    worst = _exchanged(state, mine, others, slot, hot)
    best = int(worst.argmin())
    if worst.flat[best] >= limit:
        return False
    row, column = divmod(best, len(others))
    first, second = int(mine[row]), int(others[column])
    there = int(state.choice[second])
    state.move(first, there)
    state.move(second, slot)
    return True


def _exchanged(state: _State, mine: Ints, others: Ints, slot: int, hot: int) -> Floats:
    """Return (N, M) the peak load of the links concerned after swapping mine[n] and others[m].

    Load over capacity; infinite where a path is barred.
    """
    table, load, capacity = state.fabric.table, state.load, state.fabric.capacity
    old = state.links[:, mine].T[:, None, :]
    there = state.links[:, others].T[None, :, :]
    new = table[state.table[mine][:, None], state.choice[others][None, :]]
    here = table[state.table[others], slot][None, :, :]
    size = state.demand[mine][:, None, None]
    other = state.demand[others][None, :, None]
    shape = (len(mine), len(others))
    worst = np.full(shape, (load[hot]) / capacity[hot]) + (other - size)[:, :, 0] / capacity[hot]
    for link in np.moveaxis(new, 2, 0):
        extra = np.where(_among(link, old), 0.0, size[:, :, 0])
        extra += other[:, :, 0] * _among(link, here)
        extra -= other[:, :, 0] * _among(link, there)
        worst = np.maximum(worst, (load[link] + extra) / capacity[link])
        worst[link == len(load) - 1] = np.inf
    for link in np.moveaxis(np.broadcast_to(here, (*shape, here.shape[2])), 2, 0):
        extra = np.where(_among(link, there), 0.0, other[:, :, 0])
        extra = extra + size[:, :, 0] * _among(link, new) - size[:, :, 0] * _among(link, old)
        worst = np.maximum(worst, (load[link] + extra) / capacity[link])
    return np.asarray(worst)


def _among(link: Ints, path: Ints) -> NDArray[np.bool_]:
    """Return whether each link is on its path; `path` has one more axis, the last."""
    found = link == path[..., 0]
    for hop in range(1, path.shape[-1]):
        found |= link == path[..., hop]
    return np.asarray(found)
