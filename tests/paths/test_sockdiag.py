"""What the kernel says of this namespace's connections."""

from __future__ import annotations

import socket

import pytest

from hostcc.paths import sockdiag

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize(
    ("family", "address", "level", "option"),
    [
        (socket.AF_INET, "127.0.0.1", socket.IPPROTO_IP, socket.IP_TOS),
        (socket.AF_INET6, "::1", socket.IPPROTO_IPV6, 67),  # IPV6_TCLASS
    ],
)
def test_marks_of_connections(family: int, address: str, level: int, option: int) -> None:
    with socket.create_server((address, 0), family=family) as server, socket.socket(family) as one:
        one.setsockopt(level, option, 46 << 2)
        one.connect(server.getsockname())
        other, _ = server.accept()
        with other:
            here, there = one.getsockname()[:2], other.getsockname()[:2]
            marks = sockdiag.marks()
            assert marks[*here, *there] == 46
            assert marks[*there, *here] == 0
            assert (*there, "0.0.0.0", 0) not in marks
            assert sockdiag.exists(here[0], here[1], there[0], there[1])
            assert here[1] in sockdiag.local_ports(here[1], here[1])


def test_ipv4_in_ipv6_goes_by_its_ipv4_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_INET6) as one:
        one.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
        ends = ("127.0.0.1", one.getsockname()[1], *server.getsockname())
        assert sockdiag.marks()[ends] == 0
