"""The ring of time bins: what is read is what was added, once, and nothing stays behind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure import bins
from hostcc.measure.bins import Ring, Span

pytestmark = pytest.mark.unit


def test_geometry() -> None:
    ring = Ring(rows=4, bin_shift=20, ring_shift=6, shard_shift=1)
    assert (ring.bins, ring.shards, ring.bin_ns, ring.cells) == (64, 2, 1_048_576, 512)
    assert ring.at(3 * ring.bin_ns - 1) == 2
    assert [ring.ceil(n * ring.bin_ns + 1) for n in (0, 1)] == [1, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 1}, "rows: expected 2"),
        ({"bin_shift": 16}, "bin_shift: expected 17 to 26, got 16"),
        ({"bin_shift": 27}, "bin_shift"),
        ({"ring_shift": 5}, "ring_shift"),
        ({"shard_shift": 6}, "shard_shift"),
        ({"rows": 1 << 20, "ring_shift": 14}, "at most 2 GiB"),
    ],
)
def test_refuses(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Ring(**{"rows": 8, **change})


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (103, Span(100, 100, 100)),  # not settled yet
        (99, Span(100, 100, 100)),  # time does not go back
        (110, Span(100, 105, 105)),
        (169, Span(100, 164, 164)),  # the whole ring
        (170, Span(100, 164, 165)),
        (1000, Span(100, 164, 995)),
    ],
)
def test_span(now: int, expected: Span) -> None:
    assert bins.span(100, now, 5, 64) == expected


def test_lost() -> None:
    assert bins.span(100, 1000, 5, 64).lost == 995 - 164
    assert bins.span(100, 110, 5, 64).lost == 0


def memory_of(ring: Ring) -> tuple[bins.Words, bins.Words]:
    """Cells and the bits of those in use, all empty."""
    words = np.zeros(2 * ring.cells, np.uint64)
    touched = np.zeros(ring.bins * ring.touched_words, np.uint64)
    return ring.shaped(words), ring.shaped_touched(touched)


def count(ring: Ring, memory: tuple[bins.Words, bins.Words], lane: int, at: int, word: int) -> None:
    """What the kernel side does with a sent packet."""
    words, touched = memory
    words[at % ring.bins, lane // ring.shards, lane % ring.shards, 0] += np.uint64(word)
    touched[at % ring.bins, lane // 64] |= np.uint64(1 << lane % 64)


@given(
    steps=st.lists(st.integers(0, 64), min_size=1, max_size=20),
    begin=st.integers(0, 1 << 40),
    seed=st.integers(0, 1 << 16),
    shard_shift=st.integers(0, 2),
    rows=st.sampled_from([5, 63, 64, 65, 200]),
)
def test_take_returns_all_once(
    steps: list[int], begin: int, seed: int, shard_shift: int, rows: int
) -> None:
    """Against a dictionary by row and bin number, over several laps."""
    ring = Ring(rows=rows, ring_shift=6, shard_shift=shard_shift)
    memory = memory_of(ring)
    random = np.random.default_rng(seed)
    for step in steps:
        of = Span(begin, begin + step, begin + step)
        expected: dict[tuple[int, int], int] = {}
        for _ in range(20 if step else 0):
            lane, offset = int(random.integers(ring.lanes)), int(random.integers(step))
            word = int(random.integers(1, 1 << 16)) | int(random.integers(5, 30)) << 40
            count(ring, memory, lane, begin + offset, word)
            key = lane // ring.shards, offset
            expected[key] = expected.get(key, 0) + word
        taken = bins.take(ring, *memory, of)
        got: dict[tuple[int, int], int] = {}
        for row, at, (tx, rx) in zip(
            taken.row.tolist(), taken.bin.tolist(), taken.words.tolist(), strict=True
        ):
            got[row, at] = got.get((row, at), 0) + tx
            assert rx == 0
        assert got == expected
        assert not memory[0].any()
        assert not memory[1].any()
        begin += step


def test_take_leaves_other_bins() -> None:
    ring = Ring(rows=3, ring_shift=6)
    memory = memory_of(ring)
    for at in range(64):
        count(ring, memory, 1, at, 1)
    assert bins.take(ring, *memory, Span(62, 66, 66)).bin.tolist() == [0, 1, 2, 3]
    assert memory[0][:, 1].sum() == 60
    assert memory[1].sum() == 60 * 2
    assert len(bins.take(ring, *memory, Span(0, 0, 0)).row) == 0


@pytest.mark.parametrize(("cpus", "shards"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 2), (512, 2)])
def test_the_ring_takes_the_same_memory_everywhere(cpus: int, shards: int) -> None:
    ring = bins.default_ring(cpus)
    assert ring.shards == shards
    assert ring.rows - 1 == bins.DESTINATIONS // shards
    assert 16 * ring.cells <= (16 << 20) + 16 * shards * ring.bins
