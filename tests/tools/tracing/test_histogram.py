"""Delay buckets: the inverse of what the C side does, and quantiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.tracing.histogram import edges_ns, quantiles_us

pytestmark = pytest.mark.unit


def bucket_of(ns: int) -> int:
    """bucket_of() of progs/qdisc.bcc.c, in Python."""
    if ns < 8:
        return ns
    octave = ns.bit_length() - 1
    return (octave - 2) << 3 | (ns >> (octave - 3) & 7)


@given(st.integers(0, 2**63 - 1))
def test_edges_hold_what_falls_in(ns: int) -> None:
    low, high = edges_ns(bucket_of(ns))
    assert low <= ns <= high
    assert high - low <= low / 8
    assert bucket_of(low) == bucket_of(high)
    assert bucket_of(high + 1) == bucket_of(ns) + 1


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=200))
def test_quantiles_are_near(delays: list[int]) -> None:
    counts: dict[int, int] = {}
    for delay in delays:
        counts[bucket_of(delay)] = counts.get(bucket_of(delay), 0) + 1
    ordered = sorted(delays)
    median, top = quantiles_us(counts, (0.5, 1.0)) or []
    exact = ordered[(len(ordered) + 1) // 2 - 1]
    assert median * 1e3 == pytest.approx(exact, rel=1 / 15, abs=0.5)
    assert top * 1e3 == pytest.approx(ordered[-1], rel=1 / 15, abs=0.5)


def test_nothing() -> None:
    assert quantiles_us({}, (0.5,)) is None
    assert quantiles_us({3: 0}, (0.5,)) is None
