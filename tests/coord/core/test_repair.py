"""Two members compare what they hold, and end up with the same."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.coord.core import summary
from hostcc.coord.core.message import HASH_BYTES, MAX_LEAVES
from hostcc.coord.core.record_checker import CheckedRecord, Slot
from hostcc.coord.core.repair import Exchange, Repair
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store
from tests.coord.records import CHECKER, held, member, profile

pytestmark = pytest.mark.unit

POOL = [
    *(member(f"h{index}", version=v) for index in range(30) for v in (1, 5)),
    *(profile(f"h{index}", "j", float(v), version=v) for index in range(30) for v in (2, 6)),
]


class Side:
    def __init__(self, chosen: list[int], seed: int) -> None:
        self.store = Store(Settings())
        self.repair = Repair(self.store, CHECKER, Random(seed))
        for index in chosen:
            self.store.put(held(POOL[index]), 0.0)

    def answer(self, said: Exchange) -> list[Exchange]:
        for one in said.records:
            self.store.put(one, 0.0)
        steps = []
        if said.leaves:
            steps.append(self.repair.compare(said.leaves))
        if said.entries or said.buckets:
            steps.append(self.repair.reconcile(said.buckets, said.entries))
        if said.wanted:
            steps.append(self.repair.deliver(said.wanted))
        return [step for step in steps if step is not None]


CHOSEN = st.lists(st.integers(0, len(POOL) - 1))


@given(CHOSEN, CHOSEN)
@settings(max_examples=60, deadline=None)
def test_one_comparison_makes_both_equal(one: list[int], other: list[int]) -> None:
    a, b = Side(one, 1), Side(other, 2)
    union = Side(one + other, 3)
    said, speaker, listener = [a.repair.open()], a, b
    steps = 0
    while said:
        said = [answer for step in said for answer in listener.answer(step)]
        speaker, listener = listener, speaker
        steps += 1
    assert steps <= 6
    assert a.store.root() == b.store.root() == union.store.root()


def test_equal_stores_have_nothing_to_say() -> None:
    a, b = Side([0, 2, 60], 1), Side([0, 2, 60], 2)
    assert b.answer(a.repair.open()) == []
    assert len(a.repair.open().leaves) == HASH_BYTES


def test_hashes_of_another_length_mean_nothing() -> None:
    assert Side([0], 1).repair.compare(bytes(HASH_BYTES * MAX_LEAVES // 2)) is None


def test_what_was_dropped_for_its_age_is_not_asked_for_again() -> None:
    a, b = Side([0, 60], 1), Side([0, 60], 2)
    b.store.forget("h0", 0.0)
    (leaves,) = b.answer(a.repair.open())
    (summary,) = a.answer(leaves)
    assert summary.entries
    assert b.answer(summary) == []


def test_records_of_a_writer_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Side([], 1)
    records = [held(profile("h", f"j{index}", version=index + 2)) for index in range(200)]
    for record in records:
        side.store.put(record, 0.0)
    looked_at: list[str] = []
    of = Store.of

    def looking(store: Store, writer: str) -> Mapping[Slot, CheckedRecord]:
        looked_at.append(writer)
        return of(store, writer)

    monkeypatch.setattr(Store, "of", looking)
    answer = side.repair.deliver(summary.pack_slots([one.slot for one in records] * 10))
    assert answer is not None
    assert len(answer.records) == 200
    assert side.repair.reconcile(b"", summary.pack(records)) is None
    assert looked_at == ["h", "h"]
