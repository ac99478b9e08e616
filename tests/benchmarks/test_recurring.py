"""A job that runs twice: its goals, and one run of it."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks import recurring
from benchmarks.context import Context
from benchmarks.recurring import Figures, Life, figures, judge

FIRST = Life(3.0, 20.0, 20.0, 4, remembered=False)
AGAIN = Life(1.0, 1.0, 18.0, 1, remembered=True)


def met(found: Figures) -> list[bool]:
    return [verdict.met for verdict in judge([found], 2.0)]


@pytest.mark.unit
def test_the_second_run_is_held_against_an_iteration() -> None:
    found = figures(FIRST, AGAIN)
    assert (found.ratio, found.remembered) == (0.05, True)
    assert met(found) == [True, True]
    assert met(msgspec.structs.replace(found, again_known_s=2.6)) == [False, True]


@pytest.mark.unit
def test_a_job_that_is_not_recognised_is_no_success() -> None:
    assert met(figures(FIRST, FIRST)) == [False, False]
    assert met(figures(AGAIN, AGAIN))[1] is False


@pytest.mark.kernel
def test_a_job_is_recognised_under_a_restarted_agent() -> None:
    found = recurring.measure(0.5, Context(1, None))
    assert found.remembered
    assert 0 < found.again_published_s <= found.again_known_s
