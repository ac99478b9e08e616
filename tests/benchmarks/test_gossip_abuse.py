"""What befalls an agent, and what must not come of it."""

from __future__ import annotations

import statistics

import msgspec
import pytest

from benchmarks.gossip_abuse import SHORTEST_PAUSE_S, Outcome, judge, pauses, rows

pytestmark = pytest.mark.unit
GOOD = Outcome(
    pauses=3, paused_s=9.0, agents_ended=0, process_restarts=1, refused=40, heard_again=True,
    child_bytes=33_000_000, agent_bytes=79_000_000,
)  # fmt: skip


def test_pauses_are_of_all_lengths_and_the_same_by_seed() -> None:
    lengths = pauses(1, 200, 30.0)
    assert lengths == pauses(1, 200, 30.0) != pauses(2, 200, 30.0)
    assert min(lengths) >= SHORTEST_PAUSE_S
    assert max(lengths) <= 30.0
    assert 2.0 < statistics.median(lengths) < 4.5  # halfway between the ends, by their logarithms


def test_an_agent_that_ends_and_one_that_is_not_heard_of_are_faults() -> None:
    assert [one.met for one in judge(GOOD)] == [True, True]
    ended = msgspec.structs.replace(GOOD, agents_ended=1, heard_again=False)
    assert [one.met for one in judge(ended)] == [False, False]
    assert {"what": "pauses", "measured": 3} in rows(GOOD)
