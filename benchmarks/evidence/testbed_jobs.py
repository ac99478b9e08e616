"""Crux's testbed (Figures 19 to 22): its jobs, placed, and what schedulers make of them.

Twelve hosts below six ToRs. What jobs compute is from hostcc/sim/workloads.toml; what they send
is one number for each model: seconds that a NIC sends alone in an iteration over the seconds
of computation. Sending begins when the computation ends, as in the study of Figure 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from hostcc.sim import cluster_run, fabrics, workload_table
from hostcc.sim.cluster_jobs import End, JobFlow, PlacedJob
from hostcc.sim.released import TracedJob
from hostcc.sim.workload_table import Size

COMM_START = 1.0
"""Share of the computation before the communication."""
SECONDS = 120.0
QUEUE_PAIRS = 4
"""Of a connection; ECMP hashes each."""
NIC_RATE = 200 * fabrics.GBIT
SCHEDULERS = {"without": "ecmp", "Crux": "crux-full", "ideal": "alone"}
"""Bar -> who schedules."""


@dataclass(frozen=True)
class TestbedJob:
    """A job on the testbed."""

    __test__ = False  # for pytest

    model: str
    gpus: int
    hosts: tuple[int, ...]
    nics: tuple[int, ...]
    """On each host."""


@dataclass(frozen=True)
class Found:
    """What a scheduler made of the jobs: means over draws of hashes."""

    utilisation: float
    by_model: Mapping[str, float]
    """Utilisation of the GPUs of each model's jobs."""


def across(model: str, gpus: int, hosts: Sequence[int], first_nic: int = 0) -> TestbedJob:
    """Return a job on hosts, as many GPUs on each; a NIC for each GPU up to four."""
    each = min(4, gpus // len(hosts))
    nics = tuple((first_nic + at) % 4 for at in range(each))
    return TestbedJob(model, gpus, tuple(hosts), nics)


def run(
    jobs: Sequence[TestbedJob],
    shares: Mapping[str, float],
    scheduler: str,
    draws: int,
    seconds: float,
) -> Found:
    """Replay the jobs; all begin together."""
    total, own = [], []
    names = sorted({job.model for job in jobs})
    for seed in range(1 if scheduler == SCHEDULERS["ideal"] else draws):
        placed = tuple(_placed(at, job, shares[job.model], seconds) for at, job in enumerate(jobs))
        given = cluster_run.of_jobs(placed, _testbed(), seconds, {}, seed)
        found = cluster_run.run(given, scheduler)
        total.append(found.figures["utilisation"])
        own.append([_share(found, name, seconds) for name in names])
    means = np.mean(own, axis=0).tolist()
    return Found(float(np.mean(total)), dict(zip(names, means, strict=True)))


def alone(share: float) -> float:
    """Return a job's utilisation without other jobs."""
    return 1 / max(1.0, COMM_START + share)


def _share(found: cluster_run.ClusterResult, model: str, seconds: float) -> float:
    rows = [row for row in found.jobs if row["model"] == model]
    gpus = np.array([row["gpus"] for row in rows])
    return float(np.array([row["computed_s"] for row in rows]) @ gpus / (gpus.sum() * seconds))


@cache
def _testbed() -> fabrics.Topology:
    return fabrics.crux_testbed()


@cache
def _table() -> workload_table.Workloads:
    return workload_table.read()


def _placed(number: int, job: TestbedJob, share: float, seconds: float) -> PlacedJob:
    known = _table().models[job.model].size(job.gpus)
    size = Size(
        job.gpus,
        known.compute_s,
        COMM_START * known.compute_s,
        known.flop_per_gpu,
        share * known.compute_s * NIC_RATE,
        known.source,
    )
    order = list(job.hosts)
    flows = tuple(
        JobFlow(_end(a, nic), _end(b, nic), size.nic_bytes / QUEUE_PAIRS)
        for nic in job.nics
        for a, b in zip(order, [*order[1:], order[0]], strict=True)
        for _ in range(QUEUE_PAIRS)
    )
    each = job.gpus // len(job.hosts)
    hosts = tuple((host, each) for host in sorted(job.hosts))
    traced = TracedJob(f"{job.model}-{number}", number, job.model, 0, 0, 1, job.gpus, hosts)
    # More iterations than there is time for: nobody leaves.
    return PlacedJob(traced, job.model, size, job.gpus, flows, 0.0, 10 * seconds)


def _end(host: int, nic: int) -> End:
    return host, nic
