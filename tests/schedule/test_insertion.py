"""Re-insertion: never worse than where it began, also without the look at every single job."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.schedule import insertion
from hostcc.schedule.insertion import InsertionSearch

pytestmark = pytest.mark.unit


def search(jobs: int, pairs: int, seed: int) -> InsertionSearch:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, jobs, (2, pairs))
    key = np.unique(
        np.minimum(one, other)[one != other] * jobs + np.maximum(one, other)[one != other]
    )
    low, high = np.divmod(key, jobs)
    losses = (rng.choice([0.0, 0.1, 0.5], len(key)), rng.random(len(key)))
    start = rng.permutation(jobs)
    return InsertionSearch(jobs, (low, high), losses, rng.uniform(1, 9, jobs), start)


def value(found: InsertionSearch, rank: np.ndarray) -> float:
    """Rates by definition, in the order of ranks."""
    speed = np.ones(found.jobs)
    for job in np.argsort(rank):
        lost = 0.0
        for one, other, d_one, d_other in zip(
            found.one, found.other, found.one_below, found.other_below, strict=True
        ):
            if one == job and rank[other] < rank[job]:
                lost += d_one * speed[other]
            if other == job and rank[one] < rank[job]:
                lost += d_other * speed[one]
        speed[job] = 1 / (1 + lost)
    return float((speed * found.worth).sum())


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(0, 40), st.integers(0, 10**6), st.booleans())
def test_a_permutation_that_is_no_worse(jobs: int, pairs: int, seed: int, alone: bool) -> None:
    found = search(jobs, pairs, seed)
    start = found.position.astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        if not alone:
            patch.setattr(insertion, "MAX_SWEEP_JOBS", 0)
        rank = found.run()
    assert sorted(rank.tolist()) == list(range(jobs))
    assert value(found, rank) >= value(found, start) * (1 - 1e-5)


def test_all_at_once_finds_what_two_jobs_gain() -> None:
    found = InsertionSearch(
        3,
        (np.array([0]), np.array([2])),
        (np.array([0.5]), np.array([0.1])),
        np.array([5.0, 1.0, 5.0]),
        np.array([2, 1, 0]),
    )
    rank = found.run()
    assert rank[0] < rank[2]
