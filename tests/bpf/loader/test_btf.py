"""Types out of BTF: C layouts in numpy, and BTF that no compiler would write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.bpf.loader.btf import Btf
from hostcc.bpf.loader.elf import Elf, FormatError
from hostcc.system.seal import unseal


@pytest.fixture(scope="module")
def section(sample_path: Path) -> bytes:
    return Elf(unseal(sample_path.read_bytes())).bytes_of(".BTF")


@pytest.fixture(scope="module")
def btf(section: bytes) -> Btf:
    return Btf(section)


def test_padding_is_kept(btf: Btf) -> None:
    key = btf.named_dtype("sample_key")
    assert key.itemsize == 16
    assert btf.member_offset(btf.find("sample_key", frozenset({4})), "id") == (8, np.dtype("u8"))


def test_struct_of_everything(btf: Btf) -> None:
    value = btf.named_dtype("sample_value")
    assert value.itemsize == 48
    fields = value.fields
    assert fields is not None
    layout = {name: (field[0].str, field[0].shape, field[1]) for name, field in fields.items()}
    assert layout["name"] == ("|S16", (), 0)
    assert layout["counts"] == ("|V16", (4,), 16)
    assert layout["kind"] == ("<i4", (), 32)  # it has a negative constant
    assert layout["left"][2] == 36  # members of the anonymous struct appear here
    assert layout["right"][2] == 38
    assert layout["either"][2] == 40


def test_union_members_overlap(btf: Btf) -> None:
    value = np.zeros((), btf.named_dtype("sample_value"))
    value["either"]["whole"] = 0x1_0000_0002
    assert value["either"]["halves"].tolist() == [2, 1]


def test_enum_constants(btf: Btf) -> None:
    enums = btf.enums()
    assert enums["SAMPLE_SMALL"] == 1
    assert enums["SAMPLE_NEGATIVE"] == -7


def test_variables(btf: Btf) -> None:
    assert btf.variable_dtype("offset") == np.dtype("i8")
    assert btf.variable_dtype("enabled") == np.dtype(bool)
    assert btf.variable_dtype("label") == np.dtype("S8")
    assert btf.variable_dtype("table") == np.dtype(("u4", (4,)))


@pytest.mark.parametrize("name", ["nothing", "", "sample_ke"])
def test_unknown_name(btf: Btf, name: str) -> None:
    with pytest.raises(KeyError):
        btf.variable_dtype(name)


def test_void_has_no_size(btf: Btf) -> None:
    with pytest.raises(FormatError, match="no size"):
        btf.dtype(0)


@given(data=st.data())
def test_damaged_types_never_surprise(section: bytes, data: st.DataObject) -> None:
    damaged = bytearray(section)
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(0, len(section) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    try:
        types = Btf(bytes(damaged))
        types.enums()
    except FormatError:
        return
    for type_id in range(len(types)):
        try:
            types.dtype(type_id)
        except FormatError:
            continue
