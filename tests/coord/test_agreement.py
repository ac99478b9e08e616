"""When a plan is followed: agreement, waiting, views that keep changing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.agreement import Activation, Agreement, step

pytestmark = pytest.mark.unit

WAIT_S = 5.0


def at(
    state: Agreement, now: float, held: str, reports: dict[str, str], *concerned: str
) -> tuple[Agreement, Activation | None]:
    return step(state, now, held, reports, concerned, WAIT_S)


def test_alone_at_once() -> None:
    state, activation = at(Agreement(), 1.0, "x", {})
    assert activation == Activation(1, "x", 1.0, agreed=True)
    assert (state.active, state.agreed) == ("x", True)


def test_when_all_report_the_same() -> None:
    state, activation = at(Agreement(), 1.0, "x", {"a": "x"}, "a", "b")
    assert activation is None
    assert state.missing == ("b",)
    state, activation = at(state, 2.0, "x", {"a": "x", "b": "x"}, "a", "b")
    assert activation == Activation(1, "x", 2.0, agreed=True)


def test_after_a_while_in_any_case_and_agreed_later() -> None:
    state, activation = at(Agreement(), 1.0, "x", {}, "a")
    state, activation = at(state, 5.9, "x", {}, "a")
    assert activation is None
    state, activation = at(state, 6.0, "x", {"a": "y"}, "a")
    assert activation == Activation(1, "x", 6.0, agreed=False, missing=("a",))
    assert not state.agreed
    state, activation = at(state, 7.0, "x", {"a": "y"}, "a")
    assert activation is None
    state, activation = at(state, 8.0, "x", {"a": "x"}, "a")
    assert activation == Activation(2, "x", 8.0, agreed=True)
    assert at(state, 9.0, "x", {}, "a")[1] is None


def test_each_view_has_its_own_wait() -> None:
    state, _ = at(Agreement(), 0.0, "x", {}, "a")
    state, activation = at(state, 4.0, "y", {}, "a")
    state, activation = at(state, 8.9, "y", {}, "a")
    assert activation is None
    _, activation = at(state, 9.0, "y", {}, "a")
    assert activation is not None
    assert activation.digest == "y"


def test_a_view_that_keeps_changing_is_followed_all_the_same() -> None:
    state = Agreement()
    times = []
    for second in range(60):
        state, activation = at(state, float(second), f"v{second}", {}, "a")
        if activation is not None:
            times.append(activation.at)
    assert times[0] == 3 * WAIT_S
    assert len(times) >= 3


def test_back_to_the_active_view() -> None:
    state, _ = at(Agreement(), 0.0, "x", {})
    state, activation = at(state, 1.0, "y", {}, "a")
    assert activation is None
    state, activation = at(state, 2.0, "x", {}, "a")
    assert activation is None
    assert state.active == "x"


HELD = st.sampled_from(["x", "y"])


@given(st.lists(st.tuples(HELD, HELD, st.booleans(), st.floats(0.1, 3)), max_size=60))
def test_never_agreed_without_agreement(story: list[tuple[str, str, bool, float]]) -> None:
    state, now = Agreement(), 0.0
    numbers = []
    for held, report, concerned, pause in story:
        now += pause
        names = ("a",) if concerned else ()
        state, activation = at(state, now, held, {"a": report}, *names)
        if activation is None:
            continue
        numbers.append(activation.number)
        assert activation.digest == held == state.active
        assert activation.agreed == (not concerned or report == held)
    assert numbers == list(range(1, len(numbers) + 1))
