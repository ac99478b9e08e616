"""Bytes over several connections at once, on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.lab.exchange import Exchange, PeerGoneError, shares


@pytest.fixture
def pairs() -> Iterator[tuple[list[socket.socket], list[socket.socket]]]:
    ours, theirs = [], []
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(3):
            ours.append(socket.create_connection(server.getsockname()))
            theirs.append(server.accept()[0])
    yield ours, theirs
    for link in [*ours, *theirs]:
        link.close()


def test_both_directions_at_once(pairs: tuple[list[socket.socket], list[socket.socket]]) -> None:
    ours, theirs = pairs
    sizes = [1, 3_000_000, 70_001]
    here, there = Exchange(ours), Exchange(theirs)
    outcome = []

    def other() -> None:
        for _ in range(3):
            there.transfer(
                list(zip(theirs, reversed(sizes), strict=True)),
                list(zip(theirs, sizes, strict=True)),
            )
        outcome.append("done")

    thread = threading.Thread(target=other)
    thread.start()
    for _ in range(3):
        here.transfer(
            list(zip(ours, sizes, strict=True)), list(zip(ours, reversed(sizes), strict=True))
        )
    thread.join(30)
    assert outcome == ["done"]
    here.close()
    there.close()


def test_a_peer_that_leaves_is_an_error(
    pairs: tuple[list[socket.socket], list[socket.socket]],
) -> None:
    ours, theirs = pairs
    exchange = Exchange(ours)
    for link in theirs:
        link.close()
    with pytest.raises(PeerGoneError):
        exchange.transfer((), [(link, 1) for link in ours])
    exchange.close()


@given(st.integers(0, 10**12), st.integers(1, 64))
def test_shares_add_up_and_differ_by_one(total: int, parts: int) -> None:
    split = shares(total, parts)
    assert sum(split) == total
    assert len(split) == parts
    assert max(split) - min(split) <= 1
