"""Contents of the records of live members by kind, brought up to date record by record.

Each update tells which jobs, writers, pairs of hosts and links have changed, so that its cost
grows with the changed records and not with the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hostcc.coord.core.merge import capacity
from hostcc.coord.core.payloads import (
    FLOWS,
    LINKS,
    PATHS,
    PROFILE,
    Links,
)
from hostcc.coord.core.record_checker import CheckedRecord, Slot
from hostcc.coord.core.store import Store

Ends = tuple[str, str]
"""(Source, destination)."""
Key = TypeVar("Key")
Value = TypeVar("Value")
_NOTHING: Mapping[Slot, CheckedRecord] = {}


@dataclass
class ChangedRecords:
    """What differs from the update before."""

    jobs: set[str] = field(default_factory=set)
    """Jobs whose profiles have changed."""
    writers: set[str] = field(default_factory=set)
    """Members whose flows have changed."""
    ends: set[Ends] = field(default_factory=set)
    """Pairs whose paths have changed."""
    links: set[str] = field(default_factory=set)
    """Links of another capacity, new and forgotten ones among them."""


class LiveRecords:
    """Contents of the records of live members."""

    def __init__(self) -> None:
        self.members: set[str] = set()
        self.profiles: dict[str, tuple[CheckedRecord, ...]] = {}
        """By job: one of each writer."""
        self.flows: dict[str, dict[str, CheckedRecord]] = {}
        """By writer, by job."""
        self.paths: dict[Ends, CheckedRecord] = {}
        self.capacities: dict[str, float] = {}
        """Of each declared link: the lower median of what members declare, bytes/s."""
        self._declared: dict[str, dict[float, int]] = {}
        """By link, by capacity: members that declare it."""
        self._held: Mapping[str, Mapping[Slot, CheckedRecord]] = {}
        """What the store held, also of the dead; it never changes a writer's mapping in place."""
        self._dead = frozenset[str]()
        self._read: dict[str, Mapping[Slot, CheckedRecord]] = {}
        """Records of each live member as they were read."""

    def update(self, store: Store, dead: Collection[str]) -> ChangedRecords:
        """Read what members that are not `dead` have published since the last call."""
        found, declared = ChangedRecords(), set[str]()
        were, self._held = self._held, store.held()
        were_dead, self._dead = self._dead, frozenset(dead)
        # One comparison is all that is done for a member without news.
        news = {writer for writer, now in self._held.items() if now is not were.get(writer)}
        news |= were.keys() - self._held.keys()
        for writer in news | (were_dead ^ self._dead):
            live = writer not in self._dead and store.member(writer) is not None
            now = store.of(writer) if live else _NOTHING
            if now is not self._read.get(writer, _NOTHING):
                self._replace(writer, now, found, declared)
        for link in declared:
            self._declare(link, found)
        return found

    def _replace(
        self,
        writer: str,
        now: Mapping[Slot, CheckedRecord],
        found: ChangedRecords,
        declared: set[str],
    ) -> None:
        before = self._read.pop(writer, _NOTHING)
        for slot in before.keys() - now.keys():
            self._take(writer, slot, before[slot], None, found, declared)
        for slot, held in now.items():
            old = before.get(slot)
            if old is not held:
                self._take(writer, slot, old, held, found, declared)
        if now:
            self._read[writer] = now
            self.members.add(writer)
        else:
            self.members.discard(writer)

    def _take(
        self,
        writer: str,
        slot: Slot,
        old: CheckedRecord | None,
        new: CheckedRecord | None,
        found: ChangedRecords,
        declared: set[str],
    ) -> None:
        if _payload(old) == _payload(new):
            return
        if new is not None and new.withdrawn:
            new = None
        kind, key = slot
        if kind == PROFILE:
            others = [held for held in self.profiles.get(key, ()) if held.writer != writer]
            _put(self.profiles, key, (*others, *([] if new is None else [new])) or None)
            found.jobs.add(key)
        elif kind == FLOWS:
            _put(self.flows.setdefault(writer, {}), key, new)
            if not self.flows[writer]:
                del self.flows[writer]
            found.writers.add(writer)
        elif kind == PATHS:
            _put(self.paths, (writer, key), new)
            found.ends.add((writer, key))
        elif kind == LINKS:
            declared |= self._take_links(_links(old), _links(new))

    def _take_links(self, was: Mapping[str, float], now: Mapping[str, float]) -> set[str]:
        """Return the links of which a member now declares something else than it did."""
        changed = {link for link in was.keys() | now.keys() if was.get(link) != now.get(link)}
        for link in changed:
            counts = self._declared.setdefault(link, {})
            for value, more in ((was.get(link), -1), (now.get(link), 1)):
                if value is not None:
                    count = counts.get(value, 0) + more
                    _put(counts, value, count or None)
        return changed

    def _declare(self, link: str, found: ChangedRecords) -> None:
        counts = self._declared[link]
        if not counts:
            del self._declared[link]
            if self.capacities.pop(link, None) is not None:
                found.links.add(link)
        elif (value := capacity(Counter(counts).elements())) != self.capacities.get(link):
            self.capacities[link] = value
            found.links.add(link)


def _payload(held: CheckedRecord | None) -> bytes:
    return b"" if held is None else held.payload


def _links(held: CheckedRecord | None) -> Mapping[str, float]:
    content = None if held is None else held.content
    return dict(content.links) if isinstance(content, Links) else {}


def _put(mapping: dict[Key, Value], key: Key, value: Value | None) -> None:
    """Set a value; None removes it."""
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
