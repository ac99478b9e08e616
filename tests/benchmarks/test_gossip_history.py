"""Simulation testing: hundreds of seeds of faults, and a seed replays exactly."""

from __future__ import annotations

import pytest

from benchmarks.gossip_faults import record
from benchmarks.gossip_history import BOUND_S, play
from tests import hash_seeds

pytestmark = [pytest.mark.unit, pytest.mark.slow]

SEEDS, CHUNK = 200, 5


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_is_violated(first: int) -> None:
    for seed in range(first, first + CHUNK):
        outcome = play(seed)
        assert not outcome.violations, f"seed {seed}"
        assert outcome.settled_s is not None
        assert outcome.settled_s <= BOUND_S


def test_a_seed_replays_exactly() -> None:
    script = "from benchmarks.gossip_history import play; print(play(7))"
    assert hash_seeds.output(script)


def test_a_failure_names_its_seed() -> None:
    good, bad = play(1), play(2)
    bad.violations.append("1.0 s: something")
    bad.settled_s = None
    made = record([good, bad])
    assert not made.met
    assert made.failures == ["seed 2: 1.0 s: something"]
    assert [goal.met for goal in made.goals] == [False, False]
