"""Clusters for the measurement of the simulation engine: rings of jobs on a two-layer Clos."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hostcc.sim.periodic import Orders, SimFlow, SimJob

NIC_RATE = 25e9
"""Bytes/s (200 Gbit/s), also of links between ToRs and spines."""
HOST_NICS = 4
LEVELS = 8


@dataclass(frozen=True)
class Case:
    """A cluster and what is simulated of it."""

    name: str
    jobs: tuple[SimJob, ...]
    links: int
    active: int
    """Flows of the jobs that run at the same time."""
    seconds: float
    """Simulated by the engine."""
    reference_seconds: float
    """Simulated by the scalar reference; 0: it is left out."""

    @property
    def capacity(self) -> list[float]:
        """Bytes/s of each link."""
        return [NIC_RATE] * self.links


@dataclass(frozen=True)
class Clos:
    """Links by number: NICs up, NICs down, ToRs up, ToRs down."""

    tors: int
    hosts: int
    """Below a ToR."""
    spines: int

    @property
    def links(self) -> int:
        """How many there are."""
        return 2 * HOST_NICS * self.tors * self.hosts + 2 * self.tors * self.spines

    def route(self, src: int, dst: int, nic: int, spine: int) -> tuple[int, ...]:
        """Links from host to host over a NIC of each and a spine."""
        nics = HOST_NICS * self.tors * self.hosts
        up, down = HOST_NICS * src + nic, nics + HOST_NICS * dst + nic
        one, other = src // self.hosts, dst // self.hosts
        if one == other:
            return up, down
        first = 2 * nics
        middle = first + one * self.spines + spine
        return up, middle, first + (self.tors + other) * self.spines + spine, down


def controller(now: float, running: Sequence[int]) -> Orders:  # noqa: ARG001
    """Give jobs the levels of their numbers."""
    return Orders({job: job % LEVELS for job in running})


def steady(jobs: int, hosts_of_job: int, spines: int, seconds: float, reference: float) -> Case:
    """Jobs that all run all the time, their hosts spread over ToRs, paths by a hash."""
    rng = random.Random(f"hostcc engine {jobs} {hosts_of_job}")
    clos = Clos(max(4, jobs * hosts_of_job // 8), 8, spines)
    hosts = list(range(clos.tors * clos.hosts))
    rng.shuffle(hosts)
    made = []
    for number in range(jobs):
        own = hosts[number * hosts_of_job : (number + 1) * hosts_of_job]
        made.append(_ring(rng, clos, own, rng.uniform(0.0, 1.0), None))
    flows = jobs * hosts_of_job * HOST_NICS
    name = f"{jobs} jobs, {flows} flows"
    return Case(name, tuple(made), clos.links, flows, seconds, reference)


def trace(days: float, jobs: int, large: int, seed: int) -> Case:
    """Jobs that come and go, as many and as long as in the published trace.

    Of `jobs`, `large` have hosts of their own (1 to 64) on 173 ToRs of 5 hosts; the others stay
    within a host and send nothing.
    """
    rng = random.Random(f"hostcc engine trace {seed}")
    clos = Clos(173, 5, 16)
    end = days * 86400
    made = []
    for number in range(jobs):
        start = rng.uniform(0, end)
        seconds = min(60 * rng.lognormvariate(1.4, 2.4), 300_000.0)
        if number < large:
            # Long enough that 12.3 of them run at a time, as published.
            seconds = min(rng.expovariate(1 / (12.3 * 14 * 86400 / 2100)), 4 * 86400.0)
            count = rng.choices((1, 2, 4, 8, 16, 32, 64), (46, 11, 22, 9, 2, 8, 2))[0]
            pod = rng.randrange(clos.tors * clos.hosts - 80)
            own = sorted(rng.sample(range(pod, pod + 80), count))
            job = _ring(rng, clos, own, start, None)
            iterations = max(1, round(seconds / (job.compute + 0.1)))
            made.append(SimJob(job.compute, job.comm_start, job.flows, start, iterations))
        else:
            compute = rng.uniform(0.2, 2.0)
            made.append(SimJob(compute, 0.0, (), start, max(1, round(seconds / compute))))
    name = f"{days:g} days, {jobs} jobs"
    return Case(name, tuple(made), clos.links, 0, end, 0.0)


def _ring(
    rng: random.Random, clos: Clos, hosts: Sequence[int], start: float, iterations: int | None
) -> SimJob:
    compute = rng.uniform(0.5, 2.0)
    size = compute * rng.uniform(0.1, 0.5) * NIC_RATE
    flows = tuple(
        SimFlow(size, clos.route(src, dst, nic, rng.randrange(clos.spines)))
        for src, dst in zip(hosts, (*hosts[1:], hosts[0]), strict=True)
        if src != dst
        for nic in range(HOST_NICS)
    )
    return SimJob(compute, compute * rng.choice((0.5, 0.75, 1.0)), flows, start, iterations)
