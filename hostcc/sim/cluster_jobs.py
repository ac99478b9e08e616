"""Turns the jobs of a trace into flows on a fabric: which NICs a job has, and what they send.

A job has as many NICs on each of its hosts as its GPUs use; two GPUs share one. GPUs of a host are
given out from the lowest free one (hostcc.sim.trace_timeline does the same).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec
import numpy as np

from hostcc.errors import InputError
from hostcc.sim import placement
from hostcc.sim.fabrics import Topology
from hostcc.sim.flowsim.run import simulate
from hostcc.sim.flowsim.workload import MOST_SECONDS, Fabric, Floats, pack
from hostcc.sim.periodic import SimFlow, SimJob
from hostcc.sim.released import Trace, TracedJob
from hostcc.sim.trace_timeline import host_nics
from hostcc.sim.workload_table import Model, Size, Workloads

SECONDS_OF_MINUTE = 60.0
MOST_FLOWS = 2_000_000
MOST_QUEUE_PAIRS = 64
MOST_SCALE = 1e6
MOST_SEED = 2**63

End = tuple[int, int]
"""(Host, NIC)"""


@dataclass(frozen=True)
class JobFlow:
    """A flow of a job's iteration."""

    source: End
    destination: End
    bytes: float


@dataclass(frozen=True)
class PlacedJob:
    """A job of the trace, where it runs and what it does."""

    traced: TracedJob
    model: str
    size: Size
    gpus: int
    flows: tuple[JobFlow, ...]
    start: float
    """Seconds since the replay's beginning."""
    seconds: float
    """That it ran from then on, as recorded."""

    @property
    def flop(self) -> float:
        """FLOP of an iteration over all GPUs."""
        return self.size.flop_per_gpu * self.gpus

    def simulated(self, routes: Sequence[tuple[int, ...]], start: float, iterations: int) -> SimJob:
        """Return the job for the engine, with links for each flow."""
        flows = tuple(
            SimFlow(flow.bytes, links, rate=self.size.rate)
            for flow, links in zip(self.flows, routes, strict=True)
        )
        size = self.size
        return SimJob(size.compute_s, size.comm_start_s, flows, start, iterations)


@dataclass(frozen=True)
class Setting:
    """How the jobs of a trace are placed, and what they send."""

    placement: str = placement.TRACE
    """One of placement.NAMES."""
    seed: int = 0
    """Of placements, and of what is chosen by hash."""
    queue_pairs: int = 1
    """That a connection's bytes are spread over; each has a path of its own."""
    scale: float = 1.0
    """Factor of the bytes in the workload table."""

    def __post_init__(self) -> None:
        """Check; raises InputError."""
        if self.placement not in placement.NAMES:
            known = ", ".join(placement.NAMES)
            raise InputError(f"placement: expected {known}, got {self.placement!r:.40}")
        if not 1 <= self.queue_pairs <= MOST_QUEUE_PAIRS:
            raise InputError(
                f"queue pairs: expected 1 to {MOST_QUEUE_PAIRS}, got {self.queue_pairs}"
            )
        if not 1 / MOST_SCALE <= self.scale <= MOST_SCALE:
            raise InputError(f"scale: expected {1 / MOST_SCALE:g} to {MOST_SCALE:g}")
        if not 0 <= self.seed < MOST_SEED:
            raise InputError(f"seed: expected 0 to {MOST_SEED - 1}, got {self.seed}")


def placed_jobs(
    trace: Trace,
    topology: Topology,
    workloads: Workloads,
    first: int,
    last: int,
    setting: Setting | None = None,
) -> tuple[tuple[PlacedJob, ...], Counter[str]]:
    """Return the jobs that run from minute `first` until before `last`, and those left out.

    Of a job that runs at `first` already, the rest of its time is replayed. The topology has the
    trace's hosts, in their order. Raises InputError for too many flows.
    """
    setting = setting or Setting()
    left_out: Counter[str] = Counter()
    chosen = []
    for job in trace.jobs:
        if job.end <= job.start:
            left_out["ended in the minute of its start"] += 1
        elif job.start >= last or job.end <= first:
            left_out["outside the time asked for"] += 1
        elif not job.hosts:
            left_out["without a host"] += 1
        else:
            chosen.append(job)
    if setting.placement != placement.TRACE:
        chosen = _placed_anew(chosen, topology, workloads, (first, last), setting, left_out)
    nics = host_nics(chosen, len(topology.host_tors))
    found, count = [], 0
    for job, own in zip(chosen, nics, strict=True):
        name = workloads.model_of(job.model)
        gpus = sum(amount for _, amount in job.hosts)
        size = workloads.models[name].size(gpus)
        size = msgspec.structs.replace(size, nic_bytes=size.nic_bytes * setting.scale)
        flows = _flows(workloads.models[name], size, topology, own, setting.queue_pairs)
        count += len(flows)
        if count > MOST_FLOWS:
            raise InputError(f"trace: expected jobs with up to {MOST_FLOWS} flows")
        begins = max(job.start, first)
        start = (begins - first) * SECONDS_OF_MINUTE
        seconds = (job.end - begins) * SECONDS_OF_MINUTE
        found.append(PlacedJob(job, name, size, gpus, flows, start, seconds))
    return tuple(found), left_out


