"""Series of real jobs, recorded once: what is found in them is what the jobs reported then."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.measure.period import detect
from hostcc.measure.series import ByteSeries, part
from hostcc.measure.series_file import load

pytestmark = pytest.mark.unit

DATA = Path(__file__).with_name("data") / "series"
REPORTED_S = {
    "two-jobs-hostcc": 0.24189,
    "six-jobs-hostcc": 0.24183,
    "six-jobs-cubic": 0.26479,
    "ddp-cubic": 0.34197,
    "allreduce-cubic": 0.34526,
}
"""Median time from one reported start to the next."""
SENT = {"two-jobs-hostcc": 2582299, "six-jobs-hostcc": 860766, "six-jobs-cubic": 860766}
"""Bytes of an iteration, where the job is told how many: retransmissions are not in it."""
ITERATIONS = 23
IRREGULAR_S = {"allreduce-hostcc": 0.344, "ddp-a-hostcc": 0.32683, "ddp-b-hostcc": 0.38345}
IRREGULAR_SENT = {
    "allreduce-hostcc": 2582299, "ddp-a-hostcc": 5164598, "ddp-b-hostcc": 5164598,
}  # fmt: skip


def recorded(name: str) -> ByteSeries:
    return load(DATA / f"{name}.npz").series


@pytest.mark.parametrize("name", REPORTED_S)
def test_period_and_bytes(name: str) -> None:
    series = recorded(name)
    found = detect(series)
    assert found.period_s == pytest.approx(REPORTED_S[name], rel=0.05), found.reason
    sent = SENT.get(name, series.total.sum() / ITERATIONS)
    assert found.bytes_per_iteration == pytest.approx(sent, rel=0.05)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["two-jobs-hostcc", "six-jobs-hostcc", "ddp-cubic"]), st.floats(0, 0.3))
def test_wherever_it_begins(name: str, ahead: float) -> None:
    series = recorded(name)
    found = detect(part(series, int(ahead * len(series))))
    assert found.period_s == pytest.approx(REPORTED_S[name], rel=0.05), found.reason


@pytest.mark.parametrize("name", IRREGULAR_S)
def test_iterations_that_only_their_bytes_tell(name: str) -> None:
    """Two jobs that do not fit beside each other: when each sends what is another story."""
    found = detect(recorded(name))
    assert found.irregular
    assert found.period_s == pytest.approx(IRREGULAR_S[name], rel=0.08)
    assert found.bytes_per_iteration == pytest.approx(IRREGULAR_SENT[name], rel=0.05)
    assert 0.5 < found.confidence < 0.9
