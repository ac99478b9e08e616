"""Iterations out of bins: every byte once, pauses told from stalls, bursts kept together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.tracing.timeline import LEVELS, Floats, Ints, Iteration, Segmenter, cells, lane

pytestmark = pytest.mark.unit

BIN_S = 0.001
Bins = tuple[Floats, Ints, Ints]


def signal(bursts: list[tuple[int, int]], size: int = 10_000, busy: set[int] | None = None) -> Bins:
    """Bins of bursts (first bin, bins); after those with their index in `busy` sockets wait."""
    at: list[int] = []
    waiting: list[int] = []
    for index, (first, count) in enumerate(bursts):
        at += range(first, first + count)
        waiting += [1] * (count - 1) + [1 if index in (busy or set()) else 0]
    return (
        np.array(at, dtype=np.float64) * BIN_S,
        np.full(len(at), size, dtype=np.int64),
        np.array(waiting, dtype=np.int64),
    )


def periodic(count: int, period: int, length: int) -> Bins:
    return signal([(100 + i * period, length) for i in range(count)])


def test_a_periodic_job() -> None:
    segmenter = Segmenter(BIN_S)
    done = segmenter.feed(*periodic(10, 100, 30))
    assert [i.number for i in done] == list(range(1, 10))
    assert all(i.bytes == 300_000 for i in done)
    assert [i.period_s for i in done] == [None, *([pytest.approx(0.1)] * 8)]
    assert all(i.communication_s == pytest.approx(0.03) for i in done)
    assert segmenter.idle(1.03 + 0.03) == []
    (last,) = segmenter.idle(1.03 + 0.036)
    assert (last.number, last.bytes) == (10, 300_000)
    assert segmenter.idle(9.0) == []


def test_bursts_of_one_iteration_stay_together() -> None:
    # Two bursts 10 ms apart, then 100 ms of nothing.
    bursts = [(base + part, 10) for base in range(0, 3000, 130) for part in (0, 20)]
    done = Segmenter(BIN_S).feed(*signal(bursts))
    assert [i.bytes for i in done[-10:]] == [200_000] * 10
    given = Segmenter(BIN_S, silence_s=0.05).feed(*signal(bursts))
    assert [i.bytes for i in given] == [200_000] * 23


def test_one_long_pause_is_a_checkpoint() -> None:
    segmenter = Segmenter(BIN_S)
    segmenter.feed(*signal([(0, 20), (100, 20), (200, 20), (300, 20), (5000, 20), (5100, 20)]))
    assert segmenter.silence_s == pytest.approx(0.04)


def test_a_stall_is_no_pause() -> None:
    bursts = [(0, 20), (300, 20), (1000, 20)]
    (done,) = Segmenter(BIN_S, silence_s=0.1).feed(*signal(bursts, busy={0}))
    assert done.bytes == 400_000
    assert done.end_s == pytest.approx(0.32)
    stalled = Segmenter(BIN_S, silence_s=0.1)
    assert stalled.feed(*signal(bursts[:1], busy={0})) == []
    assert stalled.idle(99.0) == []


def test_too_little_is_nothing() -> None:
    at, sizes, busy = signal([(0, 1), (500, 20), (1000, 20)])
    sizes[0] = 100
    done = Segmenter(BIN_S, silence_s=0.1).feed(at, sizes, busy)
    assert [(i.number, i.start_s) for i in done] == [(1, 0.5)]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 10**6), st.booleans()), max_size=60),
    st.lists(st.integers(0, 60), max_size=5),
    st.sampled_from([None, 0.01, 0.05]),
)
def test_every_byte_once_however_it_is_fed(
    rows: list[tuple[int, int, bool]], cuts: list[int], silence_s: float | None
) -> None:
    at = np.cumsum([1 + gap for gap, _, _ in rows], dtype=np.float64) * BIN_S
    sizes = np.array([size for _, size, _ in rows], dtype=np.int64)
    busy = np.array([waits for _, _, waits in rows], dtype=np.int64)

    def fed(edges: list[int]) -> list[Iteration]:
        segmenter = Segmenter(BIN_S, silence_s, min_bytes=1)
        done: list[Iteration] = []
        for low, high in zip([0, *edges], [*edges, len(rows)], strict=True):
            done += segmenter.feed(at[low:high], sizes[low:high], busy[low:high])
        # A last burst, far away, closes what is open.
        done += segmenter.feed(np.array([500.0]), np.array([1]), np.array([0]))
        return done

    whole = fed([])
    assert fed(sorted(min(cut, len(rows)) for cut in cuts)) == whole
    if rows and not rows[-1][2]:
        assert sum(i.bytes for i in whole) == sizes.sum()
    for before, after in itertools.pairwise(whole):
        assert before.end_s <= after.start_s
        assert after.period_s == pytest.approx(after.start_s - before.start_s)


def test_lanes() -> None:
    amounts = cells(np.array([0.0, 0.5, 0.99]), np.array([1.0, 2.0, 800.0]), 0.0, 1.0, 4)
    assert amounts.tolist() == [1.0, 0.0, 2.0, 800.0]
    assert lane(amounts, 800.0) == ". .#"
    assert lane(np.zeros(3), 0.0) == "   "
    assert len(set(LEVELS)) == 8
