"""The near-maximum K-cut: valid always, near the exact one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.schedule import approximate_cut, kcut
from hostcc.schedule.contention_graph import ContentionGraph
from hostcc.schedule.errors import OptionsError
from hostcc.schedule.intensity import Crossings
from hostcc.schedule.job_pairs import Pairs, graph, pairs_on_links
from hostcc.schedule.problem import Floats, Ints

pytestmark = pytest.mark.unit


def on(cells: set[tuple[int, int]]) -> Crossings:
    """Jobs on links, given as (job, link)."""
    rows = np.array(sorted(cells), np.int64).reshape(-1, 2)
    return Crossings(rows[:, 0], rows[:, 1], np.ones(len(rows)))


def met(found: Crossings, jobs: int) -> Pairs:
    return pairs_on_links(found.job, found.link, found.seconds, jobs)


def cut(found: Crossings, rank: Ints, worth: Floats, levels: int) -> tuple[ContentionGraph, Ints]:
    pairs = met(found, len(rank))
    made = approximate_cut.approximate_levels(found, pairs, rank, worth, levels)
    whole = graph(pairs, rank, worth)
    assert (made[whole.first] <= made[whole.second]).all()
    assert made.min(initial=0) >= 0
    assert made.max(initial=0) < levels
    return whole, made


def ranks(worth: Floats) -> Ints:
    rank = np.empty(len(worth), np.int64)
    rank[np.argsort(-worth, kind="stable")] = np.arange(len(worth))
    return rank


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 12),
    st.integers(1, 9),
    st.sets(st.tuples(st.integers(0, 11), st.integers(0, 6))),
    st.integers(0, 10**6),
)
def test_levels_respect_ranks_on_every_link(
    jobs: int, levels: int, cells: set[tuple[int, int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    found = on({(job, link) for job, link in cells if job < jobs})
    cut(found, rng.permutation(jobs), rng.choice((0.0, 1.0, 1e-30, 1e30), jobs), levels)


def fabric(jobs: int, links: int, seed: int) -> tuple[Crossings, Floats]:
    """Jobs of very different worth on eight links each, anywhere."""
    rng = np.random.default_rng(seed)
    cells = {(job, int(link)) for job in range(jobs) for link in rng.integers(0, links, 8)}
    return on(cells), np.exp(rng.normal(0, 1, jobs))


def pods(jobs: int, size: int, seed: int) -> tuple[Crossings, Floats]:
    """Jobs on four of the sixteen links of their pod; each pod's are worth more than the last's."""
    rng = np.random.default_rng(seed)
    pod = np.arange(jobs) // size
    cells = {
        (job, int(16 * pod[job] + link)) for job in range(jobs) for link in rng.integers(0, 16, 4)
    }
    return on(cells), np.exp(pod + rng.normal(0, 0.3, jobs))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("kind", "jobs", "size"), [("fabric", 400, 400), ("fabric", 400, 80), ("pods", 400, 50)]
)
def test_near_the_maximum(kind: str, jobs: int, size: int, seed: int) -> None:
    found, worth = {"fabric": fabric, "pods": pods}[kind](jobs, size, seed)
    whole, made = cut(found, ranks(worth), worth, 8)
    assert whole.cut(made) >= 0.985 * whole.cut(kcut.exact(whole, 8))


def test_few_jobs_on_links_of_their_own_have_a_level_each() -> None:
    found, worth = on({(job, job // 5) for job in range(100)}), np.exp(np.arange(100) / 10)
    whole, made = cut(found, ranks(worth), worth, 8)
    assert whole.cut(made) == whole.weight.sum()


def test_more_pairs_than_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    found, worth = fabric(300, 60, 7)
    best = kcut.exact(whole := graph(met(found, 300), ranks(worth), worth), 6)
    monkeypatch.setattr(approximate_cut, "MAX_SAMPLED_PAIRS", len(whole.first) // 10)
    _, made = cut(found, ranks(worth), worth, 6)
    assert whole.cut(made) >= 0.97 * whole.cut(best)


def test_nothing_to_cut() -> None:
    nobody = np.zeros(0, np.int64), np.zeros(0)
    assert cut(on(set()), *nobody, 3)[1].tolist() == []
    assert cut(on(set()), np.arange(2), np.ones(2), 3)[1].tolist() == [0, 0]
    assert cut(on({(0, 0), (1, 0)}), np.arange(2), np.ones(2), 1)[1].tolist() == [0, 0]


def test_bad_worth() -> None:
    found = on({(0, 0), (1, 0)})
    for worth in (-1.0, float("nan"), float("inf")):
        with pytest.raises(OptionsError, match="weight"):
            approximate_cut.approximate_levels(
                found, met(found, 2), np.arange(2), np.array([worth, 1.0]), 3
            )
