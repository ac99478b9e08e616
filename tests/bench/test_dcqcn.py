"""The DCQCN benchmark's parts, small."""

from __future__ import annotations

import pytest

from hostcc.bench import dcqcn
from hostcc.bench.dcqcn import Mix

pytestmark = pytest.mark.unit


def test_ratios_are_to_the_time_alone() -> None:
    small = Mix("small", ((0.01, 0.2),) * 2, compatible=True, published="")
    for senders in dcqcn.SENDERS:
        ratios = dcqcn.simulated(small, senders, 3, seed=1)
        assert len(ratios) == 6
        assert all(0.95 < ratio < 3 for ratio in ratios)


def test_timers_and_goals() -> None:
    assert dcqcn.timers_of(2) == (125, 100)
    assert dcqcn.timers_of(3) == (125, 100, 80)
    assert dcqcn.linear(0.0) == 0.25
    assert dcqcn.gain([1.23], [1.0]) == [1.23]
    good, bad = dcqcn.MIXES[0], dcqcn.MIXES[-1]
    assert dcqcn.judge(good, "unfair", [1.2]).met
    assert not dcqcn.judge(good, "unfair", [1.0]).met
    assert dcqcn.judge(bad, "unfair", [1.0]).met
    assert not dcqcn.judge(bad, "unfair", [0.9]).met
