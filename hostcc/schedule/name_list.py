"""Large lists of names: positions of one list's names in another, and lists made of parts.

In two consecutive views most names stand in the same runs, which are compared as wholes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from operator import getitem

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

COMPARED_AT_ONCE = 256
"""Names that are compared at once."""
MAX_GAP = 64
"""Longest run of added or removed names that is skipped by searching for the next match."""


class NameList:
    """Names in parts, numbered consecutively, as if they were one tuple of hundreds of thousands.

    Making one from existing parts touches none of the names.
    """

    def __init__(self, parts: Sequence[Sequence[str]], starts: Ints) -> None:
        """Part n has the numbers `starts[n] .. starts[n + 1]`."""
        self.parts, self._starts = parts, starts

    @staticmethod
    def of(names: Sequence[str]) -> NameList:
        """Return a list of one part."""
        return NameList([names], np.array([0, len(names)], np.int64))

    def some(self, which: Ints) -> list[str]:
        """Return the names of these numbers."""
        part = np.searchsorted(self._starts, which, side="right") - 1
        place = which - self._starts[part]
        return list(map(getitem, map(self.parts.__getitem__, part.tolist()), place.tolist()))

    def __getitem__(self, number: int) -> str:
        return self.some(np.array([number], np.int64))[0]

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NameList | tuple) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Names({tuple(self)!r})"


def places(names: Sequence[Hashable], among: Sequence[Hashable]) -> Ints:
    """Return (names,) the position of each in `among`; -1: absent.

    All are of one type, and no name occurs twice in either.
    """
    found = np.full(len(names), -1)
    left: list[int] = []
    right: list[int] = []
    here = there = 0
    while here < len(names) and there < len(among):
        run = _alike(names, here, among, there)
        found[here : here + run] = np.arange(there, there + run)
        here, there = here + run, there + run
        if here == len(names) or there == len(among):
            break
        more = _first(names[here], among, there)
        gone = _first(among[there], names, here)
        if not min(more, gone) < MAX_GAP:
            break
        if more <= gone:
            right += range(there, there + more)
            there += more
        else:
            left += range(here, here + gone)
            here += gone
    left += range(here, len(names))
    place = {among[at]: at for at in (*right, *range(there, len(among)))}
    found[left] = [place.get(names[at], -1) for at in left]
    return found


def _first(name: Hashable, among: Sequence[Hashable], start: int) -> int:
    """Return how far from `start` a name stands; MAX_GAP: farther."""
    some = among[start : start + MAX_GAP]
    return some.index(name) if name in some else MAX_GAP


def _alike(one: Sequence[Hashable], first: int, other: Sequence[Hashable], begun: int) -> int:
    """Return how many names are equal from two positions on."""
    most = min(len(one) - first, len(other) - begun)
    for run in range(0, most, COMPARED_AT_ONCE):
        size = min(COMPARED_AT_ONCE, most - run)
        some = one[first + run : first + run + size]
        others = other[begun + run : begun + run + size]
        if some != others:
            return run + next(at for at in range(size) if some[at] != others[at])
    return most