def _placed_anew(
    jobs: Sequence[TracedJob],
    topology: Topology,
    workloads: Workloads,
    span: tuple[int, int],
    setting: Setting,
    left_out: Counter[str],
) -> list[TracedJob]:
    """Return the jobs where and when a placement method starts them, by start; counts others.

    A job comes when the trace starts it; one that runs at the beginning comes then.
    """
    first, last = span
    requests = []
    for job in jobs:
        comes = max(job.start, first)
        parts = tuple(sorted((amount for _, amount in job.hosts), reverse=True))
        size = workloads.models[workloads.model_of(job.model)].size(sum(parts))
        sends = setting.scale * size.nic_bytes / topology.rates["nic"]
        duty = sends / max(size.compute_s, size.comm_start_s + sends)
        requests.append(placement.Request(comes, job.end - comes, parts, duty))
    found = placement.place(placement.Site.of(topology), requests, setting.placement, setting.seed)
    placed = []
    for job, request, got in zip(jobs, requests, found, strict=True):
        if got is None:
            left_out["asks for more than the fabric has"] += 1
        elif got.minute >= last:
            left_out["still in the queue at the end"] += 1
        else:
            end = got.minute + request.minutes
            placed.append(replace(job, start=got.minute, end=end, hosts=got.hosts))
    return placed


def _flows(
    model: Model, size: Size, topology: Topology, nics: dict[int, list[int]], queue_pairs: int
) -> tuple[JobFlow, ...]:
    """Return the flows of an iteration, one for each queue pair; none within a host."""
    hosts = sorted(nics, key=lambda host: (topology.host_tors[host], host))
    count = len(hosts)
    if count < 2:
        return ()
    if model.pattern == "all-to-all":
        pairs = [(a, b) for a in hosts for b in hosts if a != b]
        share = size.nic_bytes / (count - 1) / queue_pairs
    else:
        pairs = list(pairwise(hosts))
        if model.pattern == "ring":
            pairs.append((hosts[-1], hosts[0]))
        share = size.nic_bytes / queue_pairs
    ranks = min(map(len, nics.values()))
    return tuple(
        JobFlow((a, nics[a][rank] % topology.nics), (b, nics[b][rank] % topology.nics), share)
        for rank in range(ranks)
        for a, b in pairs
        for _ in range(queue_pairs)
    )


def spread_routes(topology: Topology, flows: Sequence[JobFlow]) -> list[tuple[int, ...]]:
    """Return a path for each flow, each the one whose fullest link is least loaded so far.

    Raises InputError where the fabric is cut.
    """
    rates, load = topology.link_rates, Counter[int]()
    routes = []
    for flow in flows:
        paths = topology.paths(flow.source, flow.destination)
        best = min(paths, key=lambda path: max(load[link] / rates[link] for link in path))
        for link in best:
            load[link] += 1
        routes.append(best)
    return routes


def seconds_alone(
    topology: Topology, jobs: Sequence[PlacedJob], routes: Sequence[Sequence[tuple[int, ...]]]
) -> Floats:
    """Return (J,) seconds of an iteration without other jobs, simulated on links of its own."""
    capacity: list[float] = []
    alone = []
    for job, own in zip(jobs, routes, strict=True):
        number = {}
        for path in own:
            for link in path:
                if link not in number:
                    number[link] = len(capacity)
                    capacity.append(topology.link_rates[link])
        alone.append(job.simulated([tuple(number[link] for link in path) for path in own], 0.0, 1))
    done = simulate(Fabric.of(capacity or [1.0]), pack(alone), MOST_SECONDS / 2)
    return np.asarray(done.finished)
