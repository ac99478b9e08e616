"""What the simulation remembers: never another set's rates, and the same results as without."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from hostcc.schedule import fluid, simulated_search
from hostcc.schedule.components import SmallProblem
from hostcc.schedule.fluid import Group, simulate
from hostcc.schedule.problem import build
from hostcc.schedule.rate_cache import PLACE_BITS, RateCache
from hostcc.sim.small import small_case

pytestmark = pytest.mark.unit


def test_a_set_is_never_taken_for_another() -> None:
    rows, variants = 12, 3
    memory = RateCache(rows, variants)
    rng = np.random.default_rng(0)
    for _ in range(2 << PLACE_BITS):
        active = rng.random((rows, variants)) < 0.5
        expected = active * np.arange(1.0, rows + 1)[:, None]
        place, code = memory.place(active, np.arange(variants))
        known = memory.contains(place, code)
        assert (memory.at(place)[:, known] == expected[:, known]).all()
        memory.store(place, code, expected)
        assert memory.contains(place, code).all()
        assert (memory.at(place) == expected).all()


def test_only_what_is_kept_takes_memory() -> None:
    rows, variants, sets = 16, 400, 15
    memory = RateCache(rows, variants)
    before = resident()
    for count in range(2 * sets):
        active = np.zeros((rows, variants), np.bool_)
        active[: count % sets] = True
        place, code = memory.place(active, np.arange(variants))
        memory.store(place, code, np.ones(active.shape))
    assert memory.kept <= 1 + sets * variants
    assert resident() - before < memory.rates.nbytes / 2


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.parametrize("index", range(4))
def test_the_same_to_the_last_digit_as_without_a_memory(
    index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = build(small_case(7, index))
    small = SmallProblem(problem)
    judge = simulated_search.make_oracle(small, problem.work, (1.0, 6.0))
    layout = small.layout(tuple(choice[0] for choice in small.choices))
    rng = np.random.default_rng(index)
    groups = [
        Group(
            small.rows(part),
            rng.integers(0, 3, (40, len(part.members))),
            np.array(part.members),
        )
        for part in layout.components
    ]
    found = simulate(judge.cycle, groups, *judge.window)
    monkeypatch.setattr(fluid, "MAX_ROWS", 0)
    canonical_levels = simulate(judge.cycle, groups, *judge.window)
    assert np.array_equal(found.compute_seconds, canonical_levels.compute_seconds)
    assert np.array_equal(found.iterations, canonical_levels.iterations)
