"""The path tables of a view as arrays, the largest part of it; what did not change is not read
again.

Tables that are the same object, or say the same, as in the view before are taken over in runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, compress
from operator import attrgetter, is_

import numpy as np
from numpy.typing import NDArray

from hostcc.model import Flow, Path, PathTable
from hostcc.schedule.errors import ViewError, twice

Ints = NDArray[np.int64]
Ends = tuple[str, str]
"""Source and destination."""

# Called for hundreds of thousands of paths.
_path_id: Callable[[Path], str] = attrgetter("id")
_path_links: Callable[[Path], tuple[str, ...]] = attrgetter("links")


@dataclass(frozen=True)
class _Read:
    """Tables as they are, links that failed included, each path's links in order and once."""

    ids: list[str]
    """Of all paths, by name in each table."""
    hops: Ints
    """Numbers of links in the order of their names."""
    path_ends: Ints
    """(T + 1,) where the paths of each table begin."""
    hop_ends: Ints
    """(P + 1,) where the links of each path begin."""


@dataclass(frozen=True)
class Tables:
    """Usable paths of the pairs that are used, by (source, destination), then by name."""

    given: Sequence[PathTable]
    """All that the view has."""
    by_ends: Mapping[Ends, PathTable]
    """The same."""
    links: Mapping[str, float]
    """Capacities of all links, by name."""
    keys: list[Ends]
    """(T,) the pairs, in order."""
    alive: list[str]
    """Links of some capacity."""
    index: dict[Ends, int]
    """Pair -> table."""
    starts: Ints
    """(T + 1,) of the usable paths."""
    path_ids: tuple[str, ...]
    path_starts: Ints
    path_links: Ints
    whole: bool
    """No path is left out."""
    first: list[int]
    """`starts`."""
    read: _Read

    def routes(self, flow: Flow) -> bool:
        """Whether a flow has a usable path."""
        table = self.index.get((flow.src, flow.dst))
        return table is not None and self.first[table + 1] > self.first[table]

    def on(self, flow: Flow) -> int:
        """The path that a flow is on, -1 when unknown or unusable."""
        table = self.index.get((flow.src, flow.dst))
        if table is None or not flow.path:
            return -1
        first, last = self.first[table : table + 2]
        at = bisect_left(self.path_ids, flow.path, first, last)
        return at if at < last and self.path_ids[at] == flow.path else -1


def read(
    tables: Sequence[PathTable],
    links: Mapping[str, float],
    used: Set[Ends],
    before: Tables | None = None,
    still: NDArray[np.bool_] | None = None,
) -> tuple[Tables, Ints]:
    """The tables of the pairs in `used`, and of the tables `still` (T before,) of `before`;
    `links` by name.  With them where each table of before is now, -1: gone, or not the same.

    Raises ViewError for paths over unknown links, two tables of a pair, two paths of a name.
    """
    same = before is not None and len(tables) == len(before.given)
    same = same and before is not None and all(map(is_, tables, before.given))
    by_ends = before.by_ends if same and before else {(one.src, one.dst): one for one in tables}
    if len(by_ends) != len(tables):
        src, dst = twice([(table.src, table.dst) for table in tables])
        raise ViewError(f"path table: {src} to {dst}: expected one, got two")
    if before is None or still is None or links.keys() != before.links.keys():
        more = [] if before is None or still is None else compress(before.keys, still)
        keys = sorted({*used, *more} & by_ends.keys())
        found = _read([by_ends[key] for key in keys], links)
        gone = np.full(0 if before is None else len(before.keys), -1)
        return _usable(tables, by_ends, keys, found, links), gone
    rows = np.flatnonzero(still)
    if not same:
        is_same = [
            (table := by_ends.get(before.keys[row])) is not None
            and _same(table, before.by_ends[before.keys[row]])
            for row in rows.tolist()
        ]
        changed = rows[np.logical_not(np.array(is_same, np.bool_))]
        used = {*used, *(before.keys[row] for row in changed.tolist())}
        rows = rows[np.array(is_same, np.bool_)]
    now = np.full(len(before.keys), -1)
    now[rows] = 0
    added = sorted(
        key for key in used & by_ends.keys() if (at := before.index.get(key)) is None or now[at] < 0
    )
    if len(rows) == len(before.keys) and not added:
        if links == before.links:
            return replace(before, given=tables, by_ends=by_ends, links=links), rows
        return _usable(tables, by_ends, before.keys, before.read, links), rows
    keys = before.keys if len(rows) == len(before.keys) else [before.keys[row] for row in rows]
    places = [bisect_left(keys, key) for key in added]
    source = np.insert(rows, places, len(before.keys) + np.arange(len(added)))
    now[rows] = np.flatnonzero(source < len(before.keys))
    found = _joined(before.read, _read([by_ends[key] for key in added], links), source)
    return _usable(tables, by_ends, sorted([*keys, *added]), found, links), now


