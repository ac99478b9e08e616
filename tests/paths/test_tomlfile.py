"""An operator's file about paths: read whole or refused, in one line that names it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hostcc.errors import InputError
from hostcc.paths import tomlfile

pytestmark = pytest.mark.unit


class Content(msgspec.Struct, forbid_unknown_fields=True):
    number: int


def test_reads(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("number = 3\n")
    assert tomlfile.read(file, Content).number == 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'number = "x"', "number"),
        (b"other = 1\nnumber = 2", "other"),
        (b"number = ", "expected TOML"),
        (b"\xff", "expected TOML"),
        (b"number = " + b"9" * 5000, "expected TOML"),
        (b"number = " + b"[" * 5000, "less deeply nested"),
        (b"#" * (tomlfile.MAX_BYTES + 1), "at most"),
    ],
)
def test_refuses_what_is_wrong(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(data)
    with pytest.raises(InputError, match=words) as raised:
        tomlfile.read(file, Content)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_refuses_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        tomlfile.read(tmp_path / "none.toml", Content)
