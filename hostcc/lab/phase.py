"""One phase: some jobs of a scenario, on a network, under one variant, from start to end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hostcc.lab import actions, agents, cgroup, events, netns, tcp_counts
from hostcc.lab.errors import LabError
from hostcc.lab.launch import Iteration, Options, Rank, start_background, start_job
from hostcc.lab.network import Network
from hostcc.lab.phase_watch import Watch, leaves
from hostcc.lab.scenario import JobSpec, Scenario
from hostcc.lab.scenario_hosts import ideal_seconds
from hostcc.lab.segments import Segment
from hostcc.lab.shaping import QueueCounters
from hostcc.lab.tcp_counts import TcpCounts
from hostcc.lab.topology import LabHost
from hostcc.lab.variants import Variant

SAMPLE_INTERVAL_MS = 5
SNAPSHOT_INTERVAL_S = 0.25
"""Between two snapshots of which path each flow takes."""
READY_PATIENCE_S = 60.0
START_LEAD_S = 0.1
"""From the release of the barrier to the common start time."""
COMMAND_ITERATION_S = 1.0
"""Taken for a command's iteration when its job gives neither compute_ms nor comm_ms."""
LAST_ITERATIONS = 4
"""Of jobs that end by themselves: so many before their end agents are asked for their turns."""
MAX_SLOWDOWN = 8.0
"""A phase that takes more than this times its ideal duration, plus patience, is given up."""

Progress = Callable[[int], None]
LiveWatch = Callable[[Network, Sequence[JobSpec], str], AbstractContextManager[object]]
"""Watches jobs for as long as a block takes; the last argument is a title."""


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
    tcp: TcpCounts = field(default_factory=TcpCounts)
    resets: int = 0
    """Of jobs' connections before the jobs were told to leave."""
    turns: dict[str, float] = field(default_factory=dict)
    """Job -> since when it took turns, CLOCK_MONOTONIC seconds, of those that did at the end."""
    snapshots: list[tuple[float, tuple[Segment, ...]]] = field(default_factory=list)
    """Time, CLOCK_MONOTONIC seconds, and which paths every flow had taken until then."""


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
    status: Path | None = None
    """Where to keep what the agents say of themselves at the end; None: do not."""
    live: LiveWatch | None = None
    """Watches while the jobs run; None: nobody does."""
    title: str = ""
    """What that calls the phase."""


def run(network: Network, plan: PhasePlan, progress: Progress) -> PhaseResult:
    """Run a phase to its end; raises LabError when a job fails or takes far too long."""
    phase = _Phase(network, plan, progress)
    network.set_congestion_control(plan.variant.default_control)
    try:
        phase.start()
        return phase.measure()
    finally:
        phase.end()


