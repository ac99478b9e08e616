"""A job that runs twice: its goals, and one run of it."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks import recurring
from benchmarks.context import Context
from benchmarks.recurring import Figures, Life, figures, judge

FIRST = Life(3.0, 20.0, 4.0, 5.0, 6.0, 4, remembered=False)
AGAIN = Life(1.0, 1.0, 1.2, 1.5, 1.8, 1, remembered=True)


def met(found: Figures) -> list[bool]:
    return [verdict.met for verdict in judge([found], 2.0)]


@pytest.mark.unit
def test_the_second_run_is_held_against_an_iteration() -> None:
    slow = msgspec.structs.replace(AGAIN, path_s=9.0)
    found = figures(FIRST, [slow, AGAIN, AGAIN])
    assert (found.ratio, found.remembered) == (0.05, True)
    assert met(found) == [True, True, True]
    assert met(msgspec.structs.replace(found, again_known_s=2.6)) == [False, True, True]
    assert met(msgspec.structs.replace(found, again_path_s=2.1)) == [True, False, True]


@pytest.mark.unit
def test_a_job_that_is_not_recognised_is_no_success() -> None:
    assert met(figures(FIRST, [FIRST])) == [False, False, False]
    assert met(figures(AGAIN, [AGAIN]))[2] is False
    assert met(figures(FIRST, [AGAIN, AGAIN, FIRST]))[2] is False


@pytest.mark.kernel
def test_a_job_is_recognised_and_moved_under_a_restarted_agent() -> None:
    # With shorter iterations a slow machine has measured them again before they are published.
    found = recurring.measure(2.0, 2, Context(1, None))
    assert found.remembered
    assert 0 < found.again_published_s <= found.again_known_s
    assert found.again_published_s <= found.again_flows_s < found.again_plan_s
    assert found.again_plan_s < found.again_path_s
