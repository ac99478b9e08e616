"""Keys on disk: modes, owners, whole files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hostcc.coord.keys import files, identity
from hostcc.coord.keys.identity import HostKeys
from tests.refusals import refusal_of

pytestmark = pytest.mark.unit

HOST = HostKeys("node1", (identity.generate(1_800_000_000.0),))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    before = os.umask(0o077)
    try:
        files.write_host(path, HOST)
    finally:
        os.umask(before)
    return path


def test_modes_do_not_depend_on_the_umask(folder: Path) -> None:
    assert mode(folder / "host.key") == 0o600
    assert mode(folder / "node1.pub") == 0o644
    assert mode(folder / "allowed/node1.pub") == 0o644
    assert files.read_secret(folder) == HOST
    assert files.read_public(folder / "allowed/node1.pub") == HOST.member
    assert sorted(p.name for p in folder.iterdir()) == ["allowed", "host.key", "node1.pub"]


@pytest.mark.parametrize("bits", [0o604, 0o640, 0o620, 0o644])
def test_a_secret_that_others_can_read_is_refused(folder: Path, bits: int) -> None:
    (folder / "host.key").chmod(bits)
    refused = refusal_of(files.read_secret, folder)
    assert refused == (
        f"{folder}/host.key: expected mode 0600 (others must not read it), got {bits:04o}"
    )


def test_what_others_can_write_is_refused(folder: Path) -> None:
    public = folder / "node1.pub"
    public.chmod(0o666)
    assert "expected mode 0644 (others must not write it), got 0666" in refusal_of(
        files.read_public, public
    )
    folder.chmod(0o777)
    assert f"{folder}: expected mode 0755" in refusal_of(files.read_secret, folder)
    assert f"{folder}: expected mode 0755" in refusal_of(files.write_host, folder, HOST)


@pytest.mark.skipif(os.geteuid() != 0, reason="not on this machine: giving files away needs root")
def test_what_somebody_else_owns_is_refused(folder: Path) -> None:
    os.chown(folder / "host.key", 1234, -1)
    assert "expected it to be root's or ours, got uid 1234" in refusal_of(files.read_secret, folder)


def test_what_is_no_small_regular_file_is_refused(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(folder / "node1.pub")
    (tmp_path / "big").write_bytes(b"#" * 9000)
    for name, message in [
        ("pipe", "expected a regular file"),
        ("link", "expected a readable file, got: Too many levels of symbolic links"),
        ("big", "expected at most 8192 bytes"),
        ("none", "expected a readable file, got: No such file or directory"),
        ("nul\0", "expected a readable file, got: embedded null byte"),
        ("", "expected a regular file"),
    ]:
        assert message in refusal_of(files.read_public, tmp_path / name)


def test_revoking(folder: Path) -> None:
    files.revoke(folder, "node1")
    assert not (folder / "allowed/node1.pub").exists()
    assert "expected a member of the allow-list, got none" in refusal_of(
        files.revoke, folder, "node1"
    )


def test_a_failed_write_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    other = HostKeys("node1", (identity.generate(1_900_000_000.0),))
    assert "No space left on device" in refusal_of(files.write_host, folder, other)
    monkeypatch.undo()
    assert files.read_secret(folder) == HOST
    assert sorted(p.name for p in folder.iterdir()) == ["allowed", "host.key", "node1.pub"]
