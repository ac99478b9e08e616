"""The file of remembered jobs: whole or refused with one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostcc.daemon.profiling import memory_file as f
from hostcc.daemon.profiling.remembered import MAX_DESTINATIONS, MAX_REMEMBERED, RememberedJob
from hostcc.errors import InputError
from tests.daemon.profiling.test_remembered import known, some

pytestmark = pytest.mark.unit

JOBS = [known(), some("b", 0)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f.NAME


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        f.read(path)
    words = str(caught.value)
    assert words.startswith(f"{path}: expected ")
    assert "\n" not in words
    return words


def test_what_is_written_is_read(path: Path) -> None:
    assert f.read(path) == []
    f.write(path, JOBS)
    f.write(path, JOBS)
    assert f.read(path) == JOBS
    assert path.stat().st_mode & 0o777 == 0o600
    assert [*path.parent.iterdir()] == [path]


def test_the_most_that_is_remembered_can_be_read(path: Path) -> None:
    to = tuple(
        (f"2001:0db8:85a3:1234:5678:8a2e:0370:{number:04x}", 123456.78901234567)
        for number in range(MAX_DESTINATIONS)
    )
    one = RememberedJob(
        name="n" * 64, uid=2**32 - 1, found_by="f" * 64, flops=1.2345678901234567e29,
        period_s=1 / 3, compute_s=1 / 3, comm_start_s=1 / 3, comm_s=1 / 3, work=1e29 / 3,
        gpus=1 / 3, confidence=1 / 3, tx_bytes=1e18 / 3, to=to,
    )  # fmt: skip
    f.write(path, [one] * MAX_REMEMBERED)
    assert len(f.read(path)) == MAX_REMEMBERED


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"\xff", b'{"schema":"hostcc.remembered/2","jobs":[]}', b"[" * 100_000,
        b'{"schema":"hostcc.remembered/1","jobs":[{"name":"../a"}]}',
        b'{"schema":"hostcc.remembered/1","jobs":[],"more":1}',
    ],
)  # fmt: skip
def test_another_content_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refused(path)


def test_too_much_is_refused(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(f.MAX_BYTES + 1)
    assert f"at most {f.MAX_BYTES} bytes" in refused(path)


def test_a_file_that_others_can_change_is_refused(path: Path) -> None:
    f.write(path, JOBS)
    path.chmod(0o602)
    assert "others must not write it" in refused(path)


def test_what_is_no_file_is_refused_and_replaced(path: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    f.write(theirs, JOBS)
    before = theirs.read_bytes()
    path.symlink_to(theirs)
    refused(path)
    f.write(path, [])
    assert not path.is_symlink()
    assert theirs.read_bytes() == before
    path.unlink()
    os.mkfifo(path)
    assert "regular file" in refused(path)


def test_what_cannot_be_written_leaves_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    f.write(path, JOBS)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        f.write(path, [])
    assert f.read(path) == JOBS
    assert [*path.parent.iterdir()] == [path]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_refused_or_harmless(path: Path, data: st.DataObject) -> None:
    f.write(path, JOBS)
    raw = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    path.write_bytes(raw)
    try:
        found = f.read(path)
    except InputError as error:
        assert str(path) in str(error)
    else:
        assert all(one.period_s > 0 for one in found)
