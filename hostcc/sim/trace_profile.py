"""Marginal counts of a released trace, under the names that public profiles of it use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from hostcc.sim.released import Rows, gpus_of, times_of

PERCENTILES = (25, 50, 75, 90, 95, 99)


@dataclass(frozen=True)
class TraceProfile:
    """Counts over all rows, whether a job can be replayed or not."""

    rows: Mapping[str, int]
    """Of each file; jobs with workers, with both, with GPUs; workers on hosts of `topo.csv`."""
    status: Mapping[str, int]
    never_ran: int
    model: Mapping[str, int]
    gpus_per_job: Mapping[int, int]
    """Like all `per_job`: over jobs that both files have."""
    gpus_per_worker: Mapping[int, int]
    workers_per_job: Mapping[int, int]
    hosts_per_job: Mapping[int, int]
    """Distinct hosts, those that `topo.csv` lacks included."""
    tors_per_job: Mapping[int, int]
    """Distinct (PSW, ASW) of the hosts that `topo.csv` has."""
    pods_per_job: Mapping[int, int]
    run_minutes: Mapping[str, float]
    """`samples`, `min`, `p25` ... `p99`, `max`."""
    queue_minutes: Mapping[str, float]


def profile_of(rows: Rows) -> TraceProfile:
    """Count. Raises InputError where a time cannot be read."""
    switches = {row["ip"]: (row["PSW"], row["ASW"]) for row in rows.topo}
    names = {row["job_name"] for row in rows.jobs}
    gpus: Counter[str] = Counter()
    gpus_per_worker: Counter[int] = Counter()
    workers: Counter[str] = Counter()
    hosts: dict[str, set[str]] = {}
    for row in rows.workers:
        amount = gpus_of(row) or 0
        gpus_per_worker[amount] += 1
        workers[row["job_name"]] += 1
        gpus[row["job_name"]] += amount
        hosts.setdefault(row["job_name"], set()).update({row["host_ip"]} - {""})
    both = sorted(names & workers.keys())
    tors = {job: {switches[host] for host in hosts[job] if host in switches} for job in both}
    times = [times_of(row) for row in rows.jobs]
    return TraceProfile(
        {
            "job": len(rows.jobs),
            "worker": len(rows.workers),
            "topo": len(rows.topo),
            "jobs_in_worker": len(workers),
            "jobs_in_both": len(both),
            "jobs_with_gpus": sum(gpus[job] > 0 for job in both),
            "worker_rows_with_known_host": sum(row["host_ip"] in switches for row in rows.workers),
        },
        _by_count(row["status"] for row in rows.jobs),
        sum(start is None for _, start, _ in times),
        _by_count(row["model"] for row in rows.jobs),
        _by_size(gpus[job] for job in both),
        dict(sorted(gpus_per_worker.items())),
        _by_size(workers[job] for job in both),
        _by_size(len(hosts[job]) for job in both),
        _by_size(len(tors[job]) for job in both),
        _by_size(len({pod for pod, _ in tors[job]}) for job in both),
        _minutes([end - start for _, start, end in times if start is not None and end is not None]),
        _minutes(
            [start - asked for asked, start, _ in times if asked is not None and start is not None]
        ),
    )


def _by_count(values: Iterable[str]) -> dict[str, int]:
    """Return the most frequent first."""
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _by_size(values: Iterable[int]) -> dict[int, int]:
    return dict(sorted(Counter(values).items()))


def _minutes(values: list[int]) -> dict[str, float]:
    """Return a summary of what is not negative."""
    good = np.array([value for value in values if value >= 0], np.float64)
    if not len(good):
        return {"samples": 0}
    cuts = np.percentile(good, PERCENTILES).tolist()
    return {
        "samples": len(good),
        "min": float(good.min()),
        **{f"p{cut}": value for cut, value in zip(PERCENTILES, cuts, strict=True)},
        "max": float(good.max()),
    }
