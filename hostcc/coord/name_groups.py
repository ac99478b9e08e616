"""Disjoint groups of names, from sets of names that belong together."""

from __future__ import annotations

from collections.abc import Sequence


class NameGroups:
    """Groups that are joined step by step; joining renames the members of the smaller ones."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        """The number of each name's group."""
        self._members: dict[int, list[str]] = {}

    def join(self, names: Sequence[str]) -> None:
        """Make one group of names, each given once, and of all that any of them is with."""
        known = {one for one in map(self.of.get, names) if one is not None}
        fresh = [name for name in names if name not in self.of]
        if not fresh and len(known) == 1:
            return
        group = max(known, key=lambda one: len(self._members[one]), default=len(self.of))
        for one in known - {group}:
            fresh += self._members.pop(one)
        self._members.setdefault(group, []).extend(fresh)
        self.of.update(dict.fromkeys(fresh, group))
