"""One plan after another: who stays, who is placed, who moves and what that gains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from hostcc.model import ClusterView
from hostcc.schedule.paths import pair_search, replanning
from hostcc.schedule.problem import build
from tests.schedule.paths import problems

pytestmark = pytest.mark.unit


@given(problems.views())
def test_flows_stay_unless_a_gain_is_stated(view: ClusterView) -> None:
    made = build(view)
    found = replanning.replan(made)
    assert problems.valid(made, found.routing)
    assert set(found.placed.tolist()) == set(np.flatnonzero(made.flow_path < 0).tolist())
    moved = {move.flow: move for move in found.moves}
    for flow, before in enumerate(made.flow_path.tolist()):
        if before >= 0 and found.routing[flow] != before:
            move = moved[flow]
            assert (move.before, move.after) == (before, found.routing[flow])
            assert move.gain > 0
    assert all(made.flow_path[flow] >= 0 for flow in moved)


def test_a_new_flow_goes_where_there_is_room_and_nobody_moves() -> None:
    made = problems.problem(
        [{"flows": [(0, 1, 0.8, "s0")]}, {"flows": [(0, 1, 0.8, "")]}],
    )
    found = replanning.replan(made)
    assert problems.names(made, found.routing) == {"j0-0": "s0", "j1-0": "s1"}
    assert found.moves == ()


def test_a_move_that_gains_is_made_once_and_not_back() -> None:
    jobs = [{"work": 5.0, "compute": 0.5, "flows": [(0, 1, 0.9, "s0")]} for _ in range(2)]
    made = problems.problem(jobs)
    found = replanning.replan(made)
    assert len(found.moves) == 1
    assert found.moves[0].gain > 0.002 * 10 / 1.4
    after = [
        {**job, "flows": [(0, 1, 0.9, name)]}
        for job, name in zip(jobs, problems.names(made, found.routing).values(), strict=True)
    ]
    assert replanning.replan(problems.problem(after)).moves == ()


def test_what_gains_too_little_stays() -> None:
    made = problems.problem(
        [{"work": 5.0, "compute": 0.5, "flows": [(0, 1, 0.9, "s0")]} for _ in range(2)]
    )
    assert replanning.replan(made, min_gain_fraction=1.0).moves == ()


def test_a_flow_whose_path_has_failed_is_placed_again() -> None:
    jobs = [{"flows": [(0, 1, 0.5, "s0"), (2, 1, 0.5, "s1")]}]
    made = problems.problem(jobs, dead=("t0>s0",))
    found = replanning.replan(made)
    assert problems.names(made, found.routing) == {"j0-0": "s1", "j0-1": "s1"}
    assert len(found.placed) == 1


def test_the_default_does_not_want_to_move_what_it_has_just_chosen() -> None:
    jobs = [{"work": 1.0 + n, "flows": [(n % 3, (n + 1) % 3, 0.3, "")]} for n in range(6)]
    made = problems.problem(jobs)
    chosen = problems.names(made, pair_search.choose(made))
    for index, job in enumerate(jobs):
        src, dst, size, _ = job["flows"][0]  # type: ignore[index]
        job["flows"] = [(src, dst, size, chosen[f"j{index}-0"])]
    assert replanning.replan(problems.problem(jobs)).moves == ()
