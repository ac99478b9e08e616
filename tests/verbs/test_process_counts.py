"""Files of counters: what is read of them, and what is no such file."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.verbs import plan_region, process_counts

pytestmark = pytest.mark.unit


@pytest.fixture
def path() -> Iterator[Path]:
    place = Path(f"/dev/shm/hostcc-test-counts-{os.getpid()}")
    yield place
    for one in place.parent.glob(f"{place.name}.*"):
        one.unlink()


def a_process(**more: int) -> plan_region.CountsEntry:
    made = plan_region.CountsEntry(
        magic=plan_region.MAGIC, version=plan_region.VERSION, pid=7, name=b"job", **more
    )
    pair = made.qp[5]
    pair.qpn, pair.bytes, pair.source, pair.device = 17, 1 << 40, 1 << 16 | 3, b"mlx5_0"
    pair.dgid[:] = plan_region.gid_of("198.18.0.1")
    return made


def test_counts_of_odd_files(path: Path) -> None:
    places = [path.with_name(f"{path.name}.{end}") for end in ("1", "2", "3", "4", "5", "x")]
    places[0].write_bytes(bytes(a_process(iteration=9)))
    places[1].write_bytes(b"garbage")
    places[2].write_bytes(bytes(ctypes.sizeof(plan_region.CountsEntry)))
    os.mkfifo(places[3])  # would block who opens it
    places[4].symlink_to(places[0])
    places[5].write_bytes(bytes(a_process()))  # no process is called so
    (found,) = process_counts.read_counts(path)
    assert (found.job, found.pid, found.iteration, found.uid) == ("job", 1, 9, os.geteuid())
    (pair,) = found.qps
    assert (pair.qpn, pair.bytes, pair.device) == (17, 1 << 40, "mlx5_0")
    assert (pair.device_port, pair.gid_index, pair.destination) == (1, 3, "198.18.0.1")


def test_a_name_that_is_none(path: Path) -> None:
    odd = a_process()
    odd.name = b"a b"
    odd.qp[5].device = b"\xff\xfe"
    path.with_name(f"{path.name}.1").write_bytes(bytes(odd))
    (found,) = process_counts.read_counts(path)
    assert found.job == ""
    assert found.qps[0].device == "\ufffd\ufffd"


def test_files_of_the_dead_are_swept(path: Path) -> None:
    mine, dead = (path.with_name(f"{path.name}.{pid}") for pid in (os.getpid(), 2**22 + 7))
    for place in (mine, dead):
        place.write_bytes(b"")
    assert process_counts.sweep(path) == 1
    assert mine.exists()


def test_addresses() -> None:
    assert process_counts.address_of(plan_region.gid_of("198.18.0.1")) == "198.18.0.1"
    assert process_counts.address_of(plan_region.gid_of("fd00::1")) == "fd00::1"
    assert process_counts.address_of(bytes(16)) == ""
