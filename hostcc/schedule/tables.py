"""A view's path tables as arrays, its largest part; unchanged tables are not read again.

Tables that are the same object as in the view before, or equal, are taken over in runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, compress
from operator import attrgetter, eq, getitem, is_, lt

import numpy as np
from numpy.typing import NDArray

from hostcc.model import Path, PathTable
from hostcc.schedule.errors import ViewError, first_duplicate
from hostcc.schedule.name_list import NameList

Ints = NDArray[np.int64]
Ends = tuple[str, str]
"""(Source, destination)."""
TABLES_PER_SEARCH = 16
"""Lookups are by bisection if there are this many tables for each, else by a dictionary."""

# Called for hundreds of thousands of paths.
_path_id: Callable[[Path], str] = attrgetter("id")
_path_links: Callable[[Path], tuple[str, ...]] = attrgetter("links")


@dataclass(frozen=True)
class _ParsedTables:
    """Tables including failed links; the links of each path are sorted and occur once."""

    ids: list[Sequence[str]]
    """(T,) names of each table's paths, sorted; one object where they are the same. Kept by table:
    one list of hundreds of thousands would be rewritten whenever a table is added."""
    ways: list[list[tuple[str, ...]]]
    """(T,) links of each path as in the view."""
    hops: Ints
    """Link numbers, in the order of link names."""
    path_ends: Ints
    """(T + 1,) index at which each table's paths begin."""
    hop_ends: Ints
    """(P + 1,) index at which each path's links begin."""


@dataclass(frozen=True)
class Tables:
    """Usable paths of the pairs in use, by (source, destination), then by name."""

    given: Sequence[PathTable]
    """All tables of the view."""
    used: list[PathTable]
    """(T,) those in use."""
    links: Mapping[str, float]
    """Capacities of all links, by name."""
    keys: list[Ends]
    """(T,) the pairs in use, sorted."""
    alive: list[str]
    """Links that have not failed."""
    starts: Ints
    """(T + 1,) index at which each table's usable paths begin."""
    path_ids: NameList
    ways: Sequence[Sequence[tuple[str, ...]]]
    """(T,) links of each usable path in the order of its hops, by name."""
    path_starts: Ints
    path_links: Ints
    whole: bool
    """Whether no path was left out."""
    read: _ParsedTables

    def numbers(self, ends: Sequence[Ends]) -> Ints:
        """Return the table index of each pair; -1: none."""
        if len(ends) * TABLES_PER_SEARCH > len(self.keys):
            number = dict(zip(self.keys, range(len(self.keys)), strict=True))
            return np.array([number.get(one, -1) for one in ends], np.int64)
        at = [bisect_left(self.keys, one) for one in ends]
        found = zip(at, ends, strict=True)
        return np.array(
            [place if self.keys[place : place + 1] == [one] else -1 for place, one in found],
            np.int64,
        )

    def on(self, table: Ints, names: Sequence[str]) -> Ints:
        """Return the path of each name in its table; -1: empty name, or not usable."""
        if not any(names):
            return np.full(len(names), -1)
        first, past = self.starts[table], self.starts[table + 1]
        own = list(map(self.path_ids.parts.__getitem__, table.tolist()))
        at = np.fromiter(map(bisect_left, own, names), np.int64, len(names))
        there = map(getitem, own, np.minimum(at, past - first - 1).tolist())
        same = np.fromiter(map(eq, names, there), np.bool_, len(names))
        same &= np.fromiter(map(bool, names), np.bool_) & (at < past - first)
        return np.where(same, first + at, -1)


