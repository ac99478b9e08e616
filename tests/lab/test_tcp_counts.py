"""Counters of TCP from /proc."""

from __future__ import annotations

import pytest

from hostcc.lab.tcp_counts import TcpCounts, parse

pytestmark = pytest.mark.unit

TEXT = """Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RetransSegs OutRsts
Tcp: 1 7 2
TcpExt: SyncookiesSent TCPOFOQueue
TcpExt: 0 5
"""


def test_hosts_are_summed_and_what_is_missing_is_nothing() -> None:
    assert parse([TEXT, TEXT]) == TcpCounts(14, 10)
    assert parse(["", "Tcp:\nTcp:\n"]) == TcpCounts()
    assert TcpCounts(5, 4) - TcpCounts(2, 1) == TcpCounts(3, 3)
