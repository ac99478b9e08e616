"""One phase: some jobs of a scenario, on a fabric, under one variant, from start to end."""

from __future__ import annotations

import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hostcc.lab import actions, agents, cgroup, ecn, netns
from hostcc.lab.errors import LabError
from hostcc.lab.fabric import LEFT, RIGHT, Fabric
from hostcc.lab.launch import Iteration, Options, Rank, start_background, start_job
from hostcc.lab.plan import ideal_seconds
from hostcc.lab.scenario import JobSpec, Scenario
from hostcc.lab.shaping import QueueCounters
from hostcc.lab.variants import Variant

SAMPLE_MS = 5
READY_PATIENCE_S = 60.0
LEAD_S = 0.1
"""From the release of the barrier to the common start time."""
COMMAND_ITERATION_S = 1.0
"""Taken for a command's iteration when its job gives neither compute_ms nor comm_ms."""
SLOWEST = 8.0
"""A phase is given up when it takes so many times its ideal time, plus patience."""

Progress = Callable[[int], None]


@dataclass
class PhaseResult:
    """What was measured."""

    start: float = 0.0
    """CLOCK_MONOTONIC seconds of the common start."""
    iterations: dict[str, tuple[Iteration, ...]] = field(default_factory=dict)
    retransmitted: dict[str, tuple[int, int]] = field(default_factory=dict)
    queues: dict[str, QueueCounters] = field(default_factory=dict)
    marked: int = 0
    """Packets that arrived with CE."""
    agents: dict[str, dict[str, float]] = field(default_factory=dict)
    """CPU and memory of each host's agent at the end."""
    events: list[tuple[float, str, str]] = field(default_factory=list)
    """Actions: seconds since the start, what, what went wrong."""
    series: Path | None = None


@dataclass(frozen=True)
class PhasePlan:
    """What to run."""

    scenario: Scenario
    jobs: tuple[JobSpec, ...]
    variant: Variant
    iterations: int
    background: bool = True
    actions: bool = True
    seed: int = 1
    series: Path | None = None
    """Where to record bandwidth; None: do not."""


