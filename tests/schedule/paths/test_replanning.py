"""One plan after another: who stays, who is placed, who moves and what that gains."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given

from hostcc.model import ClusterView
from hostcc.schedule.paths import crux, pair_search, replanning
from hostcc.schedule.paths.throughput import throughput
from hostcc.schedule.problem import Floats, Problem, build
from tests.schedule.paths import problems

pytestmark = pytest.mark.unit


@given(problems.views())
def test_flows_stay_unless_a_gain_is_stated(view: ClusterView) -> None:
    made = build(view)
    found = replanning.replan(made)
    assert problems.valid(made, found.routing)
    assert set(found.placed.tolist()) == set(np.flatnonzero(made.flow_path < 0).tolist())
    moved = {flow: move for move in found.moves for flow in move.flows}
    assert len(moved) == sum(len(move.flows) for move in found.moves)
    for flow, before in enumerate(made.flow_path.tolist()):
        if before >= 0:
            assert (found.routing[flow] != before) == (flow in moved)
    assert all(move.gain > 0 for move in found.moves)
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


PREDICTED, SIMULATED = replanning.PREDICTED, replanning.SIMULATED


def candidates(moves: tuple[int, ...], load: Floats) -> replanning.Candidates:
    none = np.zeros(0, np.int64)
    return replanning.Candidates(none, load, load, np.array(moves), none)


@pytest.mark.parametrize(
    ("score", "moves", "margins", "chosen"),
    [
        # Nearly as good as Crux's and the blank sheet's: it stays.
        ((1.0, 1.0, 1.004, 1.02), (0, 3, 3, 1), SIMULATED, 0),
        ((0.996, 1.0, 1.0, 0.999), (0, 3, 4, 1), SIMULATED, 0),
        ((0.991, 1.0, 1.0), (0, 3, 4), PREDICTED, 0),
        # What is near to it does not make it leave.
        ((0.996, 1.0, 1.0, 1.1), (0, 3, 4, 1), SIMULATED, 0),
        # Less than Crux's, and as few moves as do.
        ((0.985, 1.0, 1.0, 0.997), (0, 3, 4, 1), SIMULATED, 1),
        ((0.985, 1.0, 1.0, 0.999), (0, 3, 4, 1), SIMULATED, 3),
        ((0.985, 1.0, 1.0), (0, 1, 3), PREDICTED, 1),
        # Nearly as good as the best, with the fewest moves.
        ((0.9, 1.0, 1.02, 1.018), (0, 3, 3, 1), SIMULATED, 3),
        # The blank sheet's is better than Crux's, but not clearly, or not at all.
        ((0.9, 1.0, 1.008), (0, 1, 3), PREDICTED, 1),
        ((1.0, 1.0, 1.008), (0, 3, 1), PREDICTED, 0),
        ((0.9, 1.0, 1.001), (0, 3, 1), SIMULATED, 1),
        ((0.9, 1.0, 0.999), (0, 3, 1), SIMULATED, 1),
        # Clearly better.
        ((1.0, 1.0, 1.02), (0, 3, 1), PREDICTED, 2),
        # Nothing can be gained.
        ((1.0,), (0,), PREDICTED, 0),
    ],
)
def test_choice(
    score: tuple[float, ...], moves: tuple[int, ...], margins: replanning.Margins, chosen: int
) -> None:
    found = candidates(moves, np.ones(len(moves)))
    assert replanning.choose(np.array(score), found, margins) == chosen


@pytest.mark.parametrize(
    ("score", "load", "chosen"),
    [
        ((0.999, 1.0, 1.0), (0.9, 0.9, 0.9), 0),
        ((0.999, 1.0, 1.0), (1.0, 0.9, 0.9), 1),
        ((1.001, 1.0, 1.0), (1.0, 0.9, 0.9), 0),
        ((0.9, 1.0, 1.0, 0.999), (0.9, 0.9, 0.9, 1.0), 1),
    ],
)
def test_a_routing_that_fills_links_more_has_to_do_no_less_than_crux(
    score: tuple[float, ...], load: tuple[float, ...], chosen: int
) -> None:
    found = candidates((0, 3, 3, 1)[: len(load)], np.array(load))
    for margins in (PREDICTED, SIMULATED):
        assert replanning.choose(np.array(score), found, margins) == chosen


def test_scores_are_relative_to_crux() -> None:
    assert replanning.scores(np.array([8.0, 10.0, 12.0])).tolist() == [0.8, 1.0, 1.2]
    assert replanning.scores(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]


def test_what_gains_too_little_stays() -> None:
    made = problems.problem(
        [{"work": 5.0, "compute": 100.0, "flows": [(0, 1, 0.4, "s0")]} for _ in range(2)]
    )
    assert replanning.replan(made).moves == ()


def test_a_flow_whose_path_has_failed_is_placed_again() -> None:
    jobs = [{"flows": [(0, 1, 0.5, "s0"), (2, 1, 0.5, "s1")]}]
    made = problems.problem(jobs, dead=("t0>s0",))
    found = replanning.replan(made)
    # The other makes room: on one path both would take twice as long.
    assert problems.names(made, found.routing) == {"j0-0": "s1", "j0-1": "s0"}
    assert len(found.placed) == 1
    assert [move.flows for move in found.moves] == [(1,)]


def test_the_default_does_not_want_to_move_what_it_has_just_chosen() -> None:
    jobs = [{"work": 1.0 + n, "flows": [(n % 3, (n + 1) % 3, 0.3, "")]} for n in range(6)]
    made = problems.problem(jobs)
    chosen = problems.names(made, pair_search.choose(made))
    for index, job in enumerate(jobs):
        src, dst, size, _ = job["flows"][0]  # type: ignore[index]
        job["flows"] = [(src, dst, size, chosen[f"j{index}-0"])]
    assert replanning.replan(problems.problem(jobs)).moves == ()


def carried_out(made: Problem) -> Problem:
    """The same problem once all flows are where a plan wants them."""
    return replace(made, flow_path=replanning.replan(made).routing)


def test_nine_jobs_on_one_of_three_spines_spread() -> None:
    jobs = [
        {"compute": 0.8, "flows": [(0, 1, 0.2, "s0" if n < 7 else f"s{n - 6}")]} for n in range(9)
    ]
    made = carried_out(problems.problem(jobs, spines=3))
    on = Counter(problems.names(made, made.flow_path).values())
    assert sorted(on.values()) == [3, 3, 3]
    assert replanning.replan(made).moves == ()


@pytest.mark.parametrize("start", ["s0", "s1"])
@pytest.mark.parametrize("size", [0.1, 0.4, 0.9])
def test_all_on_one_spine_end_no_worse_than_crux_and_on_a_blank_sheet(
    start: str, size: float
) -> None:
    chance = Random(7)
    jobs = [
        {
            "compute": chance.uniform(0.5, 1.5),
            "work": chance.uniform(1, 4),
            "flows": [(a, b, size, start), (b, a, size, start)],
        }
        for a, b in (chance.sample(range(4), 2) for _ in range(20))
    ]
    made = problems.problem(jobs, tors=4, spines=3)
    after = carried_out(made)
    blank = replace(made, flow_path=np.full(made.flow_count, -1))
    least = max(throughput(made, crux.crux(made)), throughput(made, pair_search.choose(blank)))
    assert throughput(made, after.flow_path) >= 0.995 * least
    assert replanning.replan(after).moves == ()


def test_more_moves_than_a_plan_may_make_of_very_many_flows_are_made_in_stages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("MAX_MOVES", 2), ("MAX_COMPARED_FLOWS", 0), ("SERVED_BADLY", 0.0)):
        monkeypatch.setattr(replanning, name, value)
    jobs = [{"compute": 0.8, "flows": [(0, 1, 0.2, "s0")]} for _ in range(9)]
    made = problems.problem(jobs, spines=3)
    best = made.table_start[made.flow_table] + np.arange(9) % 3
    monkeypatch.setattr(pair_search, "improve", lambda *_: best)
    done = [throughput(made, made.flow_path)]
    while (found := replanning.replan(made)).moves:
        assert sum(len(move.flows) for move in found.moves) <= 2
        made = replace(made, flow_path=found.routing)
        done.append(throughput(made, made.flow_path))
        assert done[-1] > done[-2]
    assert made.flow_path.tolist() == best.tolist()
    assert len(done) == 4


def test_all_moves_to_a_better_routing_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replanning, "MAX_MOVES", 2)
    jobs = [{"compute": 0.8, "flows": [(0, 1, 0.2, "s0")]} for _ in range(9)]
    made = problems.problem(jobs, spines=3)
    found = replanning.replan(made)
    assert [len(move.flows) for move in found.moves] == [6]
    assert replanning.replan(replace(made, flow_path=found.routing)).moves == ()


def test_of_routings_that_seem_alike_one_with_fuller_links_is_left() -> None:
    found = replanning.Candidates(
        routings=np.zeros((3, 1), np.int64),
        predicted=np.array([0.995, 1.0, 1.0]),
        load=np.array([1.03, 1.0, 1.0]),
        moved=np.array([0, 1, 1]),
        placed=np.zeros(0, np.int64),
    )
    alike = replace(found, load=np.array([1.01, 1.0, 1.0]))
    score = replanning.scores(found.predicted)
    assert replanning.choose(score, found, replanning.PREDICTED) == replanning.USUAL
    assert replanning.choose(score, alike, replanning.PREDICTED) == 0


def test_flows_without_tables_are_left_out() -> None:
    view = problems.view([{"flows": [(0, 1, 0.5, "s0")]}, {"flows": [(1, 2, 0.5, "s0")]}])
    made = build(replace(view, tables=view.tables[:1]))
    assert replanning.replan(made).routing.tolist() == made.flow_path.tolist()
    assert made.flow_count == 1
