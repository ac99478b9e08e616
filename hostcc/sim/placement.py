"""Places jobs on the hosts of a fabric anew: who gets which hosts, and when. Pure.

A job asks for what it had: so many GPUs on so many hosts. It gets all of them, each on a host of
its own, or waits; nobody is served before who came first, and nobody is preempted. The times
that jobs hold GPUs are those that were recorded, so a job that contention slows down may still be
there when the next comes.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hostcc.sim.fabrics import Topology
from hostcc.sim.trace_timeline import HOST_GPUS

Hosts = list[int]


@dataclass(frozen=True)
class Request:
    """What a job asks for, in the order in which jobs come."""

    minute: int
    """When it comes."""
    minutes: int
    """How long it holds its GPUs, more than 0."""
    parts: tuple[int, ...]
    """GPUs on each host, the most first."""
    duty: float = 0.0
    """Share of its time in which it sends, if it has several hosts."""


@dataclass(frozen=True)
class Placed:
    """What a job got."""

    minute: int
    """When it starts."""
    hosts: tuple[tuple[int, int], ...]
    """(Host, GPUs on it), by host."""


@dataclass(frozen=True)
class Site:
    """The hosts, as placements see them."""

    tor: tuple[int, ...]
    """Of each host; of two, the first."""
    pod: tuple[int, ...]
    """Of each host: ToRs with the same aggregation switches are one."""

    @classmethod
    def of(cls, topology: Topology) -> Site:
        """Return the site of a fabric."""
        tors = tuple(own[0] for own in topology.host_tors)
        pods = {aggs: number for number, aggs in enumerate(sorted(set(topology.tor_aggs)))}
        return cls(tors, tuple(pods[topology.tor_aggs[tor]] for tor in tors))


@dataclass
class State:
    """Who holds what."""

    site: Site
    free: list[int]
    """GPUs of each host."""
    sending: defaultdict[int, float]
    """By ToR: duties of the jobs there that have several hosts."""
    rng: random.Random

    def roomy(self, least: int, among: Sequence[int] | None = None) -> Hosts:
        """Return the hosts with so many free GPUs."""
        hosts = range(len(self.free)) if among is None else among
        return [host for host in hosts if self.free[host] >= least]

    def use(self, request: Request, hosts: Sequence[int], sign: int) -> None:
        """Take what was chosen, or give it back."""
        for host, gpus in zip(hosts, request.parts, strict=True):
            self.free[host] -= sign * gpus
        if len(hosts) > 1:
            for tor in {self.site.tor[host] for host in hosts}:
                self.sending[tor] += sign * request.duty


Method = Callable[[State, tuple[int, ...], float], Hosts | None]
"""(State, parts, duty) -> a host for each part, all different; None: there are none."""


def place(site: Site, requests: Sequence[Request], method: str, seed: int) -> list[Placed | None]:
    """Return what each request gets; None: more than the site has.

    Requests are in the order in which jobs come. The result depends on nothing but the arguments.
    """
    choose = METHODS[method]
    rng = random.Random(f"hostcc placement {method} {seed}")
    state = State(site, [HOST_GPUS] * len(site.tor), defaultdict(float), rng)
    ending: list[tuple[int, int, Hosts]] = []
    placed: list[Placed | None] = []
    now = 0 if not requests else requests[0].minute
    for number, one in enumerate(requests):
        if len(one.parts) > len(site.tor) or max(one.parts, default=0) > HOST_GPUS:
            placed.append(None)
            continue
        now = max(now, one.minute)
        while True:
            while ending and ending[0][0] <= now:
                _, which, hosts = heapq.heappop(ending)
                state.use(requests[which], hosts, -1)
            found = choose(state, one.parts, one.duty)
            if found is not None:
                break
            now = ending[0][0]  # an empty site has room, so somebody is there
        state.use(one, found, 1)
        heapq.heappush(ending, (now + one.minutes, number, found))
        placed.append(Placed(now, tuple(sorted(zip(found, one.parts, strict=True)))))
    return placed


def _anywhere(state: State, parts: tuple[int, ...], among: Sequence[int] | None) -> Hosts | None:
    """Return random hosts. Who has room for a part has room for all that come after it."""
    chosen: Hosts = []
    for part in parts:
        room = sorted(set(state.roomy(part, among)) - set(chosen))
        if not room:
            return None
        chosen.append(state.rng.choice(room))
    return chosen


def _none(state: State, parts: tuple[int, ...], duty: float) -> Hosts | None:  # noqa: ARG001
    return _anywhere(state, parts, None)


def _by(numbers: Sequence[int], among: Sequence[int]) -> Mapping[int, Hosts]:
    cells: dict[int, Hosts] = defaultdict(list)
    for host in among:
        cells[numbers[host]].append(host)
    return cells


def _pod(state: State, parts: tuple[int, ...], duty: float) -> Hosts | None:  # noqa: ARG001
    """Random hosts of one pod; a job that no pod could hold gets hosts anywhere."""
    pods = list(_by(state.site.pod, range(len(state.free))).values())
    if max(map(len, pods)) < len(parts):
        return _anywhere(state, parts, None)
    while pods:
        (pod,) = state.rng.choices(pods, [1 + len(state.roomy(parts[0], own)) for own in pods])
        found = _anywhere(state, parts, pod)
        if found is not None:
            return found
        pods.remove(pod)
    return None


def _first(state: State, parts: tuple[int, ...], among: Sequence[int]) -> Hosts | None:
    """Return for each part the first of these hosts that has room and is not used."""
    chosen: Hosts = []
    for part in parts:
        found = next((h for h in among if state.free[h] >= part and h not in chosen), None)
        if found is None:
            return None
        chosen.append(found)
    return chosen


def _packed(state: State, parts: tuple[int, ...], duty: float) -> Hosts | None:  # noqa: ARG001
    """First fit, in the order of pods and ToRs."""
    tor, pod = state.site.tor, state.site.pod
    return _first(state, parts, sorted(range(len(tor)), key=lambda h: (pod[h], tor[h], h)))


def _hived(state: State, parts: tuple[int, ...], duty: float) -> Hosts | None:  # noqa: ARG001
    """HiveD's buddy cells: a host, a ToR, a pod, all; the smallest with room, the fullest of these.

    Within a cell whole smaller ones are used up first, so that what stays free is large.
    """
    tor, pod, free = state.site.tor, state.site.pod, state.free
    everybody = range(len(free))
    for numbers in (list(everybody), tor, pod, [0] * len(free)):
        cells = _by(numbers, everybody)
        if max(map(len, cells.values())) < len(parts):
            continue  # not even an empty one would do
        for cell in sorted(cells.values(), key=lambda own: (sum(free[h] for h in own), own)):
            room = state.roomy(parts[0], cell)
            found = _first(state, parts, _buddies(state, room, len(parts)))
            if found is None:  # hosts that are too full for the largest part may do for others
                found = _first(state, parts, _buddies(state, cell, len(parts)))
            if found is not None:
                return found
    return None


def _buddies(state: State, hosts: Sequence[int], wanted: int) -> Hosts:
    """Return hosts in the order of use: ToRs with the most up to what is wanted, fullest hosts."""
    free = state.free
    left = sorted(
        _by(state.site.tor, hosts).values(),
        key=lambda own: (-min(len(own), wanted), sum(free[h] for h in own), own),
    )
    return [host for own in left for host in sorted(own, key=lambda h: (free[h], h))]


def _muri(state: State, parts: tuple[int, ...], duty: float) -> Hosts | None:
    """Muri: where the job's phases of sending overlap least with those of who is there.

    Phases are as if independent, so two jobs overlap on a ToR's links for the product of their
    duties; below a single ToR nothing is shared. Ties: fewest ToRs, then fullest hosts.
    """
    site, free, sending = state.site, state.free, state.sending
    tors = _by(site.tor, range(len(free)))

    def by_room(host: int) -> tuple[int, int]:
        return free[host], host

    tried = [_first(state, parts, sorted(own, key=by_room)) for own in tors.values()]
    room = {tor: len(state.roomy(parts[0], own)) for tor, own in tors.items()}
    for order in (
        sorted(tors, key=lambda tor: (sending[tor], -room[tor], tor)),
        sorted(tors, key=lambda tor: (-min(room[tor], len(parts)), sending[tor], tor)),
    ):
        hosts = [host for tor in order for host in sorted(tors[tor], key=by_room)]
        tried += [_first(state, parts, hosts)]
    found = [one for one in tried if one is not None]

    def overlap(hosts: Hosts) -> tuple[float, int, int]:
        used = {site.tor[host] for host in hosts}
        shared = 0.0 if len(used) < 2 else duty * sum(sending[tor] for tor in sorted(used))
        return round(shared, 9), len(used), sum(free[host] for host in hosts)

    return min(found, key=lambda hosts: (overlap(hosts), hosts)) if found else None


METHODS: Mapping[str, Method] = {
    "none": _none,
    "pod": _pod,
    "packed": _packed,
    "hived": _hived,
    "muri": _muri,
}
TRACE = "trace"
"""Hosts as recorded, without a method."""
NAMES = (TRACE, *METHODS)
