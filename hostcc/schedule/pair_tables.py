"""Paths between hosts that have no flow yet, put together from the paths of other pairs.

A link ends where the next one on a path begins, so links with a neighbour in common meet at one
switch. From there the shortest sequences of links are taken that begin as a path from the source
does, and end as one to the destination does. In a Clos fabric these are its paths, and all of
them, as far as the view has seen their links.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise

from hostcc.model import Path, PathTable

MAX_PATHS = 64
"""Paths that are put together for a pair, the first by name."""


class PairTables:
    """Path tables of a view, and what follows from them for other pairs of hosts."""

    def __init__(self, tables: Iterable[PathTable]) -> None:
        self._known = {(table.src, table.dst): table for table in tables}

    def table(self, src: str, dst: str) -> PathTable | None:
        """Return the table of a pair; None: no path between the two is known."""
        if (src, dst) not in self._known:
            ways = self._put_together(src, dst)
            self._known[src, dst] = PathTable(src, dst, ways)
        found = self._known[src, dst]
        return found if found.paths else None

    @cached_property
    def _paths(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """(Source, destination, links) of the paths that the view has."""
        return [
            (*ends, path.links)
            for ends, table in self._known.items()
            for path in table.paths
            if path.links
        ]

    @cached_property
    def _nodes(self) -> Mapping[tuple[str, bool], int]:
        """(Link, whether its end is meant, else its beginning) -> number of the switch there."""
        same: dict[tuple[str, bool], tuple[str, bool]] = {}

        def of(place: tuple[str, bool]) -> tuple[str, bool]:
            while (above := same.setdefault(place, place)) != place:
                same[place] = same[above]
                place = above
            return place

        for _, _, links in self._paths:
            for link in links:
                of((link, False)), of((link, True))
            for link, after in pairwise(links):
                same[of((after, False))] = of((link, True))
        numbers: dict[tuple[str, bool], int] = {}
        return {place: numbers.setdefault(of(place), len(numbers)) for place in list(same)}

    @cached_property
    def _next(self) -> Mapping[str, list[str]]:
        """Link -> links that begin where it ends."""
        return self._adjacent(here=True)

    @cached_property
    def _before(self) -> Mapping[str, list[str]]:
        """Link -> links that end where it begins."""
        return self._adjacent(here=False)

    def _adjacent(self, *, here: bool) -> Mapping[str, list[str]]:
        by_node: dict[int, list[str]] = {}
        for (link, end), node in self._nodes.items():
            if end != here:
                by_node.setdefault(node, []).append(link)
        return {
            link: by_node.get(node, []) for (link, end), node in self._nodes.items() if end == here
        }

    @cached_property
    def _first(self) -> Mapping[str, set[str]]:
        """Host -> links with which paths from it begin."""
        found: dict[str, set[str]] = {}
        for src, _, links in self._paths:
            found.setdefault(src, set()).add(links[0])
        return found

    @cached_property
    def _last(self) -> Mapping[str, set[str]]:
        """Host -> links with which paths to it end."""
        found: dict[str, set[str]] = {}
        for _, dst, links in self._paths:
            found.setdefault(dst, set()).add(links[-1])
        return found

    def _put_together(self, src: str, dst: str) -> tuple[Path, ...]:
        begin, end = self._first.get(src, set()), self._last.get(dst, set())
        hops = self._distances(end)
        reached = [link for link in begin if link in hops]
        if not reached:
            return ()
        least = min(hops[link] for link in reached)
        made: list[Path] = []
        for link in sorted(link for link in reached if hops[link] == least):
            for links in self._sequences(link, hops):
                made.append(Path("+".join(links), links))
                if len(made) == MAX_PATHS:
                    return tuple(made)
        return tuple(made)

    def _distances(self, end: set[str]) -> dict[str, int]:
        """Link -> how many links lie between it and the nearest of `end`."""
        found, todo = dict.fromkeys(end, 0), deque(sorted(end))
        while todo:
            link = todo.popleft()
            for before in self._before.get(link, ()):
                if before not in found:
                    found[before] = found[link] + 1
                    todo.append(before)
        return found

    def _sequences(self, link: str, hops: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
        """Shortest sequences from a link to the end, by name."""
        if not hops[link]:
            yield (link,)
        for after in sorted(self._next.get(link, ())):
            if hops.get(after, -1) == hops[link] - 1:
                for rest in self._sequences(after, hops):
                    yield (link, *rest)
