"""What runs over time in a released trace, and which jobs and GPUs are at risk of contention.

A job is at risk while it shares a link with another job and all jobs on this link could send more
than it carries. Every job that spans hosts is a ring over its hosts for each NIC that it uses; the
source says neither which GPUs of a host a job had nor what it sent.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hostcc.sim.fabrics import CLASSES, Topology
from hostcc.sim.flowsim.workload import Ints
from hostcc.sim.released import Trace, TracedJob

LARGE = 8
"""GPUs from which a job counts as large, as in the published figures."""
HOST_GPUS = 8
FULL = 1 + 1e-9
STEPS_OF_PROGRESS = 100


@dataclass(frozen=True)
class Timeline:
    """Step functions of time: value k holds from minute k to minute k + 1."""

    minutes: Ints
    """(N + 1,) since 1970, rising."""
    values: Mapping[str, Ints]
    """(N,) each: jobs, large_jobs, gpus, and jobs_at_risk, gpus_at_risk of large jobs, in all and
    by class of link (`jobs_at_risk_nic` ...)."""

    def mean(self, name: str) -> float:
        """Return the mean over time; 0 for no time."""
        spans = np.diff(self.minutes)
        return float((self.values[name] * spans).sum() / max(spans.sum(), 1))

    def most(self, name: str) -> int:
        """Return the maximum."""
        return int(self.values[name].max(initial=0))

    def mean_share(self, part: str, whole: str) -> float:
        """Return the mean over time of a ratio, which is 0 where there is nothing."""
        spans = np.diff(self.minutes)
        ratio = self.values[part] / np.maximum(self.values[whole], 1)
        return float((ratio * spans).sum() / max(spans.sum(), 1))


def timeline(
    trace: Trace, topology: Topology, progress: Callable[[int, int], None] = lambda *_: None
) -> Timeline:
    """Return what runs when. The topology has the trace's hosts, in their order.

    Jobs that end in the minute in which they start have no length. Raises InputError where the
    fabric is cut.
    """
    jobs = [job for job in trace.jobs if job.end > job.start]
    if not jobs:
        return Timeline(np.zeros(1, np.int64), {name: np.zeros(0, np.int64) for name in _names()})
    arrivals = sorted(range(len(jobs)), key=lambda which: jobs[which].start)
    departures = sorted(range(len(jobs)), key=lambda which: jobs[which].end)
    minutes = sorted({job.start for job in jobs} | {job.end for job in jobs})
    state = _Running(jobs, topology)
    rows = []
    come = gone = 0
    for number, minute in enumerate(minutes):
        while gone < len(jobs) and jobs[departures[gone]].end <= minute:
            state.remove(departures[gone])
            gone += 1
        while come < len(jobs) and jobs[arrivals[come]].start <= minute:
            state.add(arrivals[come])
            come += 1
        rows.append([state.counts[name] for name in _names()])
        if number % max(1, len(minutes) // STEPS_OF_PROGRESS) == 0:
            progress(number, len(minutes))
    table = np.array(rows[:-1], np.int64).reshape(-1, len(_names()))
    values = {name: table[:, column] for column, name in enumerate(_names())}
    return Timeline(np.array(minutes, np.int64), values)


def _names() -> list[str]:
    kinds = ("", *(f"_{name}" for name in CLASSES[1:]))
    risks = [f"{what}_at_risk{kind}" for kind in kinds for what in ("jobs", "gpus")]
    return ["jobs", "large_jobs", "gpus", *risks]


class _Gpus:
    """Gives GPUs of hosts to jobs, from the lowest number."""

    def __init__(self, hosts: int) -> None:
        self._used = [0] * hosts
        """By host: a bit for each GPU."""
        self._own: dict[int, dict[int, int]] = {}
        """By job: GPUs on each host that it has alone, as bits."""

    def give(self, which: int, job: TracedJob) -> dict[int, list[int]]:
        """Start a job; return its NICs by host."""
        taken = {host: _take(self._used[host], amount) for host, amount in job.hosts}
        self._own[which] = {host: bits & ~self._used[host] for host, bits in taken.items()}
        for host, bits in taken.items():
            self._used[host] |= bits
        return {host: _nics(bits) for host, bits in taken.items()}

    def take_back(self, which: int) -> None:
        """End a job."""
        for host, bits in self._own.pop(which).items():
            self._used[host] &= ~bits


class _Running:
    """The jobs that run, the links that they cross, and counts of them."""

    def __init__(self, jobs: Sequence[TracedJob], topology: Topology) -> None:
        self._jobs, self._topology = jobs, topology
        self._capacity = topology.link_rates
        self._class = topology.link_class.tolist()
        self._gpus = _Gpus(len(topology.host_tors))
        self._sent: dict[int, dict[int, float]] = {}
        """By job: bytes/s that it can send over each link."""
        self._load: dict[int, float] = {}
        self._on: dict[int, set[int]] = {}
        self._full: set[int] = set()
        """Links that are shared and can be filled."""
        self._risks: dict[int, Counter[int]] = {}
        """By job: how many of its links are such, by class."""
        self.counts: Counter[str] = Counter()

    def add(self, which: int) -> None:
        """Start a job."""
        job = self._jobs[which]
        self._count(job, 1)
        self._risks[which] = Counter()
        self._sent[which] = ring_load(self._topology, self._gpus.give(which, job))
        for link, rate in self._sent[which].items():
            self._load[link] = self._load.get(link, 0.0) + rate
            self._on.setdefault(link, set()).add(which)
            if link in self._full:
                self._risk(which, link, 1)
            elif self._can_be_full(link):
                self._full.add(link)
                for each in self._on[link]:
                    self._risk(each, link, 1)

    def remove(self, which: int) -> None:
        """End a job."""
        self._count(self._jobs[which], -1)
        self._gpus.take_back(which)
        for link in self._sent[which]:
            own = self._on[link]
            if link in self._full:
                self._risk(which, link, -1)
            own.discard(which)
            # Summed anew: nothing is left over from subtractions.
            self._load[link] = sum(self._sent[each][link] for each in sorted(own))
            if link in self._full and not self._can_be_full(link):
                self._full.discard(link)
                for each in own:
                    self._risk(each, link, -1)
        del self._sent[which], self._risks[which]

    def _can_be_full(self, link: int) -> bool:
        return len(self._on[link]) > 1 and self._load[link] > self._capacity[link] * FULL

    def _count(self, job: TracedJob, sign: int) -> None:
        self.counts["jobs"] += sign
        self.counts["gpus"] += sign * job.gpus
        self.counts["large_jobs"] += sign * (job.gpus >= LARGE)

    def _risk(self, which: int, link: int, sign: int) -> None:
        job, own, kind = self._jobs[which], self._risks[which], self._class[link]
        if job.gpus < LARGE:
            return
        before, any_before = bool(own[kind]), any(own.values())
        own[kind] += sign
        for suffix, change in (
            ("", any(own.values()) - any_before),
            (f"_{CLASSES[kind]}", bool(own[kind]) - before),
        ):
            self.counts[f"jobs_at_risk{suffix}"] += change
            self.counts[f"gpus_at_risk{suffix}"] += change * job.gpus


def ring_load(topology: Topology, nics: Mapping[int, Sequence[int]]) -> dict[int, float]:
    """Return link -> bytes/s that a ring over the hosts can send, with as many NICs as all have.

    `nics` has those of each host. Raises InputError where the fabric is cut.
    """
    if len(nics) < 2:
        return {}
    order = sorted(nics, key=lambda host: (topology.host_tors[host], host))
    capacity = topology.link_rates
    load: dict[int, float] = {}
    for rank in range(min(len(own) for own in nics.values())):
        for place, host in enumerate(order):
            after = order[(place + 1) % len(order)]
            path = topology.paths((host, nics[host][rank]), (after, nics[after][rank]))[0]
            rate = min(capacity[link] for link in path)
            for link in path:
                load[link] = load.get(link, 0.0) + rate
    return load


def host_nics(jobs: Sequence[TracedJob], hosts: int) -> list[dict[int, list[int]]]:
    """Return the NICs of each job by host, as `timeline` gives them out; jobs are by start."""
    gpus, ending = _Gpus(hosts), list[tuple[int, int]]()
    result: list[dict[int, list[int]]] = []
    for which, job in enumerate(jobs):
        while ending and ending[0][0] <= job.start:
            gpus.take_back(heapq.heappop(ending)[1])
        heapq.heappush(ending, (job.end, which))
        result.append(gpus.give(which, job))
    return result


def _take(used: int, amount: int) -> int:
    """Return bits of the lowest free GPUs; where they are too few, of the lowest used ones."""
    order = sorted(range(HOST_GPUS), key=lambda gpu: (used >> gpu & 1, gpu))
    return sum(1 << gpu for gpu in order[:amount])


def _nics(bits: int) -> list[int]:
    """Return the NICs of GPUs, of which two share one."""
    return sorted({gpu // 2 for gpu in range(HOST_GPUS) if bits >> gpu & 1})
