"""iter/tcp: the sockets of a namespace as one array, and namespaces entered and left."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.netns import in_netns
from hostcc.bpf.loader.object import BpfObject

pytestmark = pytest.mark.kernel


@pytest.fixture
def namespace() -> Iterator[Path]:
    name = f"hcct-{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
    yield Path("/run/netns", name)
    subprocess.run(["ip", "netns", "del", name], check=True)


def ports(obj: BpfObject, data: bytes) -> list[int]:
    lines = np.frombuffer(data, obj.dtype("tcp_line"))
    return [int(port) for port in lines["port"]]


def test_many_sockets_in_a_namespace_of_their_own(loaded: BpfObject, namespace: Path) -> None:
    def listen() -> list[socket.socket]:
        return [socket.create_server(("127.0.0.1", 0)) for _ in range(900)]

    sockets = in_netns(namespace, listen)
    iterator = loaded.attach_iter("dump_sockets")
    try:
        expected = sorted(sock.getsockname()[1] for sock in sockets)
        for _ in range(2):
            seen = in_netns(namespace, iterator.read)
            assert sorted(ports(loaded, seen)) == expected
        fd = os.open(namespace, os.O_RDONLY)
        assert sorted(ports(loaded, in_netns(fd, iterator.read))) == expected
        os.close(fd)
    finally:
        iterator.close()
        for sock in sockets:
            sock.close()


def test_own_namespace(loaded: BpfObject) -> None:
    iterator = loaded.attach_iter("dump_sockets")
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert sock.getsockname()[1] in ports(loaded, in_netns(None, iterator.read))
        with pytest.raises(BpfError, match="more than 4 bytes") as caught:
            iterator.read(max_bytes=4)
        assert caught.value.errno == errno.EMSGSIZE
    iterator.close()
    with pytest.raises(BpfError, match="cannot start iterator dump_sockets"):
        iterator.read()


def test_namespace_of_the_caller_stays(namespace: Path) -> None:
    def own() -> int:
        return Path("/proc/thread-self/ns/net").stat().st_ino

    before = own()
    assert in_netns(namespace, own) == namespace.stat().st_ino
    assert own() == before


def test_failures_come_back(namespace: Path, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        in_netns(namespace, lambda: 1 // 0)
    with pytest.raises(BpfError, match=r"cannot enter the network namespace .*none \(No such"):
        in_netns(tmp_path / "none", lambda: 1)
    with pytest.raises(BpfError, match="Invalid argument"):
        in_netns(tmp_path, lambda: 1)
