"""Bytes of queue pairs over time: what the shim writes (native/bins.c) as the agent reads it."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hostcc.pcie.library import HERE as PCIE
from hostcc.verbs import queue_pair_bins
from hostcc.verbs.build import HERE, VERBS_HEADER
from hostcc.verbs.process_counts import bins_prefix, sweep
from hostcc.verbs.queue_pair_bins import (
    BIN_NS,
    FILE_BYTES,
    LATE,
    MAX_BIN_BYTES,
    RING,
    SETTLE_BINS,
    BinFile,
    BinsEntry,
    bin_files,
    open_bins,
)
from tests.verbs.bin_writer import Writer, write_bins
from tests.verbs.test_shim_native import NATIVE

pytestmark = pytest.mark.unit
needs_verbs = pytest.mark.skipif(
    not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"
)
START = 5_000_000
"""A bin."""


@pytest.fixture(scope="module", params=["", "-fsanitize=thread"])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Also with a sanitizer, which ends the program with an error where two threads race."""
    program = tmp_path_factory.mktemp("bins") / "bins"
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *request.param.split(),
         f"-I{HERE}", f"-I{PCIE}", "-pthread", "-o", str(program), str(NATIVE / "bins.c")],
        check=True,
    )  # fmt: skip
    return program


@pytest.fixture
def prefix() -> Iterator[Path]:
    place = Path(f"/dev/shm/hostcc-test-series-{os.getpid()}")
    yield place
    for one in place.parent.glob(f"{place.name}*"):
        one.unlink()


