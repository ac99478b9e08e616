"""What `hostcc sim describe` says of a trace, beside what was published of the Lingjun trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hostcc.errors import InputError
from hostcc.sim import fabrics
from hostcc.sim.released import Trace, read_rows, trace_of
from hostcc.sim.trace_profile import TraceProfile, profile_of
from hostcc.sim.trace_timeline import Timeline, timeline

SCHEMA = "hostcc.sim-trace/1"
SIZES = (1, 4, 8, 64, 128, 256, 512)
"""GPUs up to which jobs are counted."""
NICS = 4
"""Of a host, each for two GPUs, as the trace is counted."""
PUBLISHED: Mapping[str, float] = {
    "job rows": 5180, "worker rows": 23742, "hosts": 847, "jobs with GPUs": 2816,
    "never ran": 803, "still running": 9, "start before submission": 1,
    "worker rows on known hosts": 20493,
    "jobs of up to 1 GPUs": 0.0984, "jobs of up to 4 GPUs": 0.2344, "jobs of up to 8 GPUs": 0.5696,
    "jobs of up to 64 GPUs": 0.9048, "jobs of up to 128 GPUs": 0.9336,
    "jobs of up to 256 GPUs": 0.9847, "jobs of up to 512 GPUs": 0.9996,
    "minutes, p25": 1, "minutes, p50": 4, "minutes, p75": 18, "minutes, p90": 165,
    "minutes, p95": 660.6, "minutes, p99": 3287.7, "minutes, max": 20631,
    "jobs on several hosts": 0.3435, "jobs below several ToRs": 0.3215, "jobs in several pods": 0,
    "jobs of 8 GPUs or more, mean": 12.3, "jobs of 8 GPUs or more, max": 37,
    "active GPUs, mean": 678, "active GPUs, max": 1536,
    "jobs at risk, mean share": 0.363,
}  # fmt: skip
"""Counts of github.com/alibaba/alibaba-lingjun-dataset-2023; over time Crux (SIGCOMM'24), figures
5 and 6. Shares of jobs by size are of those with GPUs."""


@dataclass(frozen=True)
class Figure:
    """One figure of a trace."""

    name: str
    value: float
    published: float | None
    """Of the Lingjun trace; None: nothing was."""
    share: bool = False
    """Whether it is part of 1."""


@dataclass(frozen=True)
class Description:
    """A trace in figures."""

    trace: Trace
    profile: TraceProfile
    timeline: Timeline
    groups: Mapping[str, tuple[Figure, ...]]

    def answer(self) -> dict[str, Any]:
        """Return it as what is printed with --json."""
        return {
            "schema": SCHEMA,
            "replayed": len(self.trace.jobs),
            "left_out": dict(sorted(self.trace.left_out.items())),
            "rows": dict(self.trace.rows),
            "profile": asdict(self.profile),
            "figures": {name: [asdict(one) for one in own] for name, own in self.groups.items()},
        }


def describe(
    folder: Path,
    uplink: float,
    core: float,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    fabric: fabrics.Topology | None = None,
) -> Description:
    """Read a trace and count; `uplink` and `core` in bytes/s. Raises InputError.

    Links are those of the fabric `released`, hosts that `topo.csv` lacks placed by rule; or those
    of `fabric`, whose first hosts are the trace's in their order.
    """
    progress("reading", 0, 1)
    rows = read_rows(folder)
    trace, profile = trace_of(rows), profile_of(rows)
    if fabric is not None:
        topology = _fitting(fabric, len(trace.hosts))
    elif trace.hosts:
        pods, tors = [host.pod for host in trace.hosts], [host.tor for host in trace.hosts]
        topology = fabrics.released(pods, tors, uplink, core)
    else:
        topology = fabrics.Topology("released", 4, (), (), (), {})
    over_time = timeline(trace, topology, lambda done, total: progress("time", done, total))
    groups = {
        "counts": _counts(trace, profile),
        "sizes": _sizes(profile),
        "durations": _durations(profile),
        "spans": _spans(profile),
        "over time": _over_time(over_time),
    }
    return Description(trace, profile, over_time, groups)


def _fitting(fabric: fabrics.Topology, hosts: int) -> fabrics.Topology:
    """Return the fabric, if it has room for the trace's hosts.  Raises InputError."""
    if fabric.nics != NICS:
        raise InputError(f"{fabric.name}: nics: expected {NICS} of a host, got {fabric.nics}")
    if len(fabric.host_tors) < hosts:
        there = len(fabric.host_tors)
        raise InputError(f"{fabric.name}: hosts: expected the trace's {hosts} or more, got {there}")
    return fabric


def _figure(name: str, value: float, *, share: bool = False) -> Figure:
    return Figure(name, value, PUBLISHED.get(name), share)


def _counts(trace: Trace, profile: TraceProfile) -> tuple[Figure, ...]:
    rows = profile.rows
    return (
        _figure("job rows", rows["job"]),
        _figure("worker rows", rows["worker"]),
        _figure("worker rows on known hosts", rows["worker_rows_with_known_host"]),
        _figure("worker rows without resources", trace.rows.get("worker without resources", 0)),
        _figure("worker rows of more GPUs than a host", trace.rows.get("worker beyond a host", 0)),
        _figure("hosts", rows["topo"]),
        _figure("hosts placed by rule", sum(not host.known for host in trace.hosts)),
        _figure("jobs with GPUs", rows["jobs_with_gpus"]),
        _figure("jobs that can be replayed", len(trace.jobs)),
        *(_figure(reason, count) for reason, count in sorted(trace.left_out.items())),
    )


def _sizes(profile: TraceProfile) -> tuple[Figure, ...]:
    sizes = {gpus: count for gpus, count in profile.gpus_per_job.items() if gpus}
    total = max(sum(sizes.values()), 1)
    return tuple(
        _figure(
            f"jobs of up to {most} GPUs",
            sum(count for gpus, count in sizes.items() if gpus <= most) / total,
            share=True,
        )
        for most in SIZES
    )


def _durations(profile: TraceProfile) -> tuple[Figure, ...]:
    return tuple(
        _figure(f"minutes, {name}", value)
        for name, value in profile.run_minutes.items()
        if name != "samples"
    )


def _spans(profile: TraceProfile) -> tuple[Figure, ...]:
    return tuple(
        _figure(name, _several(counts), share=True)
        for name, counts in (
            ("jobs on several hosts", profile.hosts_per_job),
            ("jobs below several ToRs", profile.tors_per_job),
            ("jobs in several pods", profile.pods_per_job),
        )
    )


def _several(counts: Mapping[int, int]) -> float:
    return sum(count for size, count in counts.items() if size > 1) / max(sum(counts.values()), 1)


def _over_time(found: Timeline) -> tuple[Figure, ...]:
    risks = (
        ("jobs at risk", "jobs_at_risk", "large_jobs"),
        ("jobs at risk at NICs", "jobs_at_risk_nic", "large_jobs"),
        ("jobs at risk above ToRs", "jobs_at_risk_agg", "large_jobs"),
        ("jobs at risk at the core", "jobs_at_risk_core", "large_jobs"),
        ("GPUs at risk", "gpus_at_risk", "gpus"),
    )
    return (
        _figure("jobs of 8 GPUs or more, mean", found.mean("large_jobs")),
        _figure("jobs of 8 GPUs or more, max", found.most("large_jobs")),
        _figure("active GPUs, mean", found.mean("gpus")),
        _figure("active GPUs, max", found.most("gpus")),
        *(
            _figure(f"{name}, mean share", found.mean_share(part, whole), share=True)
            for name, part, whole in risks
        ),
        _figure("jobs at risk, max", found.most("jobs_at_risk")),
        _figure("GPUs at risk, max", found.most("gpus_at_risk")),
    )