def run(fabric: Fabric, plan: PhasePlan, progress: Progress) -> PhaseResult:
    """Run a phase to its end; raises LabError when a job fails or takes far too long."""
    names = {job.name for job in plan.jobs}
    hosts = [host for host in fabric.hosts if host.owner in names and not host.background]
    fabric.set_congestion_control(plan.variant.default_control)
    running: list[agents.Agent] = []
    if plan.variant.agent is not None:
        over, gossiping = plan.variant.agent, plan.scenario.gossip
        running = agents.start(fabric, hosts, over, gossiping=gossiping)
    ranks: list[Rank] = []
    try:
        ranks = _start_traffic(fabric, plan, running)
        return _measure(fabric, plan, ranks, running, progress)
    finally:
        for rank in ranks:
            rank.process.kill()
            rank.process.wait()
            for stream in (rank.process.stdin, rank.process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
        agents.stop(running)
        for host in hosts:
            cgroup.empty(fabric.cgroup_of(host))


def _start_traffic(fabric: Fabric, plan: PhasePlan, running: Sequence[agents.Agent]) -> list[Rank]:
    options = Options(plan.iterations, plan.variant.socket_control, plan.seed)
    by_host: Mapping[str, agents.Agent] = {agent.host.name: agent for agent in running}
    ranks: list[Rank] = []
    for number, job in enumerate(plan.scenario.job):
        if job not in plan.jobs:
            continue
        wrappers = {name: agents.wrapper(agent, job, fabric) for name, agent in by_host.items()}
        ranks += start_job(fabric, job, number, options, wrappers)
    if plan.background:
        for number, background in enumerate(plan.scenario.background):
            ranks += start_background(fabric, background, number)
    return ranks


class _Watch:
    """Reads all ranks' output; knows when the phase is over."""

    def __init__(self, plan: PhasePlan, ranks: list[Rank]) -> None:
        self.ranks = ranks
        self.plan = plan
        self.selector = selectors.DefaultSelector()
        for rank in ranks:
            self.selector.register(rank.stdout_fd, selectors.EVENT_READ, rank)
        self.job_ranks = [rank for rank in ranks if not rank.host.background]

    def poll(self, timeout: float) -> None:
        for key, _ in self.selector.select(timeout):
            rank: Rank = key.data
            rank.read(time.monotonic())
            if rank.finished:
                self.selector.unregister(rank.stdout_fd)
                self._check(rank)

    def _check(self, rank: Rank) -> None:
        status = rank.process.wait()
        if status:
            words = " ".join(rank.log.read_text(errors="replace").split())[-400:]
            raise LabError(f"job {rank.job} on {rank.host.name}: exit status {status}: {words}")

    def iterations(self, job: JobSpec) -> list[Iteration]:
        """Those of the lowest rank that reports any."""
        for rank in self.job_ranks:
            if rank.job == job.name and rank.iterations:
                return rank.iterations
        return []

    @property
    def least(self) -> int:
        """Iterations of the job that is farthest from its aim, among those that stay."""
        counts = [len(self.iterations(job)) for job in self.plan.jobs if not _leaves(job)]
        return min(counts, default=0)

    @property
    def finished(self) -> bool:
        return all(rank.finished for rank in self.job_ranks)


def _leaves(job: JobSpec) -> bool:
    """Whether a job ends by itself."""
    return bool(job.iterations or job.stop_after_ms or job.command)


def _measure(
    fabric: Fabric,
    plan: PhasePlan,
    ranks: list[Rank],
    running: list[agents.Agent],
    progress: Progress,
) -> PhaseResult:
    watch = _Watch(plan, ranks)
    deadline = time.monotonic() + READY_PATIENCE_S
    while any(rank.waits and not rank.ready for rank in ranks):
        watch.poll(0.5)
        if time.monotonic() > deadline:
            late = ", ".join(rank.host.name for rank in ranks if rank.waits and not rank.ready)
            raise LabError(f"not ready after {READY_PATIENCE_S:g} s: {late}")
    result = PhaseResult()
    queues = fabric.counters()
    marked = _marked(fabric)
    sampler = _start_sampler(fabric, plan.series) if plan.series else None
    result.start = time.monotonic() + LEAD_S
    for rank in ranks:
        if rank.waits:
            rank.tell(f"start {round(result.start * 1e9)}")
    try:
        _follow(watch, plan, running, result, progress)
    finally:
        if sampler is not None:
            _stop_sampler(sampler)
    for direction, counters in fabric.counters().items():
        result.queues[direction] = counters - queues[direction]
    result.marked = _marked(fabric) - marked
    result.series = plan.series
    for agent in running:
        result.agents[agent.host.name] = agents.usage(agent)
    for job in plan.jobs:
        result.iterations[job.name] = tuple(watch.iterations(job))
        mine = [rank for rank in ranks if rank.job == job.name]
        result.retransmitted[job.name] = (
            sum(rank.retransmitted for rank in mine),
            sum(rank.sent for rank in mine),
        )
    return result


def _follow(
    watch: _Watch,
    plan: PhasePlan,
    running: list[agents.Agent],
    result: PhaseResult,
    progress: Progress,
) -> None:
    """Watch until every job has left or been told to."""
    pending = actions.Pending(list(plan.scenario.action) if plan.actions else [])
    limit = result.start + _patience_s(plan)
    stopping = False
    while not watch.finished:
        elapsed = time.monotonic() - result.start
        wait = pending.next_in(elapsed)
        watch.poll(0.5 if wait is None else min(0.5, wait))
        progress(watch.least)
        done = len(watch.iterations(plan.jobs[0])) if plan.jobs else 0
        for spec in pending.due(time.monotonic() - result.start, done):
            at = time.monotonic() - result.start
            result.events.append((at, actions.label(spec), actions.perform(spec, running)))
        staying = [job for job in plan.jobs if not _leaves(job)]
        if not stopping and staying and watch.least >= plan.iterations:
            stopping = True
            for rank in watch.job_ranks:
                rank.tell("stop")
        if time.monotonic() > limit:
            raise LabError(f"gave up after {limit - result.start:.0f} s: too slow to be useful")
        if not plan.jobs and elapsed > plan.iterations:
            return


def _patience_s(plan: PhasePlan) -> float:
    fabric = plan.scenario.fabric
    longest = 0.0
    for job in plan.jobs:
        count = max(job.iterations, plan.iterations)
        each = ideal_seconds(job, fabric) or COMMAND_ITERATION_S
        longest = max(longest, job.start_ms / 1e3 + count * each)
    return READY_PATIENCE_S + SLOWEST * longest * max(1, len(plan.jobs) // 2)


def _marked(fabric: Fabric) -> int:
    if not fabric.spec.ecn_threshold_packets:
        return 0
    return sum(ecn.marked_packets(fabric.namespace(host.name)) for host in fabric.hosts)


def _start_sampler(fabric: Fabric, out: Path) -> subprocess.Popen[bytes]:
    return netns.spawn(
        [
            sys.executable,
            "-m",
            "hostcc.lab.sampler",
            str(out),
            str(SAMPLE_MS),
            fabric.namespace(LEFT),
            fabric.namespace(RIGHT),
        ],
        namespace=fabric.namespace(RIGHT),
        cgroup=fabric.state.host_cgroup(RIGHT),
        nice=-10,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )


def _stop_sampler(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    if process.wait(timeout=30):
        raise LabError("the bandwidth sampler failed")
