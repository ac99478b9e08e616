"""Ring buffer: all records in order, around the end of the buffer, and none that is not ours."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.object import BpfObject
from tests.bpf.traffic import connect_in

pytestmark = pytest.mark.kernel
# What the program emits for each connection; it discards 4 and 9.
NUMBERS = [0, 1, 2, 3, 5, 6, 7, 8]


@pytest.fixture
def attached(loaded: BpfObject, cgroup: Path) -> Iterator[BpfObject]:
    fd = os.open(cgroup, os.O_RDONLY)
    with loaded.attach_cgroup("on_socket", fd):
        yield loaded
    os.close(fd)


def test_records_in_order(attached: BpfObject, cgroup: Path) -> None:
    ring = attached.ringbuf("events", "sample_event")
    assert len(ring.consume()) == 0
    connect_in(cgroup)
    records = ring.consume()
    assert records["number"].tolist() == NUMBERS
    assert records["kind"].tolist() == [number % 3 for number in NUMBERS]
    assert (records["at_ns"][1:] >= records["at_ns"][:-1]).all()
    assert len(ring.consume()) == 0


def test_around_the_end(attached: BpfObject, cgroup: Path) -> None:
    """Ten records of 24 bytes a connection: 4096 bytes are passed several times."""
    ring = attached.ringbuf("events", "sample_event")
    for _ in range(12):
        connect_in(cgroup, times=5)
        assert ring.consume()["number"].tolist() == NUMBERS * 5


def test_full_buffer_drops_and_recovers(attached: BpfObject, cgroup: Path) -> None:
    ring = attached.ringbuf("events", "sample_event")
    connect_in(cgroup, times=40)
    kept = ring.consume()["number"].tolist()
    assert kept == (NUMBERS * 40)[: len(kept)]
    assert 0 < len(kept) < len(NUMBERS) * 40
    connect_in(cgroup)
    assert ring.consume()["number"].tolist() == NUMBERS


def test_descriptor_says_when_to_read(attached: BpfObject, cgroup: Path) -> None:
    ring = attached.ringbuf("events", "sample_event")
    poller = select.epoll()
    poller.register(ring.fd, select.EPOLLIN)
    for _ in range(3):
        assert poller.poll(0) == []
        connect_in(cgroup)
        assert poller.poll(60) != []
        ring.consume()
    poller.close()


def test_records_of_another_size_are_passed_over(attached: BpfObject, cgroup: Path) -> None:
    ring = attached.ringbuf("events", "tcp_line")
    connect_in(cgroup)
    assert len(ring.consume()) == 0
    assert ring.foreign == len(NUMBERS)
    assert attached.ringbuf("events", "sample_event").consume().tolist() == []


def test_wrong_map(attached: BpfObject) -> None:
    with pytest.raises(BpfError, match="table_hash is not a ring buffer"):
        attached.ringbuf("table_hash", "sample_event")
    with pytest.raises(BpfError, match="no type hcc_event"):
        attached.ringbuf("events")
