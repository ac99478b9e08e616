"""Maps on the real kernel: typed entries, and batches that equal singles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.maps import EXIST, NOEXIST, BpfMap, possible_cpus
from hostcc.bpf.loader.object import BpfObject

pytestmark = pytest.mark.kernel
ENTRIES = 10_000


@pytest.fixture(scope="module")
def obj(sample_path: Any) -> Any:
    from tests.bpf.conftest import fresh_names

    with BpfObject.open(sample_path, fresh_names()) as opened:
        opened.load()
        yield opened


@pytest.fixture
def table(obj: BpfObject) -> Any:
    table = obj.map("table_hash")
    yield table
    table.clear()


def value(name: str = "x", whole: int = 0) -> tuple[Any, ...]:
    return (name, [1, 2, 3, 4], -7, 5, 6, (whole, (whole & 0xFFFFFFFF, whole >> 32)))


def test_entry(table: BpfMap) -> None:
    assert table.lookup((1, 2)) is None
    table.update((1, 2), value("name", 1 << 33))
    found = table.lookup((1, 2))
    assert found["name"] == b"name"
    assert found["counts"].tolist() == [1, 2, 3, 4]
    assert (found["kind"], found["left"], found["right"]) == (-7, 5, 6)
    assert found["either"]["halves"].tolist() == [0, 2]
    assert table.delete((1, 2)) is True
    assert table.delete((1, 2)) is False


def test_an_entry_that_is_written_often(table: BpfMap) -> None:
    entry = table.entry((1, 2))
    for kind in (3, -4):
        entry.value["kind"], entry.value["name"] = kind, b"name"
        entry.write()
        found = table.lookup((1, 2))
        assert (found["kind"], found["name"]) == (kind, b"name")
    assert len(table.keys()) == 1


def test_key_padding_does_not_matter(table: BpfMap) -> None:
    dirty = np.frombuffer(b"\x01" + b"\xff" * 7 + (2).to_bytes(8, "little"), table.key_dtype)[0]
    table.update(dirty, value())
    assert table.lookup((1, 2)) is not None
    assert table.keys().tobytes() == b"\x01" + b"\0" * 7 + (2).to_bytes(8, "little")


def test_flags(table: BpfMap) -> None:
    with pytest.raises(BpfError, match="cannot update map table_hash"):
        table.update((1, 2), value(), EXIST)
    table.update((1, 2), value(), NOEXIST)
    with pytest.raises(BpfError, match="File exists"):
        table.update((1, 2), value(), NOEXIST)


@pytest.mark.parametrize("key", [3, (1,), (1, 2, 3), ("a", 1), (300, 1), (-1, 1), None])
def test_wrong_keys(table: BpfMap, key: object) -> None:
    with pytest.raises(BpfError, match=r"map table_hash: .* is no key of type"):
        table.lookup(key)


def test_batch_equals_singles(table: BpfMap) -> None:
    keys = np.zeros(ENTRIES, table.key_dtype)
    keys["tag"] = np.arange(ENTRIES) % 7
    keys["id"] = np.arange(ENTRIES)
    values = np.zeros(ENTRIES, table.value_dtype)
    values["counts"][:, 0] = np.arange(ENTRIES)
    values["either"]["whole"] = np.arange(ENTRIES) << 20
    table.update_batch(keys, values)
    batch_keys, batch_values = table.lookup_batch()
    assert len(batch_keys) == ENTRIES
    row_of = {number: row for row, number in enumerate(batch_keys["id"].tolist())}
    order = [row_of[number] for number in range(ENTRIES)]
    assert (batch_keys[order] == keys).all()
    assert (batch_values[order] == values).all()
    for row in range(ENTRIES):
        assert table.lookup(batch_keys[row]).tobytes() == batch_values[row].tobytes()
    assert sorted(table.keys()["id"].tolist()) == list(range(ENTRIES))


@pytest.mark.parametrize("count", [0, 1, 2, 4096, 4097, 20_000])
def test_batch_sizes(table: BpfMap, count: int) -> None:
    keys = [(0, number) for number in range(count)]
    table.update_batch(keys, [value()] * count)
    found, values = table.lookup_batch()
    assert sorted(found["id"].tolist()) == list(range(count))
    assert len(values) == count


def test_full_map(table: BpfMap) -> None:
    keys = [(1, number) for number in range(table.max_entries + 1)]
    with pytest.raises(BpfError, match="cannot update 20001 entries of map table_hash"):
        table.update_batch(keys, [value()] * len(keys))


def test_lengths_must_agree(table: BpfMap) -> None:
    with pytest.raises(BpfError, match="3 keys but"):
        table.update_batch([(0, 1), (0, 2), (0, 3)], [value()] * 2)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    entries=st.dictionaries(
        st.tuples(st.integers(0, 255), st.integers(0, 2**64 - 1)), st.integers(0, 2**64 - 1)
    )
)
def test_batch_like_a_dictionary(table: BpfMap, entries: dict[tuple[int, int], int]) -> None:
    table.clear()
    table.update_batch(list(entries), [value("n", whole) for whole in entries.values()])
    keys, values = table.lookup_batch()
    found = zip(keys.tolist(), values["either"]["whole"].tolist(), strict=True)
    assert dict(found) == entries


def test_array(obj: BpfObject) -> None:
    table = obj.map("table_array")
    assert table.key_dtype == np.dtype("u4")
    table.update(3, 1 << 40)
    assert table.lookup(3) == 1 << 40
    assert table.lookup(99) is None
    keys, values = table.lookup_batch()
    assert keys.tolist() == list(range(16))
    assert values[3] == 1 << 40
    with pytest.raises(BpfError):
        table.delete(3)


def test_mapped_array_is_live(obj: BpfObject) -> None:
    table = obj.map("table_array")
    view = table.view()
    view[5] = 55
    assert table.lookup(5) == 55
    table.update(5, 56)
    assert view[5] == 56
    with pytest.raises(BpfError, match="BPF_F_MMAPABLE"):
        obj.map("table_seen").view()


def test_percpu(obj: BpfObject) -> None:
    table, cpus = obj.map("table_percpu"), possible_cpus()
    assert table.percpu
    with pytest.raises(BpfError, match="a value for each CPU"):
        table.entry(1)
    table.update(2, np.arange(cpus))
    assert table.lookup(2).tolist() == list(range(cpus))
    table.update(3, 7)
    assert table.lookup(3).tolist() == [7] * cpus
    keys, values = table.lookup_batch()
    assert values.shape == (8, cpus)
    assert values[keys.tolist().index(2)].tolist() == list(range(cpus))
    table.update_batch([4, 5], [40, 50])
    assert table.lookup(4).tolist() == [40] * cpus
    assert table.lookup(5).tolist() == [50] * cpus


def test_map_type_without_types_or_batches(obj: BpfObject) -> None:
    trie = obj.map("table_trie")
    assert (trie.key_dtype, trie.value_dtype) == (np.dtype("u8"), np.dtype("u4"))
    keys = [32 | number << 32 for number in range(20)]
    trie.update_batch(keys, range(20))
    found, values = trie.lookup_batch()
    assert dict(zip(found.tolist(), values.tolist(), strict=True)) == dict(
        zip(keys, range(20), strict=True)
    )
    trie.clear()
    found, values = trie.lookup_batch()
    assert len(found) == len(values) == 0
