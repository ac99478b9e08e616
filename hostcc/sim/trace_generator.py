"""Generates traces like the released Lingjun trace, for where the real files are not at hand.

Sizes, run times and status have the published counts; starts are placed so that concurrent jobs
and active GPUs follow the published curves. Everything else is random, by the seed.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from hostcc.sim.flowsim.workload import Floats, Ints
from hostcc.sim.trace_timeline import HOST_GPUS, LARGE

BURST_MINUTES = 60
"""Jobs that run for less are submitted again and again."""
MOST_OF_BURST = 30
SIZES_TRIED = 4
EXCHANGES = 20_000
GRID_MINUTES = 10
ABOVE_MAXIMUM = 1e6
"""Cost of a minute above the maximum of a curve."""
NO_WORKER = -1
"""In place of GPUs: a job without workers."""


@dataclass(frozen=True)
class PlannedJob:
    """A job before it has hosts; minutes since the first."""

    gpus: int
    """0: none; -1: it has no worker."""
    hosts: int
    """0: its workers say of none."""
    minutes: int | None
    """None: it never ran."""
    start: int
    series: int
    """Jobs of one series are one job, submitted again and again."""


@cache
def published() -> dict[str, Any]:
    """Return what was published of the Lingjun trace."""
    text = resources.files("hostcc.sim").joinpath("published/lingjun.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def curve(name: str) -> Ints:
    """Return a published curve by minute, from the first on."""
    points = published()[name]
    first, last = points[0][0], points[-1][0]
    minutes = np.array([minute for minute, _ in points]) - first
    values = np.array([value for _, value in points], np.int64)
    return values[np.searchsorted(minutes, np.arange(last - first), "right") - 1]


def minutes_like(name: str, count: int) -> list[int]:
    """Return so many times with the published percentiles, falling."""
    given = published()[name]
    shares = [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0]
    names = ["min", "p25", "p50", "p75", "p90", "p95", "p99", "max"]
    logs = np.log1p([given[name] for name in names])
    at = (np.arange(count) + 0.5) / count
    return sorted(np.rint(np.expm1(np.interp(at, shares, logs))).astype(int).tolist(), reverse=True)


def plan_jobs(rng: random.Random) -> list[PlannedJob]:
    """Return all jobs with sizes, run times and starts."""
    facts = published()
    sizes = [int(size) for size, count in facts["gpus_per_job"].items() for _ in range(count)]
    rng.shuffle(sizes)
    ran = facts["rows"]["jobs_in_both"] - facts["never_ran"]
    idle, sizes = sizes[ran:], sizes[:ran]
    alone = facts["rows"]["job"] - facts["rows"]["jobs_in_both"] - facts["status"]["Running"]
    sizes += [NO_WORKER] * alone
    times = minutes_like("run_minutes", len(sizes))
    large = [size for size in sizes if size >= LARGE]
    placing = _Placing(rng)
    own, others = _split(rng, times, len(large), placing.job_minutes)
    small = [size for size in sizes if size < LARGE]
    end = placing.minutes
    made = []
    rng.shuffle(others)
    for size, minutes in zip(small, others, strict=True):
        start = rng.randrange(max(1, end - minutes))
        placing.take(0, max(size, 0), start, minutes)
        made.append(PlannedJob(size, 0, minutes, start, -1))
    made += placing.place(large, own)
    made += [PlannedJob(size, 0, None, rng.randrange(end), -1) for size in idle]
    return _with_hosts(rng, made)


def _with_hosts(rng: random.Random, jobs: list[PlannedJob]) -> list[PlannedJob]:
    """Return jobs with as many hosts as their GPUs need, others as published of all jobs."""
    needed = [0 if job.gpus < 0 else -(-job.gpus // HOST_GPUS) for job in jobs]
    wanted = Counter({int(hosts): n for hosts, n in published()["hosts_per_job"].items()})
    wanted.subtract(Counter(hosts for hosts in needed if hosts))
    counts = sorted(hosts for hosts, count in wanted.items() for _ in range(max(count, 0)))
    rng.shuffle(counts)
    others = iter([*counts, *[1] * len(jobs)])
    return [
        replace(job, hosts=hosts or (0 if job.gpus < 0 else next(others)))
        for job, hosts in zip(jobs, needed, strict=True)
    ]


def _split(
    rng: random.Random, times: Sequence[int], count: int, wanted: float
) -> tuple[list[int], list[int]]:
    """Return times of large jobs, which add up to what is wanted, and the others."""
    shuffled = list(times)
    rng.shuffle(shuffled)
    own, others = shuffled[:count], shuffled[count:]
    total = sum(own)
    for _ in range(200_000):
        if abs(total - wanted) <= 1e-3 * wanted:
            break
        one, other = rng.randrange(len(own)), rng.randrange(len(others))
        after = total - own[one] + others[other]
        if abs(after - wanted) < abs(total - wanted):
            own[one], others[other], total = others[other], own[one], after
    return own, others


class _Placing:
    """What is left of the published curves, minute by minute."""

    def __init__(self, rng: random.Random) -> None:
        jobs, gpus = curve("large_jobs"), curve("active_gpus")
        self.minutes = min(len(jobs), len(gpus))
        self._rng = rng
        wanted = np.stack([jobs[: self.minutes], gpus[: self.minutes]]).astype(np.float64)
        self._most = wanted.max(axis=1, keepdims=True) - wanted
        """(2, minutes) How far each curve is below its maximum."""
        self._left: Floats = wanted
        """(2, minutes) Jobs and GPUs."""
        self.job_minutes = float(self._left[0].sum())
        self._scale = tuple(float(left.mean()) ** -2 for left in self._left)

    def take(self, jobs: int, gpus: int, start: int, minutes: int) -> None:
        """Put jobs there."""
        self._left[:, start : start + minutes] -= [[jobs], [gpus]]

    def place(self, sizes: Sequence[int], times: Sequence[int]) -> list[PlannedJob]:
        """Return starts of large jobs, the longest first, then bursts."""
        rest = list(sizes)
        self._rng.shuffle(rest)
        made = []
        order = sorted(times, reverse=True)
        long = [minutes for minutes in order if minutes >= BURST_MINUTES]
        for minutes in long:
            tried = sorted({self._rng.randrange(len(rest)) for _ in range(SIZES_TRIED)})
            (_, start), which = min((self._best(rest[which], minutes), which) for which in tried)
            gpus = rest[which]
            rest[which] = rest[-1]
            rest.pop()
            self.take(1, gpus, start, minutes)
            made.append(PlannedJob(gpus, 0, minutes, start, -1))
        self._exchange(made, rest)
        return made + self._bursts(rest, order[len(long) :])

    def _exchange(self, made: list[PlannedJob], rest: list[int]) -> None:
        """Exchange sizes of placed jobs for others while that comes closer to the curve."""
        left = self._left[1]
        for _ in range(EXCHANGES):
            one, other = self._rng.randrange(len(made)), self._rng.randrange(len(rest))
            job = made[one]
            less = job.gpus - rest[other]
            minutes = job.minutes or 0
            span = slice(job.start, job.start + minutes)
            closer = less * (less * minutes + 2 * float(left[span].sum())) < 0
            if closer and (less > 0 or (left[span] + self._most[1, span]).min() >= -less):
                left[span] += less
                made[one], rest[other] = replace(job, gpus=rest[other]), job.gpus

    def _bursts(self, sizes: Sequence[int], times: Sequence[int]) -> list[PlannedJob]:
        """Return series of short jobs of one size, one after the other."""
        order, short = sorted(sizes, reverse=True), list(times)
        self._rng.shuffle(short)
        made: list[PlannedJob] = []
        first, series = 0, 0
        while first < len(order):
            most = min(len(order), first + self._rng.randint(1, MOST_OF_BURST))
            last = next((k for k in range(first, most) if order[k] != order[first]), most)
            own = short[first:last]
            pauses = [self._rng.randint(1, 3) for _ in own]
            _, start = self._best(order[first], sum(own) + sum(pauses))
            for minutes, pause in zip(own, pauses, strict=True):
                self.take(1, order[first], start, minutes)
                made.append(PlannedJob(order[first], 0, minutes, start, series))
                start += minutes + pause
            first, series = last, series + 1
        return made

    def _best(self, gpus: int, minutes: int) -> tuple[float, int]:
        """Return how far a job is from the mean that is left for jobs, and its start.

        It starts where it leaves least of the curves and stays below their maxima, and ends before
        they do.
        """
        length = max(1, min(minutes, self.minutes - 1))
        starts = np.arange(0, self.minutes - length, GRID_MINUTES)
        cost = np.zeros(len(starts))
        rooms = []
        for left, most, amount, scale in zip(
            self._left, self._most, (1, gpus), self._scale, strict=True
        ):
            rooms.append(_means(left, starts, length))
            above = _means((left + most < amount).astype(np.float64), starts, length)
            cost += scale * amount * (amount - 2 * rooms[-1]) + ABOVE_MAXIMUM * above * length
        place = int(cost.argmin())
        mean = rooms[1][place] / max(rooms[0][place], 1.0)
        return abs(gpus - mean), int(starts[place])


def _means(values: Floats, starts: Ints, length: int) -> Floats:
    """Return the means of spans."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    found: Floats = (sums[starts + length] - sums[starts]) / length
    return found
