"""Recognises two- and three-layer Clos networks in path tables, by the order of hops alone.

Where one link follows another on a path, both end at one switch. Between the hosts' switches a path
has two links (ToR, spine, ToR), or four (ToR, aggregation, core, aggregation, ToR). A group of
tables is a Clos if each of its tables has exactly the paths that the links of its ToRs allow; else
it is none, as where a search has missed a path or links run in parallel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.contention_graph import places, spans
from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import three_layer
from hostcc.schedule.paths.clos import Clos
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.paths.route_groups import Hops
from hostcc.schedule.paths.three_layer import Clos3

TWO, THREE = 2, 4
"""Links of a path between ToRs, by layers."""


@dataclass(frozen=True)
class Layered:
    """A group of T tables as a Clos."""

    clos: Clos | Clos3
    src: Ints
    """(T,) sending ToR. A ToR that also receives has another number for that."""
    dst: Ints
    """(T,) receiving ToR."""
    candidate: Ints
    """(T, C) path of each candidate of the Clos, counted within its table; -1: none."""


@dataclass(frozen=True)
class Sections:
    """The part of each path that lies between ToRs."""

    first: Ints
    """(P,) its first hop."""
    length: Ints
    """(T,) its hops, 2 or 4; 0: the paths of this table are of no Clos."""
    link: Ints
    """(H,) the link of each hop."""
    switch: Ints
    """(2 L,) the switch at which link l begins (2 l) and ends (2 l + 1)."""


def sections(hops: Hops) -> Sections:
    """Find the parts between ToRs: one link before and after a path's spine, two of its core.

    A spine stands between two links that are choices of a table, a core between four. Where links
    have failed, a path crosses the same switches without a choice.
    """
    problem, link = hops.problem, hops.link
    same = np.append(np.diff(hops.path) == 0, np.False_) if len(link) else np.zeros(0, np.bool_)
    follows = np.flatnonzero(same)
    switch = fabrics.connected(2 * problem.link_count, 2 * link[follows] + 1, 2 * link[follows + 1])
    after = switch[2 * link + 1]
    turn = np.zeros(len(link) + 2, np.bool_)
    """Whether this hop and the next are both choices, one place further on."""
    turn[1 + follows] = hops.choice[follows] & hops.choice[follows + 1]
    tops = []
    for here in (turn[1:-1], turn[:-2] & turn[1:-1] & turn[2:]):
        known = np.zeros(2 * problem.link_count, np.bool_)
        known[after[here]] = True
        tops.append(np.flatnonzero(same & known[after]))
    spine, core = tops
    paths = len(problem.path_start) - 1
    first, length = np.zeros(paths, np.int64), np.zeros(paths, np.int64)
    for at, layers in ((spine, TWO), (core, THREE)):
        first[hops.path[at]], length[hops.path[at]] = at + 1 - layers // 2, layers
    crossed = [np.bincount(hops.path[at], minlength=paths) for at in tops]
    good = np.where(length == THREE, crossed[1] == 1, crossed[0] == 1)
    good &= problem.path_start[:-1] <= first
    good &= first + length <= problem.path_start[1:]
    # All paths of a table are alike, and choose nothing but what lies between the ToRs.
    size = np.diff(problem.table_start)
    owner = np.repeat(np.arange(len(size)), size)
    of_table = np.zeros(len(size), np.int64)
    of_table[owner] = length
    good &= length == of_table[owner]
    bad = np.zeros(len(size), np.bool_)
    bad[owner[~good]] = True
    place = np.arange(len(link)) - first[hops.path]
    bad[hops.table[hops.choice & ((place < 0) | (place >= length[hops.path]))]] = True
    return Sections(first, np.where(bad, 0, of_table), link, switch)


def recognise(hops: Hops, found: Sections, tables: Ints) -> Layered | None:
    """Return the Clos of a group of tables (T,); None: it is none."""
    problem = hops.problem
    length = found.length[tables]
    if not hops.ordered or not length.all():
        return None
    start, past = problem.table_start[tables], problem.table_start[tables + 1]
    paths = spans(start, past)
    row = np.repeat(np.arange(len(tables)), past - start)
    many = length[row]
    at = found.first[paths]
    ends = found.link[at], found.link[at + many - 1]
    src = _joined(found.switch[2 * ends[0]], row)
    dst = _joined(found.switch[2 * ends[1] + 1], row)
    slot = places(past - start)
    if np.all(length == TWO):
        middle = np.unique(found.switch[2 * ends[0] + 1], return_inverse=True)[1].reshape(-1)
        return _two(problem.capacity, ends, (src, dst), (row, slot, middle))
    hop = [found.link[at + np.minimum(step, many - 1)] for step in range(THREE)]
    return _three(problem.capacity, hop, found.switch, (src, dst), (row, slot), many == THREE)


def _two(
    capacity: Floats, ends: tuple[Ints, Ints], tors: tuple[Ints, Ints], at: tuple[Ints, Ints, Ints]
) -> Layered | None:
    row, slot, spine = at
    senders, spines = int(tors[0].max()) + 1, int(spine.max()) + 1
    src, dst = tors[0], senders + tors[1]
    count = int(dst.max()) + 1
    if count > closes.MAX_TORS or spines > closes.MAX_SPINES:
        return None
    up, down = np.zeros((count, spines)), np.zeros((count, spines))
    for side, link, tor in ((up, ends[0], src[row]), (down, ends[1], dst[row])):
        if not _one_to_one(tor * spines + spine, link):
            return None
        side[tor, spine] = capacity[link]
    candidate = _candidates((row, slot, spine), (len(src), spines))
    reached = (up[src] > 0) & (down[dst] > 0)
    if candidate is None or not np.array_equal(reached, candidate >= 0):
        return None
    return Layered(closes.make(up, down), src, dst, candidate)


def _three(
    capacity: Floats,
    hop: list[Ints],
    switch: Ints,
    tors: tuple[Ints, Ints],
    at: tuple[Ints, Ints],
    far: NDArray[np.bool_],
) -> Layered | None:
    row, slot = at
    # Aggregation switches, then cores, numbered together.
    above = (switch[2 * hop[0] + 1], switch[2 * hop[3]])
    names = np.concatenate([*above, switch[2 * hop[1][far] + 1]])
    number = np.unique(names, return_inverse=True)[1].reshape(-1)
    one, two, core = np.split(number, [len(row), 2 * len(row)])
    nodes = int(number.max()) + 1
    plane_class = fabrics.connected(
        nodes, np.concatenate([one[far], two[far]]), np.concatenate([core, core])
    )
    # Pods: ToRs and aggregation switches that are linked.
    src, dst = tors[0], int(tors[0].max()) + 1 + tors[1]
    count = int(dst.max()) + 1
    edges = np.concatenate([src[row], dst[row]]), count + np.concatenate([one, two])
    joined = fabrics.connected(count + nodes, *edges)
    pods, pod = np.unique(joined[:count], return_inverse=True)
    pod = pod.reshape(-1)
    long = np.zeros(len(src), np.bool_)
    long[row[far]] = True
    if np.any((pod[src] != pod[dst]) != long):
        return None
    plane_of = _planes(plane_class[edges[1] - count], pod[edges[0]], nodes)
    plane = plane_of[plane_class[one]]
    core_of = np.zeros(len(row), np.int64)
    core_of[far] = _ranks(plane_class[core], core)
    tor = _ranks(pod, np.arange(count))
    shape = (len(pods), int(tor.max()) + 1, int(plane.max()) + 1, int(core_of.max()) + 1)
    low = 2 * shape[0] * shape[1] * shape[2]
    if low + 2 * shape[0] * shape[2] * shape[3] > three_layer.MAX_LINKS:
        return None
    made = Clos3(np.zeros((2, *shape[:3])), np.zeros((2, shape[0], *shape[2:])))
    everywhere = np.ones(len(row), np.bool_)
    for sides, some, link, tail in (
        (made.low[0], everywhere, hop[0], (pod[src[row]], tor[src[row]], plane)),
        (made.low[1], everywhere, hop[3], (pod[dst[row]], tor[dst[row]], plane)),
        (made.high[0], far, hop[1], (pod[src[row]], plane, core_of)),
        (made.high[1], far, hop[2], (pod[dst[row]], plane, core_of)),
    ):
        where = tuple(part[some] for part in tail)
        if not _one_to_one(np.ravel_multi_index(where, sides.shape), link[some]):
            return None
        sides[where] = capacity[link[some]]
    src, dst = (pod[ends] * shape[1] + tor[ends] for ends in (src, dst))
    candidate = _candidates(
        (row, slot, plane * shape[3] + core_of), (len(src), shape[2] * shape[3])
    )
    fabric, pair = three_layer.fabric(made, src, dst)
    if candidate is None or not np.array_equal(fabric.usable[pair], candidate >= 0):
        return None
    return Layered(made, src, dst, candidate)


def _joined(switch: Ints, row: Ints) -> Ints:
    """Return (T,) a number for each table's ToR; tables are joined by a switch that they share."""
    names, at = np.unique(switch, return_inverse=True)
    label = fabrics.connected(len(names) + int(row.max()) + 1, at.reshape(-1), len(names) + row)
    return np.unique(label[len(names) :], return_inverse=True)[1].reshape(-1)


