"""ELF reading: what a compiler wrote, and what no compiler would."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.bpf.loader.btf import Btf
from hostcc.bpf.loader.elf import Elf, FormatError
from hostcc.bpf.loader.structops import find
from hostcc.system.seal import unseal


@pytest.fixture(scope="module")
def image(sample_path: Path) -> bytes:
    return unseal(sample_path.read_bytes())


def use(data: bytes) -> None:
    """All that the loader does to a file before libbpf sees it."""
    elf = Elf(data)
    btf = Btf(elf.bytes_of(".BTF"))
    btf.enums()
    find(elf, btf)
    for type_id in range(len(btf)):
        try:
            btf.dtype(type_id)
        except FormatError:
            continue


def test_sections_and_variables(image: bytes) -> None:
    elf = Elf(image)
    constants = elf.variables(".rodata")
    assert {"threshold", "offset", "label", "enabled", "table"} <= constants.keys()
    assert constants["table"].size == 16
    at = elf.file_offset(constants["label"])
    assert image[at : at + 8] == b"plain\0\0\0"


def test_references_name_programs(image: bytes) -> None:
    names = {name for _, name in Elf(image).references(".struct_ops")}
    assert names == {"first_ssthresh", "second_ssthresh", "both_avoid", "both_undo"}


def test_missing_section(image: bytes) -> None:
    with pytest.raises(FormatError, match=r"no section \.nowhere"):
        Elf(image).bytes_of(".nowhere")


@pytest.mark.parametrize(
    ("position", "byte", "words"),
    [
        (0, 0, "not a 64-bit ELF"),
        (4, 1, "not a 64-bit ELF"),
        (18, 62, "not a BPF object"),
        (47, 1, "damaged ELF"),
        (47, 128, "damaged ELF"),
    ],
)
def test_wrong_kind_of_file(image: bytes, position: int, byte: int, words: str) -> None:
    data = bytearray(image)
    data[position] = byte
    with pytest.raises(FormatError, match=words):
        Elf(bytes(data))


@given(data=st.data())
def test_every_truncation_is_refused(image: bytes, data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(image) - 1))
    with pytest.raises(FormatError):
        use(image[:length])


@given(data=st.data())
def test_corruption_never_surprises(image: bytes, data: st.DataObject) -> None:
    damaged = bytearray(image)
    for _ in range(data.draw(st.integers(1, 8))):
        position = data.draw(st.integers(0, len(image) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    try:
        use(bytes(damaged))
    except FormatError:
        return


@given(junk=st.binary(max_size=4096))
def test_junk_is_refused(junk: bytes) -> None:
    with pytest.raises(FormatError):
        use(junk)
    with pytest.raises(FormatError):
        use(b"\x7fELF\x02\x01\x01" + junk)
