"""Weights by recent slow-down, and the bound on what a job may lose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.schedule.errors import OptionsError
from hostcc.schedule.fairness import limit_loss, speeds, worth
from hostcc.schedule.job_pairs import pairs_on_links
from hostcc.schedule.order import losses, matrix, rates
from hostcc.schedule.pair_loss import IsolatedTimes

pytestmark = pytest.mark.unit


def test_worth() -> None:
    work, weight, slow = np.array([2.0, 3.0]), np.array([1.0, 2.0]), np.array([1.0, 3.0])
    assert worth(work, weight, slow, 0.0).tolist() == [2.0, 6.0]
    assert worth(work, weight, slow, 2.0).tolist() == [2.0, 54.0]
    for bad in (-1.0, float("nan"), 11.0):
        with pytest.raises(OptionsError, match="fairness"):
            worth(work, weight, slow, bad)


@given(st.integers(2, 9), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_bound(jobs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    alone = IsolatedTimes(*(rng.uniform(0.2, 2.0, jobs) for _ in range(3)))
    links = rng.integers(0, 2, jobs)
    found = losses(alone, pairs_on_links(np.arange(jobs), links, alone.comm, jobs))
    rank = rng.permutation(jobs)
    exact = rates(matrix(jobs, found), np.argsort(rank)[None])[0]
    assert speeds(rank, found) == pytest.approx(exact, abs=1e-6)

    def beyond(ranks: np.typing.NDArray[np.int64]) -> float:
        return float(np.maximum(1 - speeds(ranks, found) - 0.3, 0).sum())

    fair = limit_loss(rank, found, 0.3)
    assert sorted(fair.tolist()) == list(range(jobs))
    assert beyond(fair) <= beyond(rank) + 1e-12
    if beyond(rank) == 0:
        assert fair.tolist() == rank.tolist()


def test_bad_bound() -> None:
    nothing = losses(
        IsolatedTimes(*(np.ones(1),) * 3),
        pairs_on_links(*(np.zeros(0, np.int64),) * 2, np.ones(0), 1),
    )
    with pytest.raises(OptionsError, match="most_loss"):
        limit_loss(np.zeros(1, np.int64), nothing, 2.0)
