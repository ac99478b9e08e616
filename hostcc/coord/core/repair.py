"""Anti-entropy: two members compare their stores and exchange what either lacks.

First digests: one hash of everything; if it differs, a hash per leaf; then a summary of the leaves
that differ. Then records: those that the other lacks, and a request for those that it has. Equal
stores cost one hash.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain
from random import Random

from hostcc.coord.core import summary
from hostcc.coord.core.message import HASH_BYTES, MAX_ENTRIES, MAX_LEAVES
from hostcc.coord.core.record_checker import CheckedRecord, RecordChecker
from hostcc.coord.core.store import Store, leaf_of

_LEAVES = struct.Struct(f">{MAX_LEAVES}Q")


@dataclass(frozen=True)
class Exchange:
    """Sections of a message that concern the store."""

    leaves: bytes = b""
    buckets: bytes = b""
    entries: bytes = b""
    wanted: bytes = b""
    records: tuple[CheckedRecord, ...] = ()


class Repair:
    """Answers a peer's digests, summaries and requests; keeps no state between them."""

    def __init__(self, store: Store, checker: RecordChecker, rng: Random) -> None:
        self._store = store
        self._checker = checker
        self._rng = rng

    def open(self, *wanted: int) -> Exchange:
        """Return the opening step, with slots to request in any case."""
        return Exchange(leaves=self._store.root(), wanted=summary.pack_slots(wanted))

    def compare(self, leaves: bytes) -> Exchange | None:
        """Return the answer to hashes; None: nothing differs."""
        if len(leaves) == HASH_BYTES:
            return None if leaves == self._store.root() else Exchange(leaves=self._store.leaves())
        if len(leaves) != HASH_BYTES * MAX_LEAVES:
            return None
        theirs, mine = _LEAVES.unpack(leaves), _LEAVES.unpack(self._store.leaves())
        differing = [i for i in range(MAX_LEAVES) if theirs[i] != mine[i]]
        return self._summary(differing) if differing else None

    def reconcile(self, buckets: bytes, entries: bytes) -> Exchange | None:
        """Return the answer to a summary that is complete for the leaves in `buckets`; None:
        nothing."""
        theirs = dict(summary.unpack(entries))
        wanted = []
        push: list[CheckedRecord] = []
        named = self._named(theirs)
        for slot, order in theirs.items():
            held = named.get(slot)
            if held is None:
                dropped = self._store.dropped(slot, order[0])
                if dropped is None:
                    wanted.append(slot)
                elif dropped.order != order:
                    push.append(dropped)
            elif held.order < order:
                wanted.append(slot)
            elif held.order > order:
                push.append(held)
        push += (held for held in self._leaves(set(buckets)) if held.slot not in theirs)
        if not wanted and not push:
            return None
        self._rng.shuffle(push)
        return Exchange(wanted=summary.pack_slots(wanted[:MAX_ENTRIES]), records=tuple(push))

    def deliver(self, wanted: bytes) -> Exchange | None:
        """Return the requested records; None: none of them is held."""
        slots = dict.fromkeys(summary.unpack_slots(wanted))
        named = self._named(slots)
        found = [
            held for slot in slots if (held := named.get(slot) or self._store.dropped(slot, 0))
        ]
        return Exchange(records=tuple(found)) if found else None

    def _summary(self, differing: list[int]) -> Exchange:
        # As many leaves as fit one message, in random order so that later tries cover the rest.
        self._rng.shuffle(differing)
        by_leaf: dict[int, list[CheckedRecord]] = {index: [] for index in differing}
        for held in self._leaves(set(differing)):
            by_leaf[leaf_of(held.writer)].append(held)
        chosen: list[CheckedRecord] = []
        buckets: list[int] = []
        for index, held_here in by_leaf.items():
            if len(chosen) + len(held_here) > MAX_ENTRIES:
                if buckets:
                    break
                chosen = self._rng.sample(held_here, MAX_ENTRIES)
                break
            buckets.append(index)
            chosen += held_here
        return Exchange(buckets=bytes(buckets), entries=summary.pack(chosen))

    def _leaves(self, indices: set[int]) -> list[CheckedRecord]:
        store = self._store
        found: list[CheckedRecord] = []
        for writer in store.writers() if indices else ():
            if leaf_of(writer) in indices:
                found += store.of(writer).values()
        return found

    def _named(self, slots: Collection[int]) -> dict[int, CheckedRecord]:
        # A name for each record would take too much memory. So all records of a writer are looked
        # at, once for all of its slots: a peer can ask for thousands.
        writers = {self._checker.writer(slot) for slot in slots} - {None}
        held = chain.from_iterable(self._store.of(writer or "").values() for writer in writers)
        return {one.slot: one for one in held if one.slot in slots}
