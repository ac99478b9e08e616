"""What was measured of jobs, as metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from prometheus_client import core
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from hostcc.answers.fields import metrics_of
from hostcc.answers.jobs import ProfileFigures
from hostcc.daemon.profiling.gauges import gauges
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.profiles import JobFacts, JobKnowledge, known
from hostcc.daemon.profiling.tracks import Track
from hostcc.measure.series import ByteSeries, part
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit


def profiled(name: str, flops: float | None = None) -> JobKnowledge:
    """100 ms, 40,000 bytes."""
    track, made = Track(name), regular(100, 40)
    for at in range(0, len(made), 1000):
        track.take(part(made, at, at + 1000))
        track.analyse(track.collect())
    return known(LiveJob(name, flops=flops), track, JobFacts())


def page(jobs: dict[str, JobKnowledge]) -> str:
    class Collector:
        def collect(self) -> Any:
            return gauges(core, jobs)

    registry = CollectorRegistry()
    registry.register(Collector())
    return generate_latest(registry).decode()


def samples(text: str) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def test_what_is_known_of_a_job() -> None:
    every = samples(page({"a": profiled("a", 5e12)}))
    got = {name.removesuffix('{training_job="a"}'): value for name, value in every.items()}
    assert got["hostcc_profile_iteration_seconds"] == pytest.approx(0.1, rel=0.01)
    assert got["hostcc_profile_iteration_bytes"] == pytest.approx(40_000, rel=0.01)
    assert 0.5 < got["hostcc_profile_confidence"] <= 1
    assert got["hostcc_profile_work_flop"] == 5e12
    assert got["hostcc_profile_pattern_changes_total"] == 0
    # No link's speed and no GPU's activity is known.
    assert not any("communication" in name or "overlap" in name for name in got)


def test_a_job_without_a_period_has_no_number() -> None:
    track, flat = Track("b"), np.full(2000, 500)
    track.take(ByteSeries(MS, 0, flat, flat))
    track.analyse(track.collect())
    got = samples(page({"b": known(LiveJob("b"), track, JobFacts())}))
    assert got['hostcc_profile_confidence{training_job="b"}'] == 0
    assert not any("iteration" in name for name in got)


def test_labels_are_jobs_only() -> None:
    jobs = {name: profiled(name) for name in ("a", "b", "c")}
    got = samples(page(jobs))
    assert {name.partition("{")[2] for name in got} == {f'training_job="{name}"}}' for name in jobs}
    assert len(got) <= len(jobs) * len(metrics_of(ProfileFigures))