def read(
    tables: Sequence[PathTable],
    links: Mapping[str, float],
    used: Set[Ends],
    before: Tables | None = None,
    still: NDArray[np.bool_] | None = None,
) -> tuple[Tables, Ints]:
    """Return the tables of the pairs in `used`, and those marked in `still` (T of `before`,).

    Also returns the present index of each table of `before`; -1: gone, or changed. `links` maps
    names to capacities. Raises ViewError for paths over unknown links, two tables of a pair, and
    two paths of one name.
    """
    same = before is not None and len(tables) == len(before.given)
    same = same and before is not None and all(map(is_, tables, before.given))
    by_ends = {(one.src, one.dst): one for one in tables}
    if len(by_ends) != len(tables):
        src, dst = first_duplicate([(table.src, table.dst) for table in tables])
        raise ViewError(f"path table: {src} to {dst}: expected one, got two")
    if before is None or still is None:
        keys = sorted(used & by_ends.keys())
        found = _read([by_ends[key] for key in keys], links)
        gone = np.full(0 if before is None else len(before.keys), -1)
        return _usable(tables, by_ends, keys, found, links), gone
    still = still.copy()
    wanted = before.numbers(list(used))
    still[wanted[wanted >= 0]] = True
    if not _same_names(links, before.links):
        read, lost = _renumbered(before, links)
        before = replace(before, read=read)
        used = {*used, *compress(before.keys, (still & lost).tolist())}
        still &= ~lost
    rows = np.flatnonzero(still)
    if not same:
        found_same = [_alike(before, row, by_ends.get(before.keys[row])) for row in rows.tolist()]
        alike = np.array(found_same, np.bool_)
        used = {*used, *(before.keys[row] for row in rows[~alike].tolist())}
        rows = rows[alike]
    now = np.full(len(before.keys), -1)
    now[rows] = 0
    fresh = sorted(used & by_ends.keys())
    wanted = before.numbers(fresh)
    held = np.append(now, -1)[wanted] >= 0
    added = list(compress(fresh, (~held).tolist()))
    if len(rows) == len(before.keys) and not added:
        if links is before.links or links == before.links:
            own = [by_ends[key] for key in before.keys]
            return replace(before, given=tables, used=own, links=links), rows
        return _usable(tables, by_ends, before.keys, before.read, links), rows
    whole = len(rows) == len(before.keys)
    keys = list(before.keys) if whole else [before.keys[row] for row in rows.tolist()]
    places = [bisect_left(keys, key) for key in added]
    source = np.insert(rows, places, len(before.keys) + np.arange(len(added)))
    now[rows] = np.flatnonzero(source < len(before.keys))
    found = _joined(before.read, _read([by_ends[key] for key in added], links), source)
    for place, key in zip(reversed(places), reversed(added), strict=True):
        keys.insert(place, key)
    return _usable(tables, by_ends, keys, found, links), now


def _read(tables: Sequence[PathTable], links: Mapping[str, float]) -> _ParsedTables:
    number = dict(zip(links, range(len(links)), strict=True))
    ids: list[Sequence[str]] = []
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    ways: list[list[tuple[str, ...]]] = []
    sizes: list[int] = []
    hops: list[int] = []
    counts = []
    for table in tables:
        # One table at a time: what belongs together lies together in memory.
        paths: Sequence[Path] = table.paths
        names = tuple(map(_path_id, paths))
        if not all(map(lt, names, names[1:])):
            paths = sorted(paths, key=_path_id)
            names = tuple(map(_path_id, paths))
            if len(set(names)) != len(names):
                raise ViewError(
                    f"path: {first_duplicate(names)}: expected once in its table, got it twice"
                )
        own = list(map(_path_links, paths))
        counts.append(len(own))
        ids.append(known.setdefault(names, names))
        ways.append(own)
        sizes += map(len, own)
        try:
            hops += map(number.__getitem__, chain.from_iterable(own))
        except KeyError as error:
            raise ViewError(
                f"path: of {table.src} to {table.dst}: expected known links, got {error}"
            ) from error
    size = np.array(sizes, np.int64)
    path = np.repeat(np.arange(len(size)), size)
    width = max(1, len(number))
    cells = np.sort(path * width + np.array(hops, np.int64), kind="stable")
    again = np.flatnonzero(cells[1:] == cells[:-1])
    cells -= path * width
    if len(again):
        size -= np.bincount(path[again], minlength=len(size))
        cells = np.delete(cells, again)
    return _ParsedTables(ids, ways, cells, _ends([np.array(counts, np.int64)]), _ends([size]))


