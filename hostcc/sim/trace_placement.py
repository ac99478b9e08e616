"""Places the jobs of a generated trace on hosts: at random within a pod, as released spans show."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass

from hostcc.sim.trace_timeline import HOST_GPUS


@dataclass(frozen=True)
class Request:
    """A job that wants hosts from a minute on, before another."""

    start: int
    end: int
    gpus: int
    hosts: int


@dataclass(frozen=True)
class Hosts:
    """Who is where; hosts, ToRs and pods by number."""

    tor: Sequence[int]
    """Of each host."""
    pods: Sequence[Sequence[int]]
    """Hosts of each pod."""


def place(
    rng: random.Random, hosts: Hosts, requests: Sequence[Request], apart: float
) -> list[list[tuple[int, int]]]:
    """Return hosts, and GPUs on each, of each request.

    With probability `apart` a job with GPUs on several hosts is put below ToRs that no other such
    job uses, as far as there are hosts. Where no pod has room, hosts are used twice.
    """
    state = _State(hosts)
    ending: list[tuple[int, int]] = []
    placed: list[list[tuple[int, int]]] = [[] for _ in requests]
    for which in sorted(range(len(requests)), key=lambda which: (requests[which].start, which)):
        one = requests[which]
        while ending and ending[0][0] <= one.start:
            state.use(placed[heapq.heappop(ending)[1]], -1)
        if one.hosts and one.end > one.start:
            placed[which] = state.choose(rng, one, rng.random() < apart)
            state.use(placed[which], 1)
            heapq.heappush(ending, (one.end, which))
        elif one.hosts:
            placed[which] = state.choose(rng, one, False)
    return placed


class _State:
    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._free = [HOST_GPUS] * len(hosts.tor)
        self._sending = [0] * (max(hosts.tor, default=0) + 1)
        """By ToR: hosts of jobs that span several."""

    def choose(self, rng: random.Random, one: Request, apart: bool) -> list[tuple[int, int]]:
        """Return hosts for a request, all in one pod."""
        each, more = divmod(one.gpus, one.hosts)
        amounts = [each + 1] * more + [each] * (one.hosts - more)
        rooms = [[h for h in pod if self._free[h] >= amounts[0]] for pod in self._hosts.pods]
        roomy = [hosts for hosts in rooms if len(hosts) >= one.hosts]
        if not roomy:
            largest = max(self._hosts.pods, key=len)
            roomy = [list(largest)]
        if apart and one.hosts > 1 and one.gpus:
            quiet = [[h for h in own if not self._sending[self._hosts.tor[h]]] for own in roomy]
            most = max(range(len(roomy)), key=lambda pod: len(quiet[pod]))
            noisy = sorted(set(roomy[most]) - set(quiet[most]))
            rng.shuffle(quiet[most])
            rng.shuffle(noisy)
            chosen = [*quiet[most], *noisy][: one.hosts]
        else:
            (pod,) = rng.choices(roomy, [len(own) for own in roomy])
            chosen = rng.sample(pod, one.hosts)
        return list(zip(chosen, amounts, strict=True))

    def use(self, placed: Sequence[tuple[int, int]], sign: int) -> None:
        """Take hosts, or give them back."""
        sends = len(placed) > 1 and any(gpus for _, gpus in placed)
        for host, gpus in placed:
            self._free[host] -= sign * gpus
            self._sending[self._hosts.tor[host]] += sign * sends
