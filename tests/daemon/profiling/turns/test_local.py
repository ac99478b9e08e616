"""Whose turn it is to be profiled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.daemon.profiling.turns.local import (
    ENOUGH,
    REST,
    UNFINISHED,
    Candidate,
    Turns,
    preferred,
    step,
    tie_break_hash,
)

pytestmark = pytest.mark.unit

NEW = Candidate(sending=True, confidence=0.0, changes=0)
KNOWN = NEW._replace(confidence=ENOUGH)
SILENT = NEW._replace(sending=False)
LONGEST = 30.0


def test_one_after_the_other_in_the_same_order_on_every_host() -> None:
    first, last = sorted("ab", key=tie_break_hash)
    for jobs in ({"a": NEW, "b": NEW}, {"b": NEW, "a": NEW}):
        turns = step(Turns(), 10.0, jobs, LONGEST)
        assert (turns.job, turns.since_s) == (first, 10.0)
        assert step(turns, 20.0, jobs, LONGEST).job == first
        turns = step(turns, 21.0, {**jobs, first: KNOWN}, LONGEST)
        assert (turns.job, turns.since_s) == (last, 21.0)


def test_a_turn_ends_with_its_time_and_is_not_given_again() -> None:
    turns = step(Turns(), 0.0, {"a": NEW}, LONGEST)
    turns = step(turns, LONGEST, {"a": NEW}, LONGEST)
    assert turns.job == ""
    assert step(turns, 10_000.0, {"a": NEW}, LONGEST).job == ""


def test_a_change_earns_another_turn_after_a_rest() -> None:
    turns = step(Turns(), 0.0, {"a": NEW}, LONGEST)
    turns = step(turns, 5.0, {"a": KNOWN}, LONGEST)
    changed = {"a": NEW._replace(changes=1)}
    assert step(turns, 5.0 + REST * LONGEST - 1, changed, LONGEST).job == ""
    assert step(turns, 5.0 + REST * LONGEST, changed, LONGEST).job == "a"


def test_who_falls_silent_gets_a_few_more() -> None:
    turns, now, given_ = Turns(), 0.0, 0
    for _ in range(10):
        turns = step(turns, now, {"a": NEW}, LONGEST)
        given_ += turns.job == "a"
        now += 1
        turns = step(turns, now, {"a": SILENT}, LONGEST)
        assert turns.job == ""
        now += LONGEST
    assert given_ == UNFINISHED


def test_nobody_goes_first_alone_or_when_it_is_not_wanted() -> None:
    alone, two = {"a": NEW}, {"a": NEW, "b": KNOWN}
    turns = step(Turns(), 0.0, two, LONGEST)
    assert preferred(turns, two) == "a"
    assert preferred(turns, alone) == ""
    assert preferred(turns, alone, crowded=True) == "a"
    assert preferred(turns, {"a": NEW, "b": SILENT}) == ""
    assert step(Turns(), 0.0, two, 0.0).job == ""


def test_a_job_that_ended_has_no_turn() -> None:
    turns = step(Turns(), 0.0, {"a": NEW}, LONGEST)
    assert step(turns, 1.0, {}, LONGEST) == Turns()


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abc"),
            st.builds(
                Candidate,
                sending=st.booleans(),
                confidence=st.floats(0, 1),
                changes=st.integers(0, 3),
            ),
        ),
        max_size=60,
    )
)
def test_never_longer_than_allowed(moments: list[dict[str, Candidate]]) -> None:
    turns = Turns()
    for now, jobs in enumerate(moments):
        turns = step(turns, float(now), jobs, 5.0)
        assert not turns.job or (turns.job in jobs and now - turns.since_s < 5.0)
        assert preferred(turns, jobs) in ("", turns.job)
        assert set(turns.had) <= set(jobs)
