"""What is done with a flow in each situation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.daemon.steering.decision import (
    ELSEWHERE,
    MOVING,
    ON_ECMP,
    ON_PLAN,
    Situation,
    new_connections,
    step,
)
from hostcc.model import Path, PathTable

pytestmark = pytest.mark.unit

PORTS = (61000, 65535)
TABLE = PathTable(
    "a", "b", (Path("p1", ("x",), (40000, 61000, 61002)), Path("p2", ("y",), (61001, 61003)))
)
FLOW = Situation(
    planned="p2", table=TABLE, own="p1", wire="p1", port=0, moving=False, peer_gone=False
)


def anything(_: int) -> bool:
    return True


def test_a_flow_is_moved_to_a_free_port_of_its_path() -> None:
    assert step(FLOW, anything, PORTS).port == 61001
    assert step(FLOW, lambda port: port != 61001, PORTS).port == 61003
    assert step(replace(FLOW, planned="p1", own="p2"), anything, PORTS).port == 61000


def test_it_stays_where_it_is_right() -> None:
    for now in (
        replace(FLOW, planned="p1"),
        replace(FLOW, port=61001, wire="p2"),
    ):
        found = step(now, anything, PORTS)
        assert (found.state, found.revert, found.port) == (ON_PLAN, False, 0)


def test_its_own_port_is_preferred() -> None:
    now = replace(FLOW, planned="p1", port=61001, wire="p2")
    assert step(now, anything, PORTS).revert
    assert step(replace(FLOW, planned="p1", moving=True), anything, PORTS).revert


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"peer_gone": True}, "the agent at the other end is gone"),
        ({"held_back": "went back: loss"}, "went back: loss"),
        ({"table": None}, "its paths are not known"),
        ({"planned": "p3"}, "the planned path is not among those found"),
    ],
)
def test_doubt_means_ecmp(change: dict[str, object], why: str) -> None:
    at_rest, moved = replace(FLOW, **change), replace(FLOW, port=61000, **change)  # type: ignore[arg-type]
    assert (step(at_rest, anything, PORTS).state, step(at_rest, anything, PORTS).why) == (
        ON_ECMP,
        why,
    )
    assert not step(at_rest, anything, PORTS).revert
    assert step(moved, anything, PORTS).revert
    assert step(moved, anything, PORTS).port == 0


def test_a_plan_that_leaves_a_flow_where_it_was_does_not_take_it_back() -> None:
    """The plan before had moved it, which the view did not say yet."""
    moved = replace(FLOW, planned="p1", own="p1", wire="p2", port=61001, moved_since=True)
    found = step(moved, anything, PORTS)
    assert (found.state, found.revert, found.port) == (ELSEWHERE, False, 0)
    assert step(replace(moved, moved_since=False), anything, PORTS).revert
    elsewhere = replace(moved, own="p2", wire="p2", port=0)
    assert step(elsewhere, anything, PORTS).state == ON_ECMP
    assert step(replace(elsewhere, wire=""), anything, PORTS).port == 61000  # nobody knows where
    assert step(replace(moved, wire="p1", own="p2"), anything, PORTS).state == ON_PLAN
    assert step(replace(moved, peer_gone=True), anything, PORTS).revert


def test_a_flow_that_no_plan_names_waits() -> None:
    found = step(replace(FLOW, planned="", port=61000), anything, PORTS)
    assert (found.state, found.revert) == (ELSEWHERE, False)
    assert step(replace(FLOW, planned=""), anything, PORTS).state == ON_ECMP


def test_nothing_happens_while_it_moves_or_ports_are_short() -> None:
    assert step(replace(FLOW, moving=True), anything, PORTS) == replace(
        step(replace(FLOW, moving=True), anything, PORTS), state=MOVING, port=0
    )
    short = step(FLOW, lambda _: False, PORTS)
    assert (short.state, short.port, short.revert) == (ON_ECMP, 0, False)


def test_new_connections_begin_on_the_planned_path_where_that_is_one() -> None:
    one, two = ("10.0.0.2", 5301), ("10.0.0.2", 5302)
    flows = [(one, "p1", TABLE), (one, "p1", TABLE), (two, "p1", TABLE), (two, "p2", TABLE)]
    assert new_connections(flows, frozenset({61000}), 8, PORTS) == {one: (61002,)}
    assert new_connections(flows, frozenset({61000, 61002}), 8, PORTS) == {}
