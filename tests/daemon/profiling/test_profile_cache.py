"""What is told of jobs is put together anew when it may be something else."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.profile_cache import PROFILE_MAX_AGE_S, ProfileCache
from hostcc.daemon.profiling.tracks import Track
from hostcc.model import JobProfile
from tests.measure.jobs import regular

pytestmark = pytest.mark.unit

JOB = LiveJob("a")


class Stage:
    """A known job of 100 ms, and how often its profile was put together."""

    def __init__(self, iterations: int = 40) -> None:
        self.told, self.track, self.made = ProfileCache(), Track("a"), 0
        self.track.take(regular(100, iterations))
        self.track.analyse(self.track.collect())

    def make(self) -> JobProfile:
        self.made += 1
        return JobProfile("a", 0.1, 0.1, float(self.made), 1.0)

    def asks(self, now_s: float, job: LiveJob = JOB, reaches: object = ()) -> int:
        """Which one is told."""
        return int(
            cast("JobProfile", self.told.profile(job, self.track, reaches, now_s, self.make)).work
        )


def test_a_known_job_is_asked_seldom() -> None:
    stage = Stage()
    assert stage.track.known
    assert [stage.asks(0.5 * n) for n in range(39)] == [1] * 39
    assert stage.asks(PROFILE_MAX_AGE_S) == 2
    assert stage.asks(PROFILE_MAX_AGE_S - 1) == 3  # the clock went back


def test_what_is_something_else_is_told_at_once() -> None:
    stage = Stage()
    assert stage.asks(0.0) == 1
    assert stage.asks(0.1, LiveJob("a", weight=2.0)) == 2
    assert stage.asks(0.2, LiveJob("a", weight=2.0), ("eth1",)) == 3
    assert stage.asks(0.3, LiveJob("a", weight=2.0), ("eth1",)) == 3
    watch = stage.track.watch
    assert watch is not None
    assert watch.found.period_s is not None
    longer = replace(watch.found, period_s=1.1 * watch.found.period_s)
    stage.track.watch = replace(watch, found=longer)
    assert stage.asks(0.4, LiveJob("a", weight=2.0), ("eth1",)) == 4
    stage.track = replace(stage.track)  # a new life of the same job
    assert stage.asks(0.5, LiveJob("a", weight=2.0), ("eth1",)) == 5


def test_a_job_that_is_not_known_is_asked_each_time() -> None:
    stage = Stage(iterations=2)
    assert not stage.track.known
    assert [stage.asks(0.5 * n) for n in range(3)] == [1, 2, 3]


def test_jobs_that_are_gone_are_forgotten() -> None:
    stage = Stage()
    stage.asks(0.0)
    stage.told.keep(["b"])
    assert stage.asks(0.1) == 2
