"""What is held: newest wins, order does not matter, age takes away and does not bring back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.coord.core.message import Record
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import PutResult, Store
from tests.coord.records import accusation, held, member, profile, record

pytestmark = pytest.mark.unit

SETTINGS = Settings(tombstone_s=10.0, forget_s=100.0, writer_records=8)


def filled(*records: Record) -> Store:
    store = Store(SETTINGS)
    for one in records:
        store.put(held(one), 0.0)
    return store


def content(store: Store) -> set[Record]:
    return {one.record for writer in store.writers() for one in store.of(writer).values()}


def test_newer_replaces_older_and_never_the_other_way() -> None:
    store = filled(profile("a", "j", 1.0, version=3))
    assert store.put(held(profile("a", "j", 2.0, version=2)), 0.0) is PutResult.OLD
    assert store.put(held(profile("a", "j", 1.0, version=3)), 0.0) is PutResult.SAME
    assert store.put(held(profile("a", "j", 3.0, version=4)), 0.0) is PutResult.NEW
    higher = record("a", "profile", "j", b"", incarnation=2, version=1)
    assert store.put(held(higher), 0.0) is PutResult.NEW


def test_two_records_of_one_stamp_end_in_the_same_one() -> None:
    one, other = profile("a", "j", 1.0), profile("a", "j", 2.0)
    assert content(filled(one, other)) == content(filled(other, one))


POOL = [
    *(
        member(name, i, v, birth=b)
        for name in "ab"
        for i, v, b in ((1, 1, 1), (2, 5, 1), (3, 9, 3))
    ),
    *(profile("a", "j", float(v), version=v) for v in (2, 3, 4)),
    record("a", "profile", "j", b"", incarnation=3, version=10),
    record("b", "profile", "j", b"", version=4),
    *(accusation("a", "b", accused, version=6 + accused) for accused in (1, 2, 3)),
    accusation("b", "a", 3, version=8),
]


@given(st.lists(st.sampled_from(POOL), unique=True), st.randoms())
@settings(max_examples=200)
def test_the_order_of_arrival_does_not_matter(some: list[Record], rng: object) -> None:
    other = list(some)
    rng.shuffle(other)  # type: ignore[attr-defined]
    # What is void before its reason to count arrives is offered again by anti-entropy.
    one, two = filled(*some, *some), filled(*other, *other)
    assert content(one) == content(two)
    assert one.root() == two.root()


@given(st.lists(st.sampled_from(POOL)), st.lists(st.sampled_from(POOL)))
def test_hashes_are_equal_when_contents_are(one: list[Record], other: list[Record]) -> None:
    a, b = filled(*one), filled(*other)
    assert (a.root() == b.root()) == (content(a) == content(b))
    assert (a.leaves() == b.leaves()) == (content(a) == content(b))


def test_records_of_an_earlier_life_are_void() -> None:
    store = filled(member("a"), profile("a", "j"), member("a", 5, 1, birth=5))
    assert content(store) == {member("a", 5, 1, birth=5)}
    assert store.put(held(profile("a", "k")), 0.0) is PutResult.VOID


def test_a_refutation_keeps_the_life_and_voids_accusations() -> None:
    store = filled(member("a"), member("b"), profile("a", "j"), accusation("b", "a"))
    assert dict(store.accusers("a")) == {"b": 1}
    store.put(held(member("a", 2, 7, birth=1)), 0.0)
    assert not store.accusers("a")
    assert store.get("a", ("profile", "j")) is not None
    assert store.put(held(accusation("b", "a", version=99)), 0.0) is PutResult.VOID


def test_accusations_of_strangers_are_void() -> None:
    assert Store(SETTINGS).put(held(accusation("b", "nobody")), 0.0) is PutResult.VOID


def test_a_withdrawn_record_expires_and_does_not_come_back() -> None:
    store = filled(member("a"), profile("a", "j"))
    gone = held(record("a", "profile", "j", b"", version=7))
    store.put(gone, 0.0)
    store.expire(9.9)
    assert store.get("a", ("profile", "j")) is gone
    store.expire(10.0)
    assert store.get("a", ("profile", "j")) is None
    assert store.put(held(profile("a", "j")), 11.0) is PutResult.VOID
    assert store.put(gone, 11.0) is PutResult.VOID
    assert store.dropped(gone.slot, gone.stamp) is gone
    assert store.put(held(profile("a", "j", version=8)), 11.0) is PutResult.NEW
    store.expire(10.0 + SETTINGS.dropped_s)
    assert store.dropped_count == 0


def test_withdrawn_and_said_again_stays() -> None:
    store = filled(record("a", "profile", "j", b"", version=7))
    again = held(profile("a", "j", version=8))
    store.put(again, 5.0)
    store.expire(50.0)
    assert store.get("a", ("profile", "j")) is again


def test_a_forgotten_writer_leaves_nothing_but_notes() -> None:
    store = filled(member("a"), member("b"), profile("a", "j"), accusation("b", "a"))
    store.forget("a", 0.0)
    assert content(store) == {member("b")}
    assert store.root() == filled(member("b")).root()
    assert store.put(held(member("a")), 1.0) is PutResult.VOID
    assert store.put(held(member("a", 2)), 1.0) is PutResult.NEW


def test_one_writer_cannot_fill_it() -> None:
    store = filled(*(profile("a", f"j{index}") for index in range(20)))
    assert len(store) == SETTINGS.writer_records
    assert store.put(held(profile("a", "j0", version=9)), 0.0) is PutResult.NEW
    large = Store(Settings(writer_bytes=20_000))
    for index in range(4):
        big = record("a", "weather", f"k{index}", bytes(9_000))
        assert (large.put(held(big), 0.0) is PutResult.FULL) == (index >= 2)
    grown = record("a", "weather", "k0", bytes(16_000), version=2)
    assert large.put(held(grown), 0.0) is PutResult.FULL


def test_neither_can_many() -> None:
    store = Store(Settings(members=3))
    fates = [store.put(held(member(f"m{index}")), 0.0) for index in range(5)]
    assert fates == [PutResult.NEW] * 3 + [PutResult.FULL] * 2


def test_changes_are_counted_by_kind() -> None:
    store = filled(member("a"), profile("a", "j", 1.0), profile("a", "k", 1.0))
    assert store.changes("member") == 1
    assert store.changes("profile") == 2
    assert store.changes("member", "profile") == 3 == store.revision
    store.put(held(record("a", "later", "x", b"new in another version")), 0.0)
    assert store.revision == 4
    assert store.changes("member", "profile") == 3
    store.forget("a", 0.0)
    assert (store.changes("member"), store.changes("profile")) == (2, 4)
