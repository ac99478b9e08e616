"""Random small clusters, small enough to find the best schedule of each (Crux, section 4.4).

Two aggregation switches, 2 to 4 ToRs, 10 to 20 hosts of 8 GPUs, links of 1 byte/s, five jobs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable

JOB_COUNT = 5
GPU_COUNTS = ((8, 0.15), (16, 0.3), (24, 0.2), (32, 0.25), (48, 0.1))
"""(GPUs of a job, probability)."""
SPANNING_SHARE = 0.9
"""Share of draws in which a job must span two ToRs or more."""
ALL_TO_ALL_SHARE = 0.2
FLOP_PER_S_OF_GPU = 1.0
MAX_CHOICES = 8
"""Flows that have two paths; cases with more are drawn again, so that all can be enumerated."""
WINDOW_ITERATIONS = (5.0, 45.0)
"""Window of the utilisation, in multiples of the longest iteration."""


@dataclass(frozen=True)
class _Placed:
    gpus: int
    hosts: tuple[int, ...]
    all_to_all: bool


def small_case(seed: int, index: int) -> ClusterView:
    """Return case `index` of the family `seed`; the same on every machine."""
    rng = random.Random(f"hostcc small case {seed} {index}")
    while True:
        tors = rng.randint(2, 4)
        hosts = rng.randint(10, 20)
        tor_of = [host * tors // hosts for host in range(hosts)]
        placed = _place(rng, tor_of)
        if placed is not None:
            view = _view(rng, tor_of, placed)
            if sum(_choices(flow, tor_of) for flow in view.flows) <= MAX_CHOICES:
                return view


def with_errors(view: ClusterView, error: float, seed: int, index: int) -> ClusterView:
    """Return the view with every measurement off by up to `error` (a fraction)."""
    rng = random.Random(f"hostcc measurement error {seed} {index}")

    def off(value: float) -> float:
        return value * (1 + rng.uniform(-error, error))

    jobs = []
    for job in view.jobs:
        compute, start = off(job.compute_s), off(job.comm_start_s)
        phase = (job.phase_s or 0.0) + rng.uniform(-error, error) * job.period_s
        work = off(job.work)
        jobs.append(
            replace(
                job,
                compute_s=compute,
                comm_start_s=min(start, compute),
                work=work,
                phase_s=phase,
            )
        )
    scale = {job.job: off(1.0) for job in view.jobs}
    flows = [replace(flow, bytes=flow.bytes * scale[flow.job]) for flow in view.flows]
    return replace(view, jobs=tuple(jobs), flows=tuple(flows), digest="")


def _place(rng: random.Random, tor_of: list[int]) -> list[_Placed] | None:
    free = [8] * len(tor_of)
    placed = []
    for _ in range(JOB_COUNT):
        gpus = rng.choices([size for size, _ in GPU_COUNTS], [share for _, share in GPU_COUNTS])[0]
        per_host = rng.choice((4, 8))
        count = gpus // per_host
        room = [host for host, left in enumerate(free) if left >= per_host]
        if len(room) < count:
            return None
        chosen = _choose(rng, room, count, tor_of, rng.random() < SPANNING_SHARE)
        for host in chosen:
            free[host] -= per_host
        all_to_all = rng.random() < ALL_TO_ALL_SHARE and len(chosen) <= 4
        placed.append(_Placed(gpus, tuple(chosen), all_to_all))
    return placed


def _choose(
    rng: random.Random, room: list[int], count: int, tor_of: list[int], spanning: bool
) -> list[int]:
    """Return hosts for a job, over two ToRs or more if required and possible."""
    chosen = sorted(rng.sample(room, count))
    for _ in range(50):
        if not spanning or len({tor_of[host] for host in chosen}) > 1:
            break
        chosen = sorted(rng.sample(room, count))
    return chosen


def _choices(flow: Flow, tor_of: list[int]) -> bool:
    return tor_of[int(flow.src[1:])] != tor_of[int(flow.dst[1:])]


def _view(rng: random.Random, tor_of: list[int], placed: list[_Placed]) -> ClusterView:
    profiles: list[JobProfile] = []
    flows: list[Flow] = []
    for index, job in enumerate(placed):
        compute = 0.4 * 5 ** rng.random()
        comm = compute * 0.25 * 6 ** rng.random()
        start = compute * rng.choice((0.25, 0.5, 0.75, 1.0))
        name = f"job{index}"
        pairs = _pairs(job)
        each = comm / max(1, len(job.hosts) - 1) if job.all_to_all else comm
        period = max(compute, start + (comm if pairs else 0.0))
        profiles.append(
            JobProfile(
                name,
                compute,
                start,
                work=job.gpus * compute * FLOP_PER_S_OF_GPU,
                gpus=float(job.gpus),
                period_s=period,
                phase_s=rng.random() * period,
            )
        )
        flows += [
            Flow(f"{name}-{src}-{dst}", name, f"h{src}", f"h{dst}", each) for src, dst in pairs
        ]
    pairs_used = sorted({(int(flow.src[1:]), int(flow.dst[1:])) for flow in flows})
    tables = tuple(_table(src, dst, tor_of) for src, dst in pairs_used)
    names = {link for table in tables for path in table.paths for link in path.links}
    return ClusterView(
        jobs=tuple(profiles),
        flows=tuple(flows),
        tables=tables,
        links=tuple((name, 1.0) for name in sorted(names)),
        members=tuple(f"h{host}" for host in range(len(tor_of))),
    )


def _pairs(job: _Placed) -> list[tuple[int, int]]:
    hosts = job.hosts
    if len(hosts) < 2:
        return []
    if job.all_to_all:
        return [(src, dst) for src in hosts for dst in hosts if src != dst]
    return list(zip(hosts, (*hosts[1:], hosts[0]), strict=True))


def _table(src: int, dst: int, tor_of: list[int]) -> PathTable:
    one, other = tor_of[src], tor_of[dst]
    if one == other:
        paths: tuple[Path, ...] = (Path("tor", (f"h{src}>", f">h{dst}")),)
    else:
        paths = tuple(
            Path(f"agg{agg}", (f"h{src}>", f"t{one}>a{agg}", f"a{agg}>t{other}", f">h{dst}"))
            for agg in range(2)
        )
    return PathTable(f"h{src}", f"h{dst}", paths)
