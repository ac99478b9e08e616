"""Finds switches in path tables: the links that fail with each of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hostcc.model import PathTable

Links = frozenset[str]
"""Names of the links of one switch."""
End = tuple[str, bool]
"""One end of a link: where it begins (False) or ends (True)."""


def switches(tables: Iterable[PathTable]) -> list[Links]:
    """Return the links of each switch: consecutive links of a path meet at a switch."""
    follows = {pair for table in tables for path in table.paths for pair in pairwise(path.links)}
    parent: dict[End, End] = {}

    def root(end: End) -> End:
        while parent.setdefault(end, end) != end:
            parent[end] = parent[parent[end]]
            end = parent[end]
        return end

    for before, after in follows:
        parent[root((before, True))] = root((after, False))
    groups: dict[End, set[str]] = {}
    for end in list(parent):
        groups.setdefault(root(end), set()).add(end[0])
    return sorted((frozenset(group) for group in groups.values()), key=sorted)
