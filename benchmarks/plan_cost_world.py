"""A cluster's records as its agents publish them, while jobs arrive and end.  Seeded.

Racks of 16 hosts, pods of eight racks; between racks of a pod there are eight paths, between pods
32.  `packed`: jobs by their GPUs, as cluster schedulers place them, one host after the other; only
jobs that need several hosts send.  `scattered`: every job sends, on two to four hosts of a rack,
every tenth on hosts anywhere; every host then has several jobs, and all meet, directly or not.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from hostcc.config.sections.plan import PlanConfig
from hostcc.coord.core import payloads
from hostcc.coord.core.message import Record
from hostcc.coord.core.payloads import (
    Addresses,
    Content,
    FlowEntry,
    Flows,
    Links,
    Member,
    PathEntry,
    Paths,
    Profile,
    ProfilingClaim,
)
from hostcc.daemon.planning.rules import rules

RACK_HOSTS, POD_RACKS, PLANES, CORES = 16, 8, 8, 4
HOST_GPUS = 8
BYTES_PER_S = 12.5e9
"""Of every link: 100 Gbit/s."""
PACKED, SCATTERED = "packed", "scattered"
PLACEMENTS = (PACKED, SCATTERED)
SIZES = ((1, 0.76), (2, 0.12), (4, 0.07), (8, 0.02), (16, 0.015), (32, 0.008), (64, 0.004))
"""(GPUs, share of jobs) of `packed`: most jobs of a shared cluster have one GPU (Jeon et al.,
USENIX ATC 2019, figure 2)."""
ACROSS_RACKS = 0.1
"""Share of the jobs in `scattered` that are on hosts anywhere."""
WAITING = 16
"""Jobs that wait to be profiled at a time: the last ones that have arrived."""
HOST_ADDRESSES = 4


@dataclass(frozen=True)
class PlacedJob:
    """A job and its hosts."""

    name: str
    hosts: tuple[int, ...]
    gpus: int
    compute_s: float
    comm_s: float


class World:
    """Hosts and their jobs; each call returns the records that change."""

    def __init__(self, hosts: int, jobs: int, placement: str, seed: int) -> None:
        self.hosts, self.wanted, self.placement = hosts, jobs, placement
        self._rng = random.Random(f"hostcc plan-cost {hosts} {jobs} {placement} {seed}")
        self.jobs: deque[PlacedJob] = deque()
        self._free = [HOST_GPUS] * hosts
        self._number = 0
        self._version = 1
        self._used: dict[tuple[int, int], int] = {}
        """Pair of hosts -> jobs that send between them."""
        self._waiting: deque[PlacedJob] = deque()
        """Jobs that have arrived last, and wait to be profiled."""

    @property
    def names(self) -> list[str]:
        """Names of all hosts."""
        return list(map(_host, range(self.hosts)))

    def start(self) -> Iterator[Record]:
        """Publish all hosts, and as many jobs as there should be."""
        for host in range(self.hosts):
            name = _host(host)
            yield self._record(name, payloads.MEMBER, "", Member(f"{name}:1", 1))
            yield self._record(name, payloads.RULES, "", rules(PlanConfig()))
            yield self._record(name, payloads.ADDRESSES, "", Addresses(_addresses(host)))
            yield self._record(name, payloads.LINKS, "", Links(_capacities(host)))
        while len(self.jobs) < self.wanted:
            made = self.arrival()
            if made is None:
                break
            yield from made

    def arrival(self) -> list[Record] | None:
        """Start a job; None: no host has room."""
        job = self._placed()
        if job is None:
            return None
        self.jobs.append(job)
        return self._published(job)

    def event(self, number: int) -> list[Record]:
        """Return the records of an event: jobs arrive and end in turn."""
        made = self.arrival() if number % 2 else None
        if made is None:
            return self.end(self._rng.randrange(len(self.jobs)))
        self._waiting.append(self.jobs[-1])
        made += self._claims(self.jobs[-1], ProfilingClaim(turn=False))
        if len(self._waiting) > WAITING:
            made += self._claims(self._waiting.popleft(), None)
        return made

    def end(self, at: int) -> list[Record]:
        """End one of the jobs."""
        job = self.jobs[at]
        del self.jobs[at]
        found = []
        for host, after in _ring(job.hosts):
            self._free[host] += job.gpus
            found.append(self._record(_host(host), payloads.PROFILE, job.name, None))
            if host == after:
                continue
            found.append(self._record(_host(host), payloads.FLOWS, job.name, None))
            self._used[host, after] -= 1
            if not self._used[host, after]:
                found.append(self._record(_host(host), payloads.PATHS, _host(after), None))
        return found

    def _claims(self, job: PlacedJob, claim: ProfilingClaim | None) -> list[Record]:
        return [self._record(_host(host), payloads.WAITING, job.name, claim) for host in job.hosts]

    def _placed(self) -> PlacedJob | None:
        rng = self._rng
        if self.placement == PACKED:
            gpus = rng.choices([size for size, _ in SIZES], [share for _, share in SIZES])[0]
            each = min(gpus, HOST_GPUS)
            hosts = self._room(max(1, gpus // HOST_GPUS), each)
        else:
            each, count = 1, rng.randint(2, 4)
            if rng.random() < ACROSS_RACKS:
                hosts = tuple(rng.sample(range(self.hosts), count))
            else:
                rack = rng.randrange(self.hosts // RACK_HOSTS) * RACK_HOSTS
                hosts = tuple(rack + one for one in rng.sample(range(RACK_HOSTS), count))
        if hosts is None:
            return None
        self._number += 1
        for host in hosts:
            self._free[host] -= each
        compute = rng.uniform(0.4, 2.0)
        return PlacedJob(
            f"job{self._number:06}", hosts, each, compute, compute * rng.uniform(0.05, 0.2)
        )

    def _room(self, count: int, gpus: int) -> tuple[int, ...] | None:
        """The first hosts in a row with so many free GPUs each."""
        run = 0
        for host in range(self.hosts):
            run = run + 1 if self._free[host] >= gpus else 0
            if run == count:
                return tuple(range(host - count + 1, host + 1))
        return None

    def _published(self, job: PlacedJob) -> list[Record]:
        found = []
        for at, (host, after) in enumerate(_ring(job.hosts)):
            volume = job.comm_s * BYTES_PER_S
            to = ((_host(after), volume),) if host != after else ()
            profile = Profile(
                job.compute_s,
                job.compute_s * 0.5,
                job.gpus * 1e14 * job.compute_s,
                float(job.gpus),
                job.compute_s * 0.5 + job.comm_s,
                job.comm_s,
                to=to,
            )
            found.append(self._record(_host(host), payloads.PROFILE, job.name, profile))
            if host == after:
                continue
            flows = self._flows(job, at)
            found.append(self._record(_host(host), payloads.FLOWS, job.name, flows))
            if not self._used.get((host, after)):
                table = Paths(_paths(host, after))
                found.append(self._record(_host(host), payloads.PATHS, _host(after), table))
            self._used[host, after] = self._used.get((host, after), 0) + 1
        return found

    def _flows(self, job: PlacedJob, at: int) -> Flows:
        name = f"{job.name}-{at}"
        src, dst = _ring(job.hosts)[at]
        # Hashed to one of its paths, as by ECMP.
        ways = _paths(src, dst)
        path = ways[crc32(name.encode()) % len(ways)].id
        volume = job.comm_s * BYTES_PER_S
        return Flows((FlowEntry(name, _host(dst), volume, src_port=40_000, path=path),))

    def _record(self, writer: str, kind: str, key: str, content: Content | None) -> Record:
        self._version += 1
        payload = b"" if content is None else payloads.encode(content)
        return Record(writer, 1, self._version, kind, key, payload, b"")


def _ring(hosts: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(zip(hosts, (*hosts[1:], hosts[0]), strict=True))


def _host(host: int) -> str:
    return f"host{host:05}"


def _paths(src: int, dst: int) -> tuple[PathEntry, ...]:
    """All ways from one host to another."""
    racks = src // RACK_HOSTS, dst // RACK_HOSTS
    first, last = f"{_host(src)}>{_rack(racks[0])}", f"{_rack(racks[1])}>{_host(dst)}"
    if racks[0] == racks[1]:
        return (PathEntry("p0", (first, last), (40_000,)),)
    pods = racks[0] // POD_RACKS, racks[1] // POD_RACKS
    found: list[tuple[str, ...]] = []
    for plane in range(PLANES):
        up = f"{_rack(racks[0])}>{_spine(pods[0], plane)}"
        down = f"{_spine(pods[1], plane)}>{_rack(racks[1])}"
        if pods[0] == pods[1]:
            found.append((first, up, down, last))
            continue
        for core in range(CORES):
            middle = f"core{plane}.{core}"
            there = f"{_spine(pods[0], plane)}>{middle}"
            back = f"{middle}>{_spine(pods[1], plane)}"
            found.append((first, up, there, back, down, last))
    return tuple(
        PathEntry(f"p{number:02}", links, (40_000 + number,)) for number, links in enumerate(found)
    )


def _capacities(host: int) -> tuple[tuple[str, float], ...]:
    """Links that a host knows: its own, its rack's, its pod's."""
    rack = host // RACK_HOSTS
    pod = rack // POD_RACKS
    ends = [(_host(host), _rack(rack))]
    ends += [(_rack(rack), _spine(pod, plane)) for plane in range(PLANES)]
    ends += [
        (_spine(pod, plane), f"core{plane}.{core}")
        for plane in range(PLANES)
        for core in range(CORES)
    ]
    return tuple(
        (name, BYTES_PER_S) for one, other in ends for name in (f"{one}>{other}", f"{other}>{one}")
    )


def _addresses(host: int) -> tuple[str, ...]:
    return tuple(f"10.{nic}.{host >> 8}.{host & 255}" for nic in range(HOST_ADDRESSES))


def _rack(rack: int) -> str:
    return f"rack{rack:03}"


def _spine(pod: int, plane: int) -> str:
    return f"pod{pod:02}.{plane}"