class Shim:
    """The program; times are in bins from START."""

    def __init__(self, program: Path, prefix: Path) -> None:
        self.prefix = prefix
        self.process = subprocess.Popen(
            [program, prefix], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, *words: object, at: float | None = None) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        when = [] if at is None else [round((START + at) * BIN_NS)]
        self.process.stdin.write(" ".join(map(str, [*words, *when])) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"

    def file(self) -> BinFile:
        (one,) = bin_files(self.prefix)
        found = open_bins(*one)
        assert found is not None
        return found

    def bins(self, count: int) -> list[int]:
        file = self.file()
        _, found = file.read(START, START + count)
        file.close()
        return [int(value) for value in found.sum(axis=0)]

    def end(self) -> None:
        assert self.process.stdin is not None
        with self.process:
            self.process.stdin.write("end\n")
        assert self.process.returncode == 0
        assert bin_files(self.prefix) == []


@pytest.fixture
def shim(compiled: Path, prefix: Path) -> Iterator[Shim]:
    made = Shim(compiled, prefix)
    made.do("open", 64)
    yield made
    made.end()


@needs_verbs
def test_bytes_lie_between_post_and_completion(shim: Shim) -> None:
    shim.do("posted", 4000, 1, at=1)
    assert shim.bins(8) == [0] * 8  # nobody knows how long it takes
    assert shim.file().complete(START + 100) == START + 1
    shim.do("completed", 1, at=5)
    assert shim.bins(8) == [0, 1000, 1000, 1000, 1000, 0, 0, 0]
    assert shim.file().complete(START + 100) == START + 100 - SETTLE_BINS
    (row,) = shim.file().rows
    assert (row["qpn"], row["source"]) == (17, 1 << 16 | 3)
    assert row["device"].tobytes().rstrip(b"\0") == b"rxa"


@needs_verbs
def test_completions_that_follow_or_come_together(shim: Shim) -> None:
    for _ in range(4):
        shim.do("posted", 1000, 1, at=0)
    shim.do("completed", 1, at=2)
    shim.do("completed", 1, at=3)
    assert shim.bins(4) == [500, 500, 1000, 0]
    shim.do("completed", 1, at=5)  # two that were polled one after the other
    shim.do("completed", 1, at=5)
    assert shim.bins(6) == [500, 500, 1000, 1000, 1000, 0]


@needs_verbs
def test_sends_without_a_completion_of_their_own(shim: Shim) -> None:
    shim.do("posted", 3000, 0, at=0)
    shim.do("posted", 1000, 1, at=1)
    shim.do("completed", 1, at=4)
    assert shim.bins(5) == [1000, 1000, 1000, 1000, 0]
    shim.do("posted", 700, 0, at=10)  # nothing comes after it
    shim.do("settle", at=10.5)
    assert sum(shim.bins(20)) == 4000
    shim.do("settle", at=12)
    assert shim.bins(20)[10] == 700
    shim.do("posted", 600, 0, at=15)
    shim.do("posted", 100, 1, at=18)
    shim.do("completed", 1, at=19)
    assert shim.bins(20)[15:] == [600, 0, 0, 100, 0]


@needs_verbs
def test_refused_posts_were_never_sent(shim: Shim) -> None:
    shim.do("posted", 5000, 2, at=0)
    shim.do("refused", 3000, 1)
    shim.do("completed", 1, at=2)
    assert shim.bins(3) == [1000, 1000, 0]


@needs_verbs
def test_completions_that_go_elsewhere(shim: Shim) -> None:
    """An extended completion queue: after more than the queue takes, posts alone are believed."""
    for index in range(65):
        shim.do("posted", 100, 1, at=index * 0.01)
    assert sum(shim.bins(4)) == 6500
    shim.do("posted", 900, 1, at=2.5)
    assert shim.bins(4)[2] == 900


@needs_verbs
def test_what_takes_very_long_is_dated_lately(shim: Shim) -> None:
    shim.do("posted", LATE * 1000, 1, at=0)
    assert shim.file().complete(START + 5000) == START + 5000 - SETTLE_BINS - LATE
    shim.do("completed", 1, at=RING + 700)
    file = shim.file()
    _, found = file.read(START + RING - 500, START + RING + 800)
    file.close()
    assert found.sum() == LATE * 1000
    assert found[0].nonzero()[0].tolist() == list(range(1200 - LATE, 1200))


@needs_verbs
def test_a_ring_that_is_full_begins_again(shim: Shim) -> None:
    for turn in range(3):
        shim.do("posted", 1000 + turn, 1, at=turn * RING + 7)
        shim.do("completed", 1, at=turn * RING + 7.5)
    file = shim.file()
    _, found = file.read(START + 2 * RING, START + 2 * RING + 10)
    assert found.sum(axis=0)[7] == 1002
    assert len(file.read(START, START + 10)[0]) == 0  # those are gone
    file.close()


@needs_verbs
def test_the_next_queue_pair_keeps_what_was_not_read(shim: Shim) -> None:
    shim.do("posted", 1000, 1, at=0)
    shim.do("close")
    shim.do("posted", 999, 1, at=1)  # to a queue pair without a ring
    shim.do("open", 64)
    shim.do("posted", 500, 1, at=2)
    shim.do("completed", 1, at=2.5)
    assert shim.bins(4) == [1000, 0, 500, 0]
    assert len(shim.file().rows) == 1


@needs_verbs
def test_threads_lose_no_byte(shim: Shim) -> None:
    shim.do("race", 8, 5000, at=0)
    assert sum(shim.bins(20)) == 8 * 5000 * 1000


@needs_verbs
def test_whatever_happens_bytes_are_neither_lost_nor_made(shim: Shim) -> None:
    rng = random.Random(7)
    at, posted, waiting = 0.0, 0, 0
    for _ in range(1000):
        at += rng.choice([0.0, 0.01, 0.4, 4.0]) * rng.random()
        if rng.random() < 0.6 and waiting < 60:
            size, signalled = rng.randrange(10**9), rng.choice([0, 1, 1, 3])
            shim.do("posted", size, signalled, at=at)
            posted, waiting = posted + size, waiting + signalled
        elif waiting:
            count = rng.randint(1, waiting)
            shim.do("completed", count, at=at)
            waiting -= count
        else:
            shim.do("settle", at=at)
    shim.do("completed", 64, at=at)
    shim.do("settle", at=at + 2)
    assert LATE < at < RING - 10
    assert sum(shim.bins(int(at) + 3)) == posted


def test_files_that_are_none(prefix: Path) -> None:
    named = bins_prefix(prefix)
    places = [named.with_name(f"{named.name}.{pid}") for pid in range(1, 7)]
    write_bins(prefix, 1, "job", [Writer({START: 5})])
    places[1].write_bytes(b"garbage")
    with places[2].open("wb") as file:  # a later version
        file.write(bytes(BinsEntry(magic=queue_pair_bins.MAGIC, version=2)))
        file.truncate(FILE_BYTES)
    os.mkfifo(places[3])  # would block who opens it
    places[4].symlink_to(places[0])
    with places[5].open("wb") as file:
        file.truncate(FILE_BYTES)
    opened = [open_bins(*one) for one in bin_files(prefix)]
    assert len(opened) == 6
    (found,) = [one for one in opened if one is not None]
    assert (found.job, found.pid, found.uid) == ("job", 1, os.geteuid())
    found.close()


def test_garbage_in_a_file(prefix: Path) -> None:
    rng = np.random.default_rng(2)
    path = write_bins(prefix, 1, "job", [Writer({START: 5})])
    for _ in range(20):
        with path.open("r+b") as file:
            file.seek(BinsEntry.rows.offset)
            file.write(rng.bytes(ctypes.sizeof(BinsEntry) - BinsEntry.rows.offset))
            file.seek(queue_pair_bins.RINGS_AT)
            file.write(rng.bytes(RING * 8))
        found = open_bins(path, 1)
        assert found is not None
        now = START + RING
        assert now - SETTLE_BINS - LATE <= found.complete(now) <= now - SETTLE_BINS
        rows, values = found.read(START, START + 900)
        assert values.shape == (len(rows), 900)
        assert ((values >= 0) & (values <= MAX_BIN_BYTES)).all()
        found.close()


def test_files_of_the_dead_are_swept(prefix: Path) -> None:
    write_bins(prefix, os.getpid(), "job", [])
    write_bins(prefix, 2**22 + 7, "job", [])
    assert sweep(prefix) == 1
    assert [pid for _, pid in bin_files(prefix)] == [os.getpid()]
