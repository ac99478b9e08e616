"""Edge colouring of bipartite multigraphs: exact path choice for equal demands.

Sending ToRs are the left vertices, receiving ToRs the right ones, flows the edges and spines the
colours: no two flows of one colour share a link. By König's theorem as many colours as the largest
degree suffice; Kempe chains find them (Diestel, Graph Theory, 5.3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def split(vertex: Ints, size: int) -> Ints:
    """Split vertices into copies of at most `size` edges each.

    `vertex` (E,) is each edge's end. The result (E,) numbers the copies from 0; edges fill the
    copies of a vertex in their order.
    """
    by_vertex = np.argsort(vertex, kind="stable")
    ordered = vertex[by_vertex]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(vertex)) - np.repeat(first, np.diff(np.r_[first, len(vertex)]))
    new = np.r_[True, (ordered[1:] != ordered[:-1]) | (rank[1:] % size == 0)]
    copies = np.empty(len(vertex), np.int64)
    copies[by_vertex] = np.cumsum(new) - 1
    return copies


def colour(left: Ints, right: Ints, colours: int) -> Ints:
    """Return (E,) a colour from 0 for each edge, so that no two edges of a colour share an end.

    `left`, `right` (E,) are the edges' ends; no vertex may have more than `colours` edges. Each
    edge in order takes the lowest colour that is free at both ends; if there is none, a chain of
    two alternating colours is swapped. O(E V) at worst.
    """
    lefts, rights = left.tolist(), right.tolist()
    full = (1 << colours) - 1
    free = ([full] * (max(lefts, default=-1) + 1), [full] * (max(rights, default=-1) + 1))
    # edge at (vertex, colour); the far ends are looked up from it
    at: tuple[list[int], list[int]] = ([-1] * (len(free[0]) * colours), [])
    at[1].extend([-1] * (len(free[1]) * colours))
    found = [0] * len(lefts)
    for edge, (u, v) in enumerate(zip(lefts, rights, strict=True)):
        common = free[0][u] & free[1][v]
        if common:
            shade = (common & -common).bit_length() - 1
        else:
            shade = _lowest(free[0][u])
            _flip(v, shade, _lowest(free[1][v]), (lefts, rights), free, at, found, colours)
        found[edge] = shade
        at[0][u * colours + shade] = at[1][v * colours + shade] = edge
        free[0][u] &= ~(1 << shade)
        free[1][v] &= ~(1 << shade)
    return np.array(found, np.int64)


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _flip(
    start: int,
    taken: int,
    spare: int,
    ends: tuple[list[int], list[int]],
    free: tuple[list[int], list[int]],
    at: tuple[list[int], list[int]],
    found: list[int],
    colours: int,
) -> None:
    """Swap two colours on the chain that leaves right vertex `start` by colour `taken`.

    Afterwards `taken` is free there. The chain cannot reach the left vertex at which `taken` is
    free, because it enters left vertices by that colour only.
    """
    chain: list[int] = []
    side, vertex, shade = 1, start, taken
    while (edge := at[side][vertex * colours + shade]) >= 0:
        chain.append(edge)
        side, shade = 1 - side, taken + spare - shade
        vertex = ends[side][edge]
    flipped = (1 << taken) | (1 << spare)
    free[side][vertex] ^= flipped
    free[1][start] ^= flipped
    for edge in chain:
        old = found[edge]
        for part in (0, 1):
            spot = ends[part][edge] * colours + old
            if at[part][spot] == edge:
                at[part][spot] = -1
        new = found[edge] = taken + spare - old
        for part in (0, 1):
            at[part][ends[part][edge] * colours + new] = edge
