"""Exports what was measured of jobs as Prometheus metrics: labels per job, never per flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostcc.answers.fields import JOB_LABEL, family, metrics_of
from hostcc.answers.jobs import ProfileFigures
from hostcc.daemon.profiling.profiles import JobKnowledge


def gauges(core: Any, jobs: Mapping[str, JobKnowledge]) -> Iterator[Any]:
    """Make the families; `core`: module prometheus_client.core.

    Each has as many series as jobs are profiled, at most `measure.jobs_max`; what is not known
    has no sample.
    """
    values = {name: _values(known) for name, known in jobs.items()}
    for field, metric in metrics_of(ProfileFigures).items():
        made = family(core, metric, labels=[JOB_LABEL])
        for name, row in values.items():
            if row[field] is not None:
                made.add_metric([name], row[field])
        yield made


def _values(of: JobKnowledge) -> dict[str, float | None]:
    """By field of ProfileFigures, without what takes longer to make."""
    measured, watch = of.measured, of.track.watch
    return {
        "confidence": measured.confidence,
        "period_s": measured.period_s,
        "bytes_per_iteration": measured.bytes_per_iteration,
        "link_time_s": measured.link_time_s,
        "overlap": measured.overlap.ratio,
        "flop": of.work.flop,
        "intensity": measured.intensity,
        "changes": float(watch.changes) if watch is not None else None,
    }
