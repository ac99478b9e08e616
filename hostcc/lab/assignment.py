"""Pure: the best way for every flow of a leaf-spine scenario, found by trying all of them.

Judged by the fluid simulation (hostcc.sim.cluster_simulation): every job's flows take all paths
that make a difference, all jobs on one level.  Spines are alike, so only who shares a link with
whom counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from hostcc.lab.launch import port_of
from hostcc.lab.leafspine_lab import Pin
from hostcc.lab.leafspine_scenario import LeafSpineScenario, PlacedJobSpec
from hostcc.lab.scenario_hosts import bytes_per_iteration, goodput_fraction
from hostcc.sim.cluster_simulation import constant, simulate
from hostcc.sim.periodic import SimFlow, SimJob

MAX_ASSIGNMENTS = 300_000
"""Assignments that are enumerated; scenarios with more are refused."""
MAX_SIMULATED = 2000
"""Assignments that are simulated: of those that differ, the ones with the least shared load."""
MEASURED_ITERATIONS = (3.0, 33.0)
"""Begin and end of the simulated time that counts, in iterations of the slowest job."""


@dataclass(frozen=True)
class Edge:
    """A sender and its receiver in a job, on different leaves."""

    job: int
    src: str
    dst: str
    leaves: tuple[int, int]
    bytes: float


@dataclass(frozen=True)
class Assignment:
    """A spine (from 1) for each edge, and what the simulation says of it."""

    spines: dict[Pin, int]
    seconds: tuple[float, ...]
    """Mean iteration time of each job; infinite: it did not end one."""
    utilisation: float
    """Weighted by GPU intensity."""
    simulated: int
    """Assignments that were simulated to find it."""
    enumerated: int
    """Assignments that there are."""


def edges_of(scenario: LeafSpineScenario) -> list[Edge]:
    """Edges that have a choice."""
    per_leaf = scenario.fabric.hosts_per_leaf
    found = []
    for number, job in enumerate(scenario.job):
        ranks = range(len(job.on)) if job.pattern == "allreduce" else range(1)
        for rank in ranks:
            src, dst = job.on[rank], job.on[(rank + 1) % len(job.on)]
            leaves = (int(src[1:]) - 1) // per_leaf, (int(dst[1:]) - 1) // per_leaf
            if leaves[0] != leaves[1]:
                size = float(bytes_per_iteration(job, scenario.fabric))
                found.append(Edge(number, src, dst, leaves, size))
    return found


def best(scenario: LeafSpineScenario) -> Assignment | None:
    """The best assignment; None: there are more than MAX_ASSIGNMENTS."""
    edges = edges_of(scenario)
    spines = scenario.fabric.spines
    if spines ** max(0, len(edges) - 1) > MAX_ASSIGNMENTS:
        return None
    different: dict[frozenset[frozenset[int]], tuple[int, ...]] = {}
    enumerated = 0
    for choice in _choices(len(edges), spines):
        enumerated += 1
        different.setdefault(_sharing(edges, choice), choice)
    candidates = sorted(different.items(), key=lambda item: _common(edges, item[0]))
    candidates = candidates[:MAX_SIMULATED]
    judged = [(judge(scenario, edges, choice), choice) for _, choice in candidates]
    (utilisation, speed, seconds), choice = max(judged, key=lambda one: one[0][:2])
    del speed
    pins = {
        (edge.src, edge.dst, port_of(edge.job)): spine + 1
        for edge, spine in zip(edges, choice, strict=True)
    }
    return Assignment(pins, seconds, utilisation, len(candidates), enumerated)


def judge(
    scenario: LeafSpineScenario, edges: Sequence[Edge], choice: Sequence[int]
) -> tuple[float, float, tuple[float, ...]]:
    """Utilisation, mean speed against alone, mean iteration time of each job."""
    fabric = scenario.fabric
    rate = fabric.rate_mbit * 1e6 / 8 * goodput_fraction(fabric)
    numbers: dict[tuple[int, int, int], int] = {}
    flows: list[list[SimFlow]] = [[] for _ in scenario.job]
    for edge, spine in zip(edges, choice, strict=True):
        up, down = (edge.leaves[0], spine, 0), (edge.leaves[1], spine, 1)
        links = tuple(numbers.setdefault(link, len(numbers)) for link in (up, down))
        flows[edge.job].append(SimFlow(edge.bytes, links))
    jobs = [
        SimJob(job.compute_ms / 1e3, job.compute_ms / 1e3, tuple(mine), job.start_ms / 1e3)
        for job, mine in zip(scenario.job, flows, strict=True)
    ]
    alone = [
        job.compute + max((flow.bytes for flow in job.flows), default=0.0) / rate for job in jobs
    ]
    longest, latest = max(alone), max(job.start for job in jobs)
    t0, t1 = (latest + part * longest for part in MEASURED_ITERATIONS)
    done = simulate(jobs, [rate] * len(numbers), constant([0] * len(jobs)), t0, t1)
    # Computation within the window counts parts of iterations, too.
    counts = [
        busy / job.compute if job.compute else float(ended)
        for job, busy, ended in zip(jobs, done.compute_seconds, done.iterations, strict=True)
    ]
    seconds = tuple((t1 - t0) / count if count else float("inf") for count in counts)
    speed = sum(a / s for a, s in zip(alone, seconds, strict=True)) / len(jobs)
    return utilisation(scenario.job, alone, seconds), speed, seconds


def intensities(jobs: Sequence[PlacedJobSpec], alone: Sequence[float]) -> list[float]:
    """GPU intensity W / t of each job; `alone`: seconds of an iteration without other jobs.

    W: FLOP per iteration, 1 for all where none gives any; t: communication time alone.
    """
    told = any(job.flops for job in jobs)
    found = []
    for job, whole in zip(jobs, alone, strict=True):
        comm = whole - job.compute_ms / 1e3
        # A job without flows between leaves is the same everywhere, and its t is not known.
        found.append((job.flops if told else 1.0) / comm if comm > 0 else 0.0)
    return found


def utilisation(
    jobs: Sequence[PlacedJobSpec], alone: Sequence[float], seconds: Sequence[float]
) -> float:
    """Share of time that GPUs compute, weighted by GPU intensity.

    Crux (SIGCOMM'24), section 4.1.
    """
    weights = intensities(jobs, alone)
    busy = [job.compute_ms / 1e3 / time for job, time in zip(jobs, seconds, strict=True)]
    total = sum(weights)
    return sum(w * b for w, b in zip(weights, busy, strict=True)) / total if total else 0.0


def _choices(edges: int, spines: int) -> Iterator[tuple[int, ...]]:
    """All, but the first edge takes the first spine."""
    if not edges:
        yield ()
        return
    for rest in product(range(spines), repeat=edges - 1):
        yield (0, *rest)


def _sharing(edges: Sequence[Edge], choice: Sequence[int]) -> frozenset[frozenset[int]]:
    """Who meets whom: the sets of edges on one link."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for index, (edge, spine) in enumerate(zip(edges, choice, strict=True)):
        groups.setdefault((edge.leaves[0], spine, 0), []).append(index)
        groups.setdefault((edge.leaves[1], spine, 1), []).append(index)
    return frozenset(frozenset(group) for group in groups.values())


def _common(edges: Sequence[Edge], groups: Iterable[frozenset[int]]) -> float:
    return sum(sum(edges[index].bytes for index in group) ** 2 for group in groups)
