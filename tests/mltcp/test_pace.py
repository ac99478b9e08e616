"""Paces: an owner's is respected, ours does not outlive our hold on the socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from hostcc.cgroups import resolve_root
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.params import JobParams

pytestmark = pytest.mark.kernel

SO_MAX_PACING_RATE = 47
UNLIMITED = 0xFFFFFFFF


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as made:
        yield made


@pytest.fixture
def kernel(listener: socket.socket) -> Iterator[MltcpKernel]:
    with closing(MltcpKernel("pace", ["hostcc"], 10)) as made:
        made.set_job(1, JobParams("job"))
        made.set_port_rules({(listener.getsockname()[1], True): 1})
        made.attach_root(resolve_root("auto"))
        yield made


def control_of(sock: socket.socket) -> str:
    name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode()


def pace_of(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE) & UNLIMITED


def test_owners_pace_keeps_us_away(kernel: MltcpKernel, listener: socket.socket) -> None:
    with closing(socket.socket()) as paced, closing(socket.socket()) as free:
        paced.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 1_000_000)
        for sock in (paced, free):
            sock.connect(listener.getsockname())
        assert control_of(free) == kernel.ca_names["hostcc"]
        assert control_of(paced) != kernel.ca_names["hostcc"]
        kernel.switch_sockets([None])
        assert control_of(paced) != kernel.ca_names["hostcc"]
        assert pace_of(paced) == 1_000_000


def test_parked_socket_is_given_back_without_its_pace(
    kernel: MltcpKernel, listener: socket.socket
) -> None:
    with closing(socket.create_connection(listener.getsockname())) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 5000)  # as if it were parked
        kernel.switch_sockets([None], to_default=True)
        assert control_of(sock) != kernel.ca_names["hostcc"]
        assert pace_of(sock) == UNLIMITED
