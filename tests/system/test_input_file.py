"""Files of somebody else are read whole or not at all, and an error names the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostcc.errors import InputError
from hostcc.system import input_file

pytestmark = pytest.mark.unit


def test_reads_a_file_of_just_the_size(tmp_path: Path) -> None:
    file = tmp_path / "given"
    file.write_bytes(b"12345678")
    assert input_file.read(file, 8) == b"12345678"
    with pytest.raises(InputError, match="given: expected at most 7 bytes"):
        input_file.read(file, 7)


def test_reads_no_more_than_it_must_of_an_endless_file() -> None:
    with pytest.raises(InputError, match="/dev/zero: expected at most 100 bytes"):
        input_file.read(Path("/dev/zero"), 100)


def test_names_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: expected a readable file, got: No such file"):
        input_file.read(tmp_path / "none", 8)
    with pytest.raises(InputError, match="Is a directory"):
        input_file.read(tmp_path, 8)


def test_a_name_that_is_none() -> None:
    with pytest.raises(InputError, match="expected a file name, got: embedded null byte"):
        input_file.read(Path("a\0b"), 8)


def test_a_pipe_is_read_and_one_without_a_writer_is_empty(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert input_file.read(pipe, 8) == b""
    reading, writing = os.pipe()
    os.write(writing, b"1234")
    os.close(writing)
    assert input_file.read(Path(f"/dev/fd/{reading}"), 8) == b"1234"
    os.close(reading)


def test_a_dash_is_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "given"
    file.write_bytes(b"12345678")
    with file.open() as given:
        monkeypatch.setattr("sys.stdin", given)
        assert input_file.read_argument("-", 8) == b"12345678"
    with file.open() as given:
        monkeypatch.setattr("sys.stdin", given)
        with pytest.raises(InputError, match="-: expected at most 7 bytes"):
            input_file.read_argument("-", 7)
    assert input_file.read_argument(str(file), 8) == b"12345678"
