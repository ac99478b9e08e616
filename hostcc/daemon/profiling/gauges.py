"""Exports what was measured of jobs as Prometheus metrics: labels per job, never per flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostcc.answers.fields import JOB_LABEL
from hostcc.daemon.profiling.profiles import JobKnowledge

FAMILIES = {
    "confidence": "How sure the measured period is, 0 to 1; 0: not periodic",
    "iteration_seconds": "Measured length of a typical iteration",
    "iteration_bytes": "Sent and received in an iteration, without the background",
    "communication_seconds": "Longest time that an iteration's bytes need on a link, t",
    "overlap_ratio": "Share of the communication that is hidden under computing",
    "work_flop": "FLOP of an iteration on this host, W",
    "intensity": "GPU intensity W/t, FLOP per second of communication",
    "pattern_changes_total": "Changes of the pattern that were noticed",
}
"""Name of the metric after `hostcc_profile_` -> help.  What is not known has no sample."""


def gauges(core: Any, jobs: Mapping[str, JobKnowledge]) -> Iterator[Any]:
    """Make the families; `core`: module prometheus_client.core.

    Each has as many series as jobs are profiled, at most `measure.jobs_max`.
    """
    values = {name: _values(known) for name, known in jobs.items()}
    for key, words in FAMILIES.items():
        counted = key.endswith("_total")
        kind = core.CounterMetricFamily if counted else core.GaugeMetricFamily
        family = kind(f"hostcc_profile_{key.removesuffix('_total')}", words, labels=[JOB_LABEL])
        for name, row in values.items():
            if row[key] is not None:
                family.add_metric([name], row[key])
        yield family


def _values(of: JobKnowledge) -> dict[str, float | None]:
    measured, watch = of.measured, of.track.watch
    return {
        "confidence": measured.confidence,
        "iteration_seconds": measured.period_s,
        "iteration_bytes": measured.bytes_per_iteration,
        "communication_seconds": measured.link_time_s,
        "overlap_ratio": measured.overlap.ratio,
        "work_flop": of.work.flop,
        "intensity": measured.intensity,
        "pattern_changes_total": float(watch.changes) if watch is not None else None,
    }
