"""Files that jobs map: told from what took their place, taken away only if they are ours."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hostcc.system.region_file import ANOTHER, RegionFile, remove

pytestmark = pytest.mark.unit

MAGIC = 0x1122334455667788


def made(path: Path) -> RegionFile:
    path.write_bytes(MAGIC.to_bytes(8, "little") + b"rest")
    fd = os.open(path, os.O_RDONLY)
    try:
        return RegionFile.opened(path, fd)
    finally:
        os.close(fd)


def test_is_there_until_it_is_not(tmp_path: Path) -> None:
    file = made(tmp_path / "region")
    assert file.problem() == ""
    assert file.problem(lambda facts: f"{facts.st_size} bytes") == "12 bytes"
    file.unlink()
    assert "No such file" in file.problem()
    file.unlink()


def test_what_took_its_place_stays(tmp_path: Path) -> None:
    file = made(tmp_path / "region")
    (tmp_path / "other").write_bytes(b"x")
    (tmp_path / "other").rename(file.path)
    assert file.problem(lambda _: "flaw") == ANOTHER
    file.unlink()
    assert file.path.read_bytes() == b"x"


def test_removes_only_ours(tmp_path: Path) -> None:
    file, foreign, link = made(tmp_path / "region"), tmp_path / "foreign", tmp_path / "link"
    foreign.write_bytes(b"something else")
    link.symlink_to(file.path)
    assert not remove(foreign, MAGIC)
    assert not remove(link, MAGIC)
    assert not remove(tmp_path, MAGIC)
    assert not remove(tmp_path / "none", MAGIC)
    assert remove(file.path, MAGIC)
    assert not file.path.exists()
    assert foreign.exists()


def test_a_socket_of_ours_is_removed(tmp_path: Path) -> None:
    place = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    assert remove(place, MAGIC)
    assert not place.exists()
