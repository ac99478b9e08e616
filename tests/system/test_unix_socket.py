"""Sockets at a path: whose they are, and what was there before."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from hostcc.errors import HostccError
from hostcc.system import unix_socket

pytestmark = pytest.mark.unit

STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("kind", [STREAM, DATAGRAM])
def test_only_who_may(tmp_path: Path, kind: int) -> None:
    before = os.umask(0)
    try:
        unix_socket.bind(tmp_path / "a", kind, "a").close()
        unix_socket.bind(tmp_path / "b", kind, "b", group=os.getgid()).close()
        unix_socket.bind(tmp_path / "c", kind, "c", everybody=True).close()
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in "abc"] == [0o600, 0o660, 0o666]
    assert (tmp_path / "b").stat().st_gid == os.getgid()


@pytest.mark.parametrize("kind", [STREAM, DATAGRAM])
@pytest.mark.parametrize("other", [STREAM, DATAGRAM])
def test_a_socket_that_somebody_has_open_stays(tmp_path: Path, kind: int, other: int) -> None:
    path = tmp_path / "s"
    with unix_socket.bind(path, other, "s") as first:
        if other == STREAM:
            first.listen()
        with pytest.raises(HostccError, match=r"the socket .*s: another program listens there"):
            unix_socket.bind(path, kind, "the socket")
    assert path.is_socket()
    if kind == other:
        unix_socket.bind(path, kind, "s").close()


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(HostccError, match="something else is there, not a socket"):
        unix_socket.bind(path, DATAGRAM, "s")
    assert path.read_text() == "precious"
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostccError, match="something else is there, not a socket"):
        unix_socket.bind(path, DATAGRAM, "s")
    with pytest.raises(HostccError, match="No such file"):
        unix_socket.bind(tmp_path / "none" / "s", DATAGRAM, "s")
