"""When a job is silent next, and moves that wait for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.daemon.steering.pauses import (
    EARLIEST_PART,
    LATEST_PART,
    MAX_ITERATIONS_AGO,
    MIN_CONFIDENCE,
    MIN_PAUSE_S,
    PendingMoves,
    next_pause,
    wait_s,
)
from hostcc.model import JobProfile
from hostcc.paths.steering_messages import FlowKey

pytestmark = pytest.mark.unit

KNOWN = JobProfile(
    "train", 0.4, 0.4, 1.0, 8.0, period_s=1.0, phase_s=0.25, at=1000.0, confidence=0.9
)
FLOW = FlowKey("10.0.0.1", "10.0.0.2", 40000, 5301)
SECONDS = st.floats(1e-3, 100.0)


@pytest.mark.parametrize(
    ("now", "wait"),
    [(1000.25, 0.04), (1000.29, 0.0), (1000.449, 0.0), (1000.46, 0.83), (1001.0, 0.29)],
)
def test_a_move_waits_for_the_first_half_of_a_pause(now: float, wait: float) -> None:
    assert wait_s(KNOWN, now) == pytest.approx(wait, abs=1e-6)


@given(SECONDS, SECONDS, st.floats(0.0, 1.0), st.floats(0.0, 2e9))
def test_it_begins_within_a_pause(period: float, phase: float, share: float, now: float) -> None:
    silent = share * period
    wait = next_pause(period, phase, silent, now)
    assert 0 <= wait <= period
    if silent >= MIN_PAUSE_S and wait:
        into = (now + wait - phase) % period
        # Of a clock that counts 10^9 s, 10^-6 s are lost.
        assert EARLIEST_PART * silent - 1e-5 <= into <= LATEST_PART * silent + 1e-5


@pytest.mark.parametrize(
    "job",
    [
        None,
        replace(KNOWN, confidence=MIN_CONFIDENCE - 0.01),
        replace(KNOWN, period_s=0.0),
        replace(KNOWN, comm_start_s=0.0),
        replace(KNOWN, at=1000.0 - MAX_ITERATIONS_AGO),
        replace(KNOWN, at=1001.0),
        replace(KNOWN, period_s=30.0, comm_start_s=15.0),
    ],
    ids=["unknown", "unsure", "no period", "no pause", "old", "of the future", "far"],
)
def test_where_nothing_is_known_it_moves_at_once(job: JobProfile | None) -> None:
    assert wait_s(job, 1000.8) == 0


@pytest.mark.asyncio
async def test_what_waits_goes_once_unless_it_is_ended() -> None:
    waiting, gone = PendingMoves(), list[str]()
    waiting.begin(FLOW, 61001, 0.0, lambda: gone.append("at once"))
    assert (gone, len(waiting)) == (["at once"], 0)
    waiting.begin(FLOW, 61001, 30.0, lambda: gone.append("replaced"))
    waiting.begin(FLOW, 61002, 0.01, lambda: gone.append("later"))
    assert (waiting.port(FLOW), waiting.taken(61001), waiting.taken(61002)) == (61002, False, True)
    await asyncio.sleep(0.05)
    assert (gone, waiting.port(FLOW)) == (["at once", "later"], 0)
    waiting.begin(FLOW, 61001, 0.01, lambda: gone.append("ended"))
    waiting.end_all()
    await asyncio.sleep(0.05)
    assert gone == ["at once", "later"]
