"""The DCQCN benchmark's parts, small."""

from __future__ import annotations

import pytest

from benchmarks import dcqcn
from benchmarks.dcqcn import Mix
from hostcc.sim.dcqcn_model import TrainingJob

pytestmark = pytest.mark.unit


def test_ratios_are_to_the_time_alone() -> None:
    small = Mix("small", ((0.01, 0.2),) * 2, compatible=True, published="")
    for senders in dcqcn.SENDERS:
        ratios = dcqcn.simulated(small, senders, 3, seed=1)
        assert len(ratios) == 6
        assert all(0.95 < ratio < 3 for ratio in ratios)


@pytest.mark.parametrize(
    ("senders", "timers_us"), [("fair", (125, 125)), ("unfair", (100, 125)), ("mltcp", (125, 125))]
)
def test_fair_is_the_default_timer_for_all(
    monkeypatch: pytest.MonkeyPatch, senders: str, timers_us: tuple[int, ...]
) -> None:
    """As published: 125 us each, and 100 us for the job that is to go first."""
    given: list[tuple[int, ...]] = []

    def simulate(jobs: list[TrainingJob], *_: object) -> dict[str, list[float]]:
        given.append(tuple(round(job.sender.t_s * 1e6) for job in jobs))
        return {job.name: [1.0] for job in jobs}

    monkeypatch.setattr(dcqcn, "simulate", simulate)
    dcqcn.simulated(dcqcn.MIXES[0], senders, 3, seed=1)
    assert given == [timers_us]


def test_timers_and_goals() -> None:
    assert dcqcn.timers_of(2) == (100, 125)  # as published: the default is 125
    assert dcqcn.timers_of(3) == (80, 100, 125)
    assert dcqcn.linear(0.0) == 0.25
    assert dcqcn.gain([1.23], [1.0]) == [1.23]
    good, bad = dcqcn.MIXES[0], dcqcn.MIXES[-1]
    assert dcqcn.judge(good, "unfair", [1.2]).met
    assert not dcqcn.judge(good, "unfair", [1.0]).met
    assert dcqcn.judge(bad, "unfair", [1.0]).met
    assert not dcqcn.judge(bad, "unfair", [0.9]).met