class _Phase:
    """What runs, and what has been measured of it so far."""

    def __init__(self, network: Network, plan: PhasePlan, progress: Progress) -> None:
        self.network, self.plan, self.progress = network, plan, progress
        self.result = PhaseResult()
        self.agents: list[agents.Agent] = []
        self.ranks: list[Rank] = []
        on = [(host, job.name) for job in plan.jobs for host in network.members(job)]
        self.hosts: dict[str, LabHost] = {host.name: host for host, _ in on}
        self.jobs_of = {
            name: frozenset(job for host, job in on if host.name == name) for name in self.hosts
        }
        self.later = events.started_later(plan.scenario) if plan.actions else frozenset()
        self.snapshot_at = 0.0
        self.resets = 0

    def start(self) -> None:
        """Agents, then jobs and background; they wait to be released."""
        plan, hosts = self.plan, list(self.hosts.values())
        if plan.variant.agent is not None:
            over, gossiping = plan.variant.agent, plan.scenario.gossip
            self.agents = agents.start(
                self.network, hosts, over, gossiping=gossiping, jobs=self.jobs_of
            )
        for job in plan.jobs:
            if job.name not in self.later:
                self._start_job(job)
        if plan.background:
            for number, background in enumerate(plan.scenario.background):
                self.ranks += start_background(self.network, background, number)
        self.watch = Watch(plan.jobs, self.ranks, self.later)
        self.watch.wait_ready(self.ranks, READY_PATIENCE_S)

    def _start_job(self, job: JobSpec) -> list[Rank]:
        number = self.plan.scenario.job.index(job)
        options = Options(
            self.plan.iterations,
            self.plan.variant.socket_control,
            self.plan.seed,
            fixed_ports=self.network.fixed_ports,
        )
        wrappers = {
            agent.host.name: agents.wrapper(agent, job, self.network) for agent in self.agents
        }
        made = start_job(self.network, job, number, options, wrappers)
        self.ranks += made
        return made

    def arrive(self, name: str) -> None:
        """Start a job in mid-run, and release it at once."""
        job = next(job for job in self.plan.jobs if job.name == name)
        made = self._start_job(job)
        self.watch.add(made)
        self.watch.wait_ready(made, READY_PATIENCE_S)
        _release(made, time.monotonic())

    def measure(self) -> PhaseResult:
        """From the common start to the end of all jobs."""
        network, plan, result = self.network, self.plan, self.result
        namespaces = [network.namespace(name) for name in self.hosts]
        network.forget()
        queues, marked = network.counters(), network.marked()
        counted, self.resets = tcp_counts.read(namespaces), network.resets()
        sampler = _start_sampler(network, plan.series) if plan.series else None
        try:
            if sampler is not None:
                _await_samples(sampler)
            result.start = time.monotonic() + START_LEAD_S
            live = plan.live(network, plan.jobs, plan.title) if plan.live else nullcontext()
            with live:
                _release(self.ranks, result.start)
                self._follow()
        finally:
            if sampler is not None:
                _stop_sampler(sampler)
        self._take_snapshot()
        for name, counters in network.counters().items():
            result.queues[name] = counters - queues[name]
        result.marked = network.marked() - marked
        result.tcp = tcp_counts.read(namespaces) - counted
        result.series = plan.series
        for agent in self.agents:
            result.agents[agent.host.name] = agents.usage(agent)
        if plan.status is not None:
            plan.status.write_text(json.dumps(agents.statuses(self.agents)))
        for job in plan.jobs:
            result.iterations[job.name] = tuple(self.watch.iterations(job))
            mine = [rank for rank in self.ranks if rank.job == job.name]
            result.retransmitted[job.name] = (
                sum(rank.retransmitted for rank in mine),
                sum(rank.sent for rank in mine),
            )
        return result

    def _count_resets(self) -> None:
        """Unless a job has been told to leave, which may reset its connections."""
        if self.watch.staying == [job for job in self.plan.jobs if not leaves(job)]:
            self.result.resets = self.network.resets() - self.resets

    def _take_snapshot(self) -> None:
        seen = self.network.segments()
        if seen:
            self.result.snapshots.append((time.monotonic(), seen))
        self.snapshot_at = time.monotonic()

    def _follow(self) -> None:
        """Watch until every job has left or been told to."""
        plan, watch, result = self.plan, self.watch, self.result
        pending = actions.Pending(list(plan.scenario.action) if plan.actions else [])
        stage = events.Stage(self.network, self.agents, watch, self.arrive)
        limit = result.start + _patience_s(plan)
        stopping = asked = False
        while not watch.finished:
            elapsed = time.monotonic() - result.start
            wait = pending.next_in(elapsed)
            watch.poll(SNAPSHOT_INTERVAL_S if wait is None else min(SNAPSHOT_INTERVAL_S, wait))
            if time.monotonic() - self.snapshot_at >= SNAPSHOT_INTERVAL_S:
                self._take_snapshot()
            self.progress(watch.least)
            done = len(watch.iterations(plan.jobs[0])) if plan.jobs else 0
            for spec in pending.due(time.monotonic() - result.start, done):
                if actions.label(spec).startswith("stop-job"):
                    self._count_resets()
                at = time.monotonic() - result.start
                result.events.append((at, actions.label(spec), events.perform(spec, stage)))
            if not stopping and watch.staying and watch.least >= plan.iterations:
                stopping = True
                self._count_resets()
                result.turns = agents.turns_since(self.agents)
                watch.stop([job.name for job in plan.jobs])
            elif not asked and watch.all_leave and watch.most >= plan.iterations - LAST_ITERATIONS:
                asked = True
                result.turns = agents.turns_since(self.agents)
            if time.monotonic() > limit:
                raise LabError(f"gave up after {limit - result.start:.0f} s: too slow to be useful")
            if not plan.jobs and elapsed > plan.iterations:
                return

    def end(self) -> None:
        """End everything that was started."""
        for rank in self.ranks:
            rank.process.kill()
            rank.process.wait()
            for stream in (rank.process.stdin, rank.process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
        agents.stop(self.agents)
        for host in self.hosts.values():
            cgroup.empty(self.network.cgroup_of(host))
        self.network.restore()


def _release(ranks: Sequence[Rank], at: float) -> None:
    for rank in ranks:
        if rank.waits:
            rank.tell(f"start {round(at * 1e9)}")


def _patience_s(plan: PhasePlan) -> float:
    fabric = plan.scenario.fabric
    longest = 0.0
    for job in plan.jobs:
        count = max(job.iterations, plan.iterations)
        each = ideal_seconds(job, fabric) or COMMAND_ITERATION_S
        longest = max(longest, job.start_ms / 1e3 + count * each)
    last = max((spec.at_ms or 0.0 for spec in plan.scenario.action), default=0.0) / 1e3
    return READY_PATIENCE_S + MAX_SLOWDOWN * longest * max(1, len(plan.jobs) // 2) + last


def _start_sampler(network: Network, out: Path) -> subprocess.Popen[bytes]:
    switches = network.sampled()
    return netns.spawn(
        [
            sys.executable,
            "-m",
            "hostcc.lab.sampler",
            str(out),
            str(SAMPLE_INTERVAL_MS),
            *(network.namespace(switch) for switch in switches),
        ],
        namespace=network.namespace(switches[-1]),
        cgroup=network.state.host_cgroup(switches[-1]),
        nice=-10,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _await_samples(process: subprocess.Popen[bytes]) -> None:
    """Before traffic begins: on a busy machine it waits for a processor first."""
    assert process.stdout is not None
    if not process.stdout.readline():
        raise LabError("the bandwidth sampler failed")


def _stop_sampler(process: subprocess.Popen[bytes]) -> None:
    process.communicate(timeout=30)
    if process.returncode:
        raise LabError("the bandwidth sampler failed")
