"""struct_ops in the file: found, renamed, and refused when that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.object import BpfObject


def test_found_with_names_and_programs(sample_path: Path) -> None:
    with BpfObject.open(sample_path) as obj:
        assert obj.struct_ops() == {"first": "hcct_first", "second": "hcct_second"}


def test_renamed_in_the_image_only(sample_path: Path) -> None:
    before = sample_path.read_bytes()
    with BpfObject.open(sample_path, {"first": "another_name_15"}) as obj:
        assert obj.struct_ops() == {"first": "another_name_15", "second": "hcct_second"}
    assert sample_path.read_bytes() == before


@pytest.mark.parametrize("name", ["", "sixteen_letters_", "new\nline", "naïve", "nul\0"])
def test_unusable_names(sample_path: Path, name: str) -> None:
    with pytest.raises(BpfError, match="1 to 15 printable ASCII"):
        BpfObject.open(sample_path, {"first": name})


def test_unknown_variable(sample_path: Path) -> None:
    with pytest.raises(BpfError, match="no struct_ops third; there are: first, second"):
        BpfObject.open(sample_path, {"third": "name"})