def _joined(old: _ParsedTables, new: _ParsedTables, source: Ints) -> _ParsedTables:
    """Return the tables `source` of both; indices of `new` continue after those of `old`."""
    count = len(old.ids)
    breaks = np.flatnonzero((np.diff(source) != 1) | (source[1:] == count)) + 1
    ids: list[Sequence[str]] = []
    ways: list[list[tuple[str, ...]]] = []
    hops, hop_ends, path_ends = [old.hops[:0]], [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    links = paths = np.int64(0)
    for run in np.split(source, breaks):
        if not len(run):
            continue
        part, base = (old, 0) if run[0] < count else (new, count)
        first, last = int(run[0]) - base, int(run[-1]) - base + 1
        low, high = part.path_ends[first], part.path_ends[last]
        ids += part.ids[first:last]
        ways += part.ways[first:last]
        begin, end = part.hop_ends[low], part.hop_ends[high]
        hops.append(part.hops[begin:end])
        hop_ends.append(part.hop_ends[low + 1 : high + 1] + (links - begin))
        path_ends.append(part.path_ends[first + 1 : last + 1] + (paths - low))
        links, paths = links + end - begin, paths + high - low
    return _ParsedTables(
        ids, ways, np.concatenate(hops), np.concatenate(path_ends), np.concatenate(hop_ends)
    )


def _renumbered(
    before: Tables, links: Mapping[str, float]
) -> tuple[_ParsedTables, NDArray[np.bool_]]:
    """Return the tables with the numbers that links have now, and those (T,) with a link that is
    gone. Links are in the order of their names, so they stay sorted within a path."""
    number = dict(zip(links, range(len(links)), strict=True))
    now = np.array([number.get(name, -1) for name in before.links], np.int64)
    read = before.read
    hops = now[read.hops]
    begun = read.hop_ends[read.path_ends]
    lost = np.zeros(len(hops) + 1, np.int64)
    np.cumsum(hops < 0, out=lost[1:])
    return replace(read, hops=hops), np.diff(lost[begun]) > 0


def _alike(before: Tables, row: int, now: PathTable | None) -> bool:
    """Return whether a table equals that of `row` before; paths not sorted by name count as
    changed."""
    if now is None or now is before.used[row]:
        return now is not None
    return (
        tuple(map(_path_id, now.paths)) == before.read.ids[row]
        and list(map(_path_links, now.paths)) == before.read.ways[row]
    )


def _same_names(links: Mapping[str, float], before: Mapping[str, float]) -> bool:
    return links is before or links.keys() == before.keys()


def _ends(counts: list[Ints]) -> Ints:
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]))


def _usable(
    given: Sequence[PathTable],
    by_ends: Mapping[Ends, PathTable],
    keys: list[Ends],
    found: _ParsedTables,
    links: Mapping[str, float],
) -> Tables:
    """Leave out paths over failed links, and renumber the links that work."""
    capacity = np.fromiter(links.values(), np.float64, len(links))
    works = capacity > 0
    whole = bool(works.all() or works[found.hops].all())
    ids: Sequence[Sequence[str]] = found.ids
    ways: Sequence[Sequence[tuple[str, ...]]] = found.ways
    hops, ends, starts = found.hops, found.hop_ends, found.path_ends
    if not whole:
        count = len(ends) - 1
        path = np.repeat(np.arange(count), np.diff(ends))
        usable = np.ones(count, np.bool_)
        usable[path[~works[hops]]] = False
        kept = np.flatnonzero(usable)
        hops, path = hops[usable[path]], path[usable[path]]
        ends = np.append(np.searchsorted(path, kept), len(path)).astype(np.int64)
        kept_flags = usable.tolist()
        some, again = iter(kept_flags), iter(kept_flags)
        ids = [list(compress(own, some)) for own in ids]
        ways = [list(compress(own, again)) for own in ways]
        starts = np.searchsorted(kept, starts).astype(np.int64)
    if not works.all():
        hops = (np.cumsum(works) - 1)[hops]
    alive = list(links if works.all() else compress(links, works.tolist()))
    return Tables(
        given,
        [by_ends[key] for key in keys],
        links,
        keys,
        alive,
        starts,
        NameList(ids, starts),
        ways,
        ends,
        hops,
        whole,
        found,
    )
