"""Contents of the records of live members by kind, brought up to date record by record.

Each update tells which jobs, writers, pairs of hosts and links have changed, so that its cost
grows with the changed records and not with the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hostcc.coord.core.merge import capacity
from hostcc.coord.core.payloads import (
    FLOWS,
    LINKS,
    PATHS,
    PROFILE,
    Content,
    Flows,
    Links,
    Paths,
    Profile,
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
        self.profiles: dict[str, dict[str, Profile]] = {}
        """By job, by writer."""
        self.flows: dict[str, dict[str, Flows]] = {}
        """By writer, by job."""
        self.paths: dict[Ends, Paths] = {}
        self.capacities: dict[str, float] = {}
        """Of each declared link: the lower median of what members declare, bytes/s."""
        self._declared: dict[str, dict[str, float]] = {}
        """By link, by writer."""
        self._read: dict[str, Mapping[Slot, CheckedRecord]] = {}
        """The records of each member as they were read; a store never changes such a mapping."""

    def update(self, store: Store, is_dead: Callable[[str], bool]) -> ChangedRecords:
        """Read what members have published since the last call."""
        found, declared = ChangedRecords(), set[str]()
        for writer in [name for name in self._read if not store.of(name)]:
            self._replace(writer, _NOTHING, found, declared)
        for writer in store.writers():
            live = not is_dead(writer) and store.member(writer) is not None
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
            self._take(writer, slot, before[slot].content, None, found, declared)
        for slot, held in now.items():
            old = before.get(slot)
            if old is not held:
                was = None if old is None else old.content
                self._take(writer, slot, was, held.content, found, declared)
        if now:
            self._read[writer] = now
            self.members.add(writer)
        else:
            self.members.discard(writer)

    def _take(
        self,
        writer: str,
        slot: Slot,
        old: Content | None,
        new: Content | None,
        found: ChangedRecords,
        declared: set[str],
    ) -> None:
        if old == new:
            return
        kind, key = slot
        if kind == PROFILE:
            # Replaced, so that mappings that were handed out stay as they were.
            parts = {
                name: one for name, one in self.profiles.pop(key, {}).items() if name != writer
            }
            if isinstance(new, Profile):
                parts[writer] = new
            if parts:
                self.profiles[key] = parts
            found.jobs.add(key)
        elif kind == FLOWS:
            _put(self.flows.setdefault(writer, {}), key, new if isinstance(new, Flows) else None)
            if not self.flows[writer]:
                del self.flows[writer]
            found.writers.add(writer)
        elif kind == PATHS:
            _put(self.paths, (writer, key), new if isinstance(new, Paths) else None)
            found.ends.add((writer, key))
        elif kind == LINKS:
            declared |= self._take_links(writer, old, new)

    def _take_links(self, writer: str, old: Content | None, new: Content | None) -> set[str]:
        """Return the links of which the writer now declares something else."""
        was = dict(old.links) if isinstance(old, Links) else {}
        now = dict(new.links) if isinstance(new, Links) else {}
        changed = {link for link in was.keys() | now.keys() if was.get(link) != now.get(link)}
        for link in changed:
            _put(self._declared.setdefault(link, {}), writer, now.get(link))
        return changed

    def _declare(self, link: str, found: ChangedRecords) -> None:
        values = self._declared[link]
        if not values:
            del self._declared[link]
            if self.capacities.pop(link, None) is not None:
                found.links.add(link)
        elif (value := capacity(values.values())) != self.capacities.get(link):
            self.capacities[link] = value
            found.links.add(link)


def _put(mapping: dict[Key, Value], key: Key, value: Value | None) -> None:
    """Set a value; None removes it."""
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