def _one_to_one(cell: Ints, link: Ints) -> bool:
    """Return whether each cell has one link, and each link one cell."""
    pairs = np.unique(cell * (int(link.max(initial=0)) + 1) + link)
    return len(pairs) == len(np.unique(cell)) == len(np.unique(link))


def _candidates(at: tuple[Ints, Ints, Ints], shape: tuple[int, int]) -> Ints | None:
    """Return the table of paths; None: two paths of a table are one candidate."""
    row, slot, number = at
    if len(np.unique(row * shape[1] + number)) != len(row):
        return None
    candidate = np.full(shape, -1)
    candidate[row, number] = slot
    return candidate


def _planes(plane_class: Ints, pod: Ints, count: int) -> Ints:
    """Return (count,) a plane for each class of aggregation switches that cores connect.

    Classes without a common pod may share a plane.
    """
    pods: dict[int, set[int]] = {}
    for one, where in np.unique(np.stack([plane_class, pod]), axis=1).T.tolist():
        pods.setdefault(one, set()).add(where)
    taken: list[set[int]] = []
    plane = np.zeros(count, np.int64)
    for one, where in pods.items():
        free = next((at for at, used in enumerate(taken) if not used & where), len(taken))
        if free == len(taken):
            taken.append(set())
        taken[free] |= where
        plane[one] = free
    return plane


def _ranks(group: Ints, member: Ints) -> Ints:
    """Return the rank of each member among the distinct members of its group."""
    size = int(member.max(initial=0)) + 1
    pairs, at = np.unique(group * size + member, return_inverse=True)
    owner = pairs // size
    first = np.searchsorted(owner, owner)
    return np.asarray((np.arange(len(pairs)) - first)[at.reshape(-1)])
