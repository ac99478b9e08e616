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


@given(
    steps=st.lists(st.integers(0, 64), min_size=1, max_size=20),
    begin=st.integers(0, 1 << 40),
    seed=st.integers(0, 1 << 16),
    shard_shift=st.integers(0, 2),
)
def test_take_returns_all_once(steps: list[int], begin: int, seed: int, shard_shift: int) -> None:
    """Against a dictionary by bin number, over several laps."""
    ring = Ring(rows=5, ring_shift=6, shard_shift=shard_shift)
    memory = np.zeros(ring.cells, [("tx", "u8"), ("rx", "u8")])
    words = ring.shaped(memory)
    random = np.random.default_rng(seed)
    rows = np.array([1, 2, 4])
    for step in steps:
        of = Span(begin, begin + step, begin + step)
        expected = np.zeros((3, step, 2), np.int64)
        for _ in range(20 if step else 0):
            row, offset, side = random.integers(3), random.integers(step), random.integers(2)
            size, header = int(random.integers(1, 1 << 16)), 4 * int(random.integers(5, 30))
            shard = int(random.integers(ring.shards))
            cell = (int(rows[row]) * ring.shards + shard) * ring.bins + (begin + offset) % ring.bins
            memory["tx" if side == 0 else "rx"][cell] += size | header // 4 << bins.HEADER_SHIFT
            expected[row, offset, side] += size * 1_000_003 + header
        taken = bins.take(words, rows, of)
        got = bins.payload(taken) * 1_000_003 + bins.headers(taken)
        np.testing.assert_array_equal(got, expected)
        assert not memory["tx"].any()
        assert not memory["rx"].any()
        begin += step


def test_take_leaves_other_rows_and_bins() -> None:
    ring = Ring(rows=3, ring_shift=6)
    words = ring.shaped(np.ones(ring.cells, [("tx", "u8"), ("rx", "u8")]))
    bins.take(words, np.array([1]), Span(62, 66, 66))
    assert words[1].sum() == 2 * 60
    assert words[0].all()
    assert words[2].all()
    assert bins.take(words, np.array([], np.intp), Span(0, 5, 5)).shape == (0, 5, 2)