def _read(tables: Sequence[PathTable], links: Mapping[str, float]) -> _Read:
    number = {link: index for index, link in enumerate(links)}
    ids: list[str] = []
    hops: list[int] = []
    sizes: list[int] = []
    counts = [0]
    for table in tables:
        paths: Sequence[Path] = table.paths
        names = list(map(_path_id, paths))
        if names != sorted(names):
            paths = sorted(paths, key=_path_id)
            names = list(map(_path_id, paths))
        if len(set(names)) != len(names):
            raise ViewError(f"path: {twice(names)}: expected once in its table, got it twice")
        counts.append(len(paths))
        ids += names
        ways = list(map(_path_links, paths))
        sizes += map(len, ways)
        try:
            hops += map(number.__getitem__, chain.from_iterable(ways))
        except KeyError as error:
            raise ViewError(
                f"path: of {table.src} to {table.dst}: expected known links, got {error}"
            ) from error
    path = np.repeat(np.arange(len(ids)), np.array(sizes, np.int64))
    width = max(1, len(number))
    cells = np.sort(path * width + np.array(hops, np.int64), kind="stable")
    cells = cells[np.append(True, cells[1:] != cells[:-1])] if len(cells) else cells
    path, links_of = np.divmod(cells, width)
    ends = np.searchsorted(path, np.arange(len(ids) + 1))
    return _Read(ids, links_of, np.cumsum(np.array(counts, np.int64)), ends)


def _joined(old: _Read, new: _Read, source: Ints) -> _Read:
    """Tables of both, by number; those of `new` are counted from behind those of `old`."""
    count = len(old.path_ends) - 1
    breaks = np.flatnonzero((np.diff(source) != 1) | (source[1:] == count)) + 1
    ids: list[str] = []
    hops, sizes, counts = [old.hops[:0]], [old.hops[:0]], [old.hops[:0]]
    for run in np.split(source, breaks):
        if not len(run):
            continue
        part, base = (old, 0) if run[0] < count else (new, count)
        first, last = int(run[0]) - base, int(run[-1]) - base + 1
        low, high = part.path_ends[first], part.path_ends[last]
        ids += part.ids[low:high]
        hops.append(part.hops[part.hop_ends[low] : part.hop_ends[high]])
        sizes.append(np.diff(part.hop_ends[low : high + 1]))
        counts.append(np.diff(part.path_ends[first : last + 1]))
    return _Read(ids, np.concatenate(hops), _ends(counts), _ends(sizes))


def _same(one: PathTable, other: PathTable) -> bool:
    return one is other or (
        list(map(_path_id, one.paths)) == list(map(_path_id, other.paths))
        and list(map(_path_links, one.paths)) == list(map(_path_links, other.paths))
    )


def _ends(counts: list[Ints]) -> Ints:
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]))


def _usable(
    given: Sequence[PathTable],
    by_ends: Mapping[Ends, PathTable],
    keys: list[Ends],
    found: _Read,
    links: Mapping[str, float],
) -> Tables:
    """Leave out paths over failed links, and number the others without the failed ones."""
    capacity = np.fromiter(links.values(), np.float64, len(links))
    works = capacity > 0
    whole = bool(works[found.hops].all())
    kept = np.arange(len(found.ids))
    hops, ends, starts, ids = found.hops, found.hop_ends, found.path_ends, tuple(found.ids)
    if not whole:
        path = np.repeat(kept, np.diff(ends))
        usable = np.ones(len(ids), np.bool_)
        usable[path[~works[hops]]] = False
        hops, path, kept = hops[usable[path]], path[usable[path]], np.flatnonzero(usable)
        ends = np.append(np.searchsorted(path, kept), len(path)).astype(np.int64)
        starts = np.searchsorted(kept, starts).astype(np.int64)
        ids = tuple([found.ids[at] for at in kept.tolist()])
    if not works.all():
        hops = (np.cumsum(works) - 1)[hops]
    alive = [link for link, much in links.items() if much > 0]
    index = dict(zip(keys, range(len(keys)), strict=True))
    return Tables(
        given,
        by_ends,
        links,
        keys,
        alive,
        index,
        starts,
        ids,
        ends,
        hops,
        whole,
        starts.tolist(),
        found,
    )
