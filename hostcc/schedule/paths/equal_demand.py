"""Exact path choice for equal demands on a two-layer Clos, also with failed or unequal links.

If all ToRs have the same links, ToRs split into copies are coloured (colouring.py), which is
optimal. Otherwise the smallest load that the bounds allow is tried first. Each link gets room for a
number of flows; flows are placed one by one, and one that finds no room evicts another (tabu
search, no randomness). If that fails, the next larger load is tried.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import colouring
from hostcc.schedule.paths.clos import Clos, Flows
from hostcc.schedule.paths.fabric import Floats, Ints

PLACEMENTS_PER_FLOW = 60
"""Placements per flow (plus 2,000) after which a load is given up."""
TABU_PLACEMENTS = 12
"""Placements for which a flow does not return to the spine that it was evicted from."""
ROUNDING = 1e-9


def route(clos: Clos, src: Ints, dst: Ints, unit: float) -> Ints:
    """Return (F,) a spine for each flow; all flows demand `unit` and leave their ToR."""
    if not len(src):
        return np.empty(0, np.int64)
    spines = _common_spines(clos, src, dst)
    if spines is not None:
        left = colouring.split(src, len(spines))
        right = colouring.split(dst, len(spines))
        return spines[colouring.colour(left, right, len(spines))]
    flows = Flows(src, dst, np.full(len(src), unit))
    least = closes.bound(clos, flows)
    for limit in _limits(clos, src, dst, unit, least):
        rooms = [np.floor(side * (limit / unit) + ROUNDING) for side in (clos.up, clos.down)]
        sides = ((rooms[0], src), (rooms[1], dst))
        if all(np.all(room.sum(axis=1) >= _degrees(room, ends)) for room, ends in sides):
            found = _fit(rooms[0].astype(np.int64), rooms[1].astype(np.int64), src, dst)
            if found is not None:
                return found
    raise AssertionError("the last limit leaves room for all flows on any link")


def _common_spines(clos: Clos, src: Ints, dst: Ints) -> Ints | None:
    """Return the spines that all ToRs in use reach by equal links, if they have no other links."""
    rows = np.concatenate([clos.up[np.unique(src)], clos.down[np.unique(dst)]])
    spines = np.flatnonzero(rows[0] > 0)
    same = np.array_equal(rows, np.broadcast_to(rows[0], rows.shape))
    return spines if same and len(np.unique(rows[0][spines])) == 1 else None


def _degrees(room: NDArray[np.float64], ends: Ints) -> Ints:
    return np.bincount(ends, minlength=len(room))


def _limits(clos: Clos, src: Ints, dst: Ints, unit: float, least: float) -> Floats:
    """Return every load over capacity that a link can have, from the bound up."""
    capacities = np.unique(np.concatenate([clos.up[np.unique(src)], clos.down[np.unique(dst)]]))
    capacities = capacities[capacities > 0]
    most = int(max(np.bincount(src).max(), np.bincount(dst).max()))
    values = np.unique(np.arange(1, most + 1)[:, None] * (unit / capacities))
    return np.asarray(values[values >= least * (1 - ROUNDING)])


@dataclass
class _Side:
    """One end of the flows: which are on (ToR, spine), and how many more fit."""

    room: Ints
    on: list[list[deque[int]]]

    def drop(self, tor: int, spine: int, flow: int) -> None:
        self.on[tor][spine].remove(flow)
        self.room[tor, spine] += 1

    def add(self, tor: int, spine: int, flow: int) -> int:
        """Put a flow there; return the flow that is evicted, or -1."""
        self.on[tor][spine].append(flow)
        self.room[tor, spine] -= 1
        return self.on[tor][spine][0] if self.room[tor, spine] < 0 else -1


def _fit(up: Ints, down: Ints, src: Ints, dst: Ints) -> Ints | None:
    """Return a spine for each flow with no link above its room; None: none was found."""
    sides = tuple(
        _Side(room.copy(), [[deque() for _ in row] for row in room]) for room in (up, down)
    )
    ends = (src.tolist(), dst.tolist())
    never = (up[src] == 0) | (down[dst] == 0)
    if never.all(axis=1).any():
        return None
    barred = np.where(never, 1000, 0)
    until = np.zeros(up[src].shape, np.int64)
    found = np.full(len(src), -1, np.int64)
    waiting = deque(range(len(src)))
    for turn in range(PLACEMENTS_PER_FLOW * len(src) + 2000):
        if not waiting:
            return found
        flow = waiting.popleft()
        u, v = ends[0][flow], ends[1][flow]
        full = (sides[0].room[u] <= 0).astype(np.int64) + (sides[1].room[v] <= 0)
        cost = full + barred[flow] + 3 * (until[flow] > turn)
        # among equals the emptiest, so that a flow evicted repeatedly tries them in turn
        slack = sides[0].room[u] + sides[1].room[v]
        spine = int((cost * 4096 - np.minimum(slack, 4000)).argmin())
        found[flow] = spine
        for side, tor in ((0, u), (1, v)):
            out = sides[side].add(tor, spine, flow)
            if out >= 0:
                for other in (0, 1):
                    sides[other].drop(ends[other][out], spine, out)
                found[out] = -1
                until[out, spine] = turn + TABU_PLACEMENTS + out % 7
                waiting.append(out)
    return found if not waiting else None
