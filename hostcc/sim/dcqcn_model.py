"""DCQCN senders of training jobs on one bottleneck: a rate model in fixed time steps.

Reaction point, switch and notification point follow Zhu et al., "Congestion Control for Large-Scale
RDMA Deployments", SIGCOMM 2015, sections 3 and 5. Jobs compute, send their bytes over some queue
pairs, and start again when the last of these is done. F may scale R_AI as MLTCP does, or T may
differ between jobs, as in Rajasekaran's thesis (2025), section 3.1.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

STEP_S = 50e-6
"""Time step; also the shortest time between two CNPs of a flow."""
PACKET_BYTES = 1024.0
Scale = Callable[[float], float]
"""F: the factor on R_AI at a bytes_ratio."""
Watch = Callable[[float, str, float], None]
"""Told the time at the end of a step, a job that sends, and its bytes in the step."""


@dataclass(frozen=True)
class Link:
    """The bottleneck and its RED marking."""

    rate: float = 50e9 / 8
    """Bytes/s."""
    kmin: float = 5e3
    kmax: float = 200e3
    pmax: float = 0.01
    """Marking probability at a queue of kmax bytes; 0 below kmin, 1 above kmax."""
    buffer: float = 4e6


@dataclass(frozen=True)
class Sender:
    """Parameters of the reaction point; rates in bytes/s."""

    t_s: float = 125e-6
    """T: seconds between rate increases."""
    byte_reset: float = 10e6
    """B: bytes between rate increases."""
    ai: float = 40e6 / 8
    hai: float = 400e6 / 8
    rounds: int = 5
    """Rounds of fast recovery."""
    g: float = 1 / 256
    alpha_s: float = 55e-6
    least: float = 40e6 / 8
    mltcp: Scale | None = None
    update_s: float = 0.0
    """Seconds between updates of R_AI by F; 0: always up to date. Writing to a NIC takes
    milliseconds."""


@dataclass(frozen=True)
class TrainingJob:
    """A job that computes and sends in turn."""

    name: str
    compute_s: float
    bytes: float
    """Bytes per iteration, split evenly over its flows."""
    sender: Sender = field(default_factory=Sender)
    start_s: float = 0.0
    flows: int = 4
    """Queue pairs; with a single one, random marks alone would separate jobs."""
    rate: float = math.inf
    """Most that its hosts send, bytes/s: an exchange need not fill the link."""


@dataclass
class _Job:
    job: TrainingJob
    until: float = 0.0
    """End of the present computation."""
    began: float = 0.0
    left: float = 0.0
    """Remaining bytes of this iteration."""
    scale: float = 1.0
    scaled_at: float = -math.inf
    durations: list[float] = field(default_factory=list)

    def begin(self, now: float) -> None:
        self.began, self.until, self.left = now, now + self.job.compute_s, self.job.bytes

    def factor(self, now: float) -> float:
        """Return F as the NIC knows it now."""
        sender = self.job.sender
        if sender.mltcp is not None and now - self.scaled_at >= sender.update_s:
            self.scaled_at = now
            self.scale = sender.mltcp(1 - max(self.left, 0.0) / self.job.bytes)
        return self.scale


@dataclass
class _Flow:
    owner: _Job
    sender: Sender
    link: Link
    rate: float = 0.0
    target: float = 0.0
    alpha: float = 1.0
    timer: float = 0.0
    alpha_timer: float = 0.0
    sent_since: float = 0.0
    by_time: int = 0
    by_bytes: int = 0
    left: float = 0.0

    def restart_at_line_rate(self) -> None:
        self.rate = self.target = self.link.rate
        self.alpha = 1.0
        self.timer = self.alpha_timer = self.sent_since = 0.0
        self.by_time = self.by_bytes = 0

    def reduce_rate(self) -> None:
        """React to a CNP (equation 1)."""
        self.target = self.rate
        self.rate = max(self.rate * (1 - self.alpha / 2), self.sender.least)
        self.alpha = (1 - self.sender.g) * self.alpha + self.sender.g
        self.timer = self.alpha_timer = self.sent_since = 0.0
        self.by_time = self.by_bytes = 0

    def raise_rates(self, now: float, sent: float) -> None:
        """Advance timers and byte counter by one step without a CNP (equations 2 to 4)."""
        sender = self.sender
        self.alpha_timer += STEP_S
        while self.alpha_timer >= sender.alpha_s:
            self.alpha_timer -= sender.alpha_s
            self.alpha *= 1 - sender.g
        self.timer += STEP_S
        self.sent_since += sent
        while self.timer >= sender.t_s:
            self.timer -= sender.t_s
            self.by_time += 1
            self._raise(now)
        while self.sent_since >= sender.byte_reset:
            self.sent_since -= sender.byte_reset
            self.by_bytes += 1
            self._raise(now)

    def _raise(self, now: float) -> None:
        sender = self.sender
        most, fewest = max(self.by_time, self.by_bytes), min(self.by_time, self.by_bytes)
        if most > sender.rounds:
            step = sender.hai if fewest > sender.rounds else sender.ai
            self.target = min(self.target + step * self.owner.factor(now), self.link.rate)
        self.rate = min((self.rate + self.target) / 2, self.link.rate)


def run(
    jobs: Sequence[TrainingJob],
    link: Link,
    iterations: int,
    seed: int,
    limit_s: float = 600.0,
    watch: Watch | None = None,
) -> dict[str, list[float]]:
    """Return job -> seconds of each of its first `iterations` iterations.

    Deterministic for a seed, which decides which packets are marked. Jobs continue until the last
    has finished its iterations, so that none has the link to itself at the end.
    """
    rng = random.Random(seed)
    running = [_Job(job) for job in jobs]
    for one in running:
        one.begin(one.job.start_s)
    flows = [_Flow(one, one.job.sender, link) for one in running for _ in range(one.job.flows)]
    sending = [False] * len(flows)
    queue, now = 0.0, 0.0
    while now < limit_s and any(len(one.durations) < iterations for one in running):
        if all(now < one.until for one in running):
            # No job sends: drain the queue and skip to the next one that does.
            then = min(one.until for one in running)
            queue = max(0.0, queue - (then - now) * link.rate)
            now = math.ceil(then / STEP_S - 1e-9) * STEP_S
        for place, flow in enumerate(flows):
            if now >= flow.owner.until and not sending[place]:
                sending[place] = True
                flow.left = flow.owner.job.bytes / flow.owner.job.flows
                flow.restart_at_line_rate()
        before = [one.left for one in running]
        queue = _step([flow for flow in flows if flow.left > 0], link, queue, now, rng)
        now += STEP_S
        _tell(watch, now, running, before)
        for one in running:
            if now > one.until and one.left <= 1e-3:
                one.durations.append(now - one.began)
                one.begin(now)
                for place, flow in enumerate(flows):
                    if flow.owner is one:
                        sending[place] = False
    return {one.job.name: one.durations[:iterations] for one in running}


def _tell(
    watch: Watch | None, now: float, running: Sequence[_Job], before: Sequence[float]
) -> None:
    if watch is None:
        return
    for one, left in zip(running, before, strict=True):
        if left > one.left:
            watch(now, one.job.name, left - one.left)


def _step(
    senders: Sequence[_Flow], link: Link, queue: float, now: float, rng: random.Random
) -> float:
    """Advance all senders by one step; return the queue after it."""
    wished: dict[int, float] = {}
    most: dict[int, float] = {}
    for flow in senders:
        wished[id(flow.owner)] = wished.get(id(flow.owner), 0.0) + flow.rate
        most[id(flow.owner)] = min(link.rate, flow.owner.job.rate)
    # A job's queue pairs share its NIC, which is at most as fast as the link.
    nic = {owner: min(1.0, most[owner] / rate) for owner, rate in wished.items()}
    room = link.rate * STEP_S
    offered = sum(rate * nic[owner] for owner, rate in wished.items()) * STEP_S
    # What the buffer cannot take is held back at the senders (PFC), in proportion.
    accepted = min(offered, max(room + link.buffer - queue, 0.0))
    part = accepted / offered * STEP_S if offered else 0.0
    mark = marking(link, queue)
    for flow in senders:
        sent = min(flow.rate * nic[id(flow.owner)] * part, flow.left)
        flow.left -= sent
        flow.owner.left -= sent
        if mark and rng.random() < 1 - (1 - mark) ** (sent / PACKET_BYTES):
            flow.reduce_rate()
        else:
            flow.raise_rates(now, sent)
    return max(0.0, queue + accepted - room)


def marking(link: Link, queue: float) -> float:
    """Return the probability that a packet is marked at a queue length."""
    if queue <= link.kmin:
        return 0.0
    if queue > link.kmax:
        return 1.0
    return link.pmax * (queue - link.kmin) / (link.kmax - link.kmin)
