"""TOML of somebody else: read whole or refused, in one line that names the file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.errors import InputError
from hostcc.system import toml_file
from tests.refusals import is_one_line, refusal_of

pytestmark = pytest.mark.unit


class Content(msgspec.Struct, forbid_unknown_fields=True):
    number: int


def test_reads(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("number = 3\n")
    assert toml_file.read(file, Content).number == 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'number = "x"', "number"),
        (b"other = 1\nnumber = 2", "other"),
        (b"number = ", "expected TOML"),
        (b"n = '\xff'", "byte 5: expected UTF-8"),
        (b"number = " + b"9" * 5000, "expected TOML"),
        (b"number = " + b"[" * 5000, "less deeply nested"),
        (b"#" * (toml_file.MAX_BYTES + 1), "at most"),
    ],
)
def test_refuses_what_is_wrong(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(data)
    with pytest.raises(InputError, match=words) as raised:
        toml_file.read(file, Content)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_refuses_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable file, got: No such file"):
        toml_file.read(tmp_path / "none.toml", Content)


def test_the_bound_is_the_callers(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("number = 3\n")
    assert toml_file.load(file, 11) == {"number": 3}
    with pytest.raises(InputError, match=r"a\.toml: expected at most 10 bytes, got more"):
        toml_file.load(file, 10)
    with pytest.raises(InputError, match="F: expected at most 2 bytes, got more"):
        toml_file.parse(b"a=1", "F", 2)


@given(st.text(alphabet=st.sampled_from(list("[]{}=\"'.,\n#ab1-_é\x00\\u")) | st.characters()))
def test_any_text_is_toml_or_one_line(text: str) -> None:
    raw = text.encode(errors="surrogatepass")
    assert is_one_line(refusal_of(toml_file.parse, raw, "F", 1 << 20))
