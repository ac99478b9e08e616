"""Algorithm 1 and Theorem 1: unique shifts that keep every link as its optimiser left it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.schedule.cassini import affinity, circle, compatibility
from hostcc.schedule.cassini.affinity import Affinity, LoopError
from hostcc.schedule.cassini.circle import Pattern

pytestmark = pytest.mark.unit

STEP = 1 / 24
"""Of shifts and phases: every curve is constant in between."""


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[str, Pattern], dict[str, list[str]]]:
    """Jobs, and links whose Affinity graph has no loop."""
    count = draw(st.integers(2, 7))
    jobs = {}
    for index in range(count):
        period = float(draw(st.integers(1, 3)))
        start, length = draw(st.integers(0, 11)) * STEP, draw(st.integers(1, 12)) * STEP
        jobs[f"j{index}"] = Pattern(f"j{index}", period, ((start, start + length, 1.0),))
    links: dict[str, list[str]] = {}
    for index in range(1, count):
        if draw(st.booleans()) or not links:
            links[f"l{index}"] = [f"j{draw(st.integers(0, index - 1))}", f"j{index}"]
        else:
            links[draw(st.sampled_from(sorted(links)))].append(f"j{index}")
    return jobs, links


def total(patterns: list[Pattern], shifts: list[float]) -> np.ndarray:
    """Demand over 6 s (a multiple of all periods), by direct sampling."""
    times = (np.arange(6 * 24 * 2) + 0.5) * STEP / 2
    demand = np.zeros(len(times))
    for pattern, shift in zip(patterns, shifts, strict=True):
        inside = (times - shift) % pattern.period
        for start, end, rate in pattern.phases:
            demand += rate * ((inside >= start) & (inside < end))
    return demand


@settings(max_examples=60)
@given(trees())
def test_shifts_keep_the_demand_of_every_link(
    case: tuple[dict[str, Pattern], dict[str, list[str]]],
) -> None:
    jobs, links = case
    fits = {}
    for link, names in links.items():
        patterns = [jobs[name] for name in names]
        turns = circle.unified_circle([p.period for p in patterns], 0.0)
        fits[link] = compatibility.fit(
            patterns, 1.0, tolerance=0.0, angles=round(24 * turns.perimeter)
        )
    graph = [
        Affinity(link, dict(zip(links[link], found.shifts, strict=True)))
        for link, found in fits.items()
    ]
    shifts = affinity.time_shifts(graph, {name: job.period for name, job in jobs.items()})
    assert shifts.keys() == jobs.keys()
    for link, found in fits.items():
        patterns = [jobs[name] for name in links[link]]
        local = total(patterns, list(found.shifts))
        everywhere = total(patterns, [shifts[name] for name in links[link]])
        # The same curve, rotated as a whole (Theorem 1).
        assert sorted(local.tolist()) == sorted(everywhere.tolist())
        score = 1 - np.maximum(everywhere - 1, 0).mean()
        assert score == pytest.approx(found.score, abs=1e-6)


@given(trees(), st.randoms(use_true_random=False))
def test_shifts_do_not_depend_on_the_order_of_links(
    case: tuple[dict[str, Pattern], dict[str, list[str]]], random: object
) -> None:
    jobs, links = case
    periods = {name: job.period for name, job in jobs.items()}
    graph = [
        Affinity(link, {name: (len(link) + k) * STEP for k, name in enumerate(names)})
        for link, names in links.items()
    ]
    backwards = [
        Affinity(link.link, dict(reversed(list(link.shifts.items())))) for link in graph[::-1]
    ]
    assert affinity.time_shifts(graph, periods) == affinity.time_shifts(
        backwards, dict(reversed(list(periods.items())))
    )


def test_differences_travel_along_the_graph() -> None:
    graph = [
        Affinity("x", {"a": 0.0, "b": 0.3}),
        Affinity("y", {"b": 0.1, "c": 0.5}),
        Affinity("z", {"d": 0.7}),
    ]
    shifts = affinity.time_shifts(graph, dict.fromkeys("abcd", 1.0))
    assert shifts == pytest.approx({"a": 0.0, "b": 0.3, "c": 0.7, "d": 0.0})


@pytest.mark.parametrize(
    "groups",
    [
        [["a", "b"], ["b", "a"]],
        [["a", "b"], ["b", "c"], ["c", "a"]],
        [["a", "b", "c"], ["c", "d"], ["d", "a"]],
    ],
)
def test_loops_are_refused(groups: list[list[str]]) -> None:
    assert affinity.has_loop(groups)
    graph = [Affinity(str(n), dict.fromkeys(jobs, 0.0)) for n, jobs in enumerate(groups)]
    with pytest.raises(LoopError, match="loop"):
        affinity.time_shifts(graph, dict.fromkeys("abcd", 1.0))


def test_stars_and_links_of_one_job_are_no_loops() -> None:
    assert not affinity.has_loop([["a", "b", "c"], ["a"], ["a", "d"], [], ["b"]])
    assert affinity.time_shifts([], {}) == {}
