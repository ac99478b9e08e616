"""CPU and memory of the agent, idle and with open flows.

An agent runs in a network namespace as a user would start it; a job of its host holds
connections to another host open.  Nothing is sent over them, so the figures are the cost of
open connections.  Then jobs that exchange every period are added, for the cost of learning
them, and after that of metering and following them.  With `--gossip` the other host has an
agent, too, and the two gossip; the first one is measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from benchmarks import options, usage
from benchmarks.context import Context
from benchmarks.harness import repeated
from benchmarks.headings import Heading, cells, columns
from benchmarks.holder import most
from benchmarks.record import Column, Record
from hostcc.client import ask
from hostcc.lab import agents, cgroup, netns
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.errors import LabError
from hostcc.lab.scenario import FabricSpec
from hostcc.lab.scenario_hosts import Host

JOB = "holder"
PORT, LOAD_PORT = 5000, 5001
SETTLE_S = 2.0
"""Between a change and the measurement."""
HEARD_PATIENCE_S = 120.0
KNOWN_PATIENCE_S = 60.0
"""For jobs that are not known after --learn: on a busy machine their bursts are not alike."""
HOLDER, LOAD = "benchmarks.holder", "benchmarks.agent_cost_load"
AT_ONCE = 4
"""Jobs that are started at the same time: all would keep a small machine from its jobs."""


class KeyedFabric(Dumbbell):
    """Agents gossip with keys, as between real hosts."""

    secured = True


class Figures(msgspec.Struct, frozen=True):
    """One run with one number of flows."""

    flows_seen: Annotated[int, Heading("seen by the agent", 0)]
    """Flows of the job, as the agent reports them."""
    jobs_known: Annotated[int, Heading("of known period", 0)]
    """Other jobs whose period has been found."""
    peers_alive: Annotated[int, Heading("agents it hears", 0)]
    """Other agents that are alive for it."""
    learning_percent: Annotated[float, Heading("CPU % until then", 2)]
    """The agent's part of one CPU from before the first job's start until the measurement."""
    cpu_percent: Annotated[float, Heading("CPU %", 2)]
    """Of one CPU."""
    resident_bytes: Annotated[int, Heading("resident MB", 1, 1e-6)]
    open_cpu_us: Annotated[float, Heading("CPU us / flow opened", 1)]
    """The agent's CPU time for each flow that was opened; 0 when there was none."""
    others_percent: Annotated[float, Heading("rest of the machine %", 1)]
    """The rest of the machine, of one CPU: the noise."""
    stolen_percent: Annotated[float, Heading("stolen %", 2)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Numbers of flows, length of the measurement."""
    parser.add_argument(
        "--open",
        type=options.wholes("--open", 0, most()),
        default=(0, 100, 10_000),
        metavar="N,N,...",
        help="open flows, in this order (default: 0,100,10000)",
    )
    parser.add_argument(
        "--jobs",
        type=options.wholes("--jobs", 0, 100),
        default=(0,),
        metavar="N,N,...",
        help="then, with the most flows, jobs that exchange every period (default: 0)",
    )
    parser.add_argument(
        "--period",
        type=options.fraction("--period", 0.01, 60),
        default=0.24,
        metavar="S",
        help="period of those jobs (default: %(default)s)",
    )
    parser.add_argument(
        "--burst",
        type=options.whole("--burst", 1, 1 << 30),
        default=1_000_000,
        metavar="BYTES",
        help="bytes that each of them sends every period (default: %(default)s)",
    )
    parser.add_argument(
        "--learn",
        type=options.fraction("--learn", 0, 600),
        default=12.0,
        metavar="S",
        help="time between their start and the measurement (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=options.fraction("--seconds", 0.5, 7200),
        default=20.0,
        metavar="S",
        help="length of each measurement (default: %(default)s)",
    )
    parser.add_argument(
        "--gossip",
        action="store_true",
        help="the other host has an agent, too, and the two gossip, with keys",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    counts, jobs = tuple(sorted(args.open)), tuple(sorted(set(args.jobs) - {0}))
    steps = [*((count, 0) for count in counts), *((counts[-1], number) for number in jobs)]
    parameters = {
        "open": list(counts), "jobs": list(jobs), "period": args.period, "burst": args.burst,
        "learn": args.learn, "seconds": args.seconds, "gossip": args.gossip,
    }  # fmt: skip
    runs, failures = repeated(
        context,
        list[Figures],
        "agent-cost",
        parameters,
        lambda number: measure(steps, args, context, number),
    )
    return Record(
        benchmark="agent-cost",
        title="the agent's own use of the machine",
        parameters={**parameters, "runs": context.runs},
        columns=[
            Column("flows", "open flows", digits=0),
            *columns(Figures, "flows_seen"),
            Column("jobs", "jobs that exchange", digits=0),
            *columns(Figures)[1:],
        ],
        rows=[
            {
                "flows": count,
                "jobs": others,
                **cells([found[index] for found in runs]),
            }
            for index, (count, others) in enumerate(steps)
            if runs
        ],
        notes=[f"per cent of one CPU over {args.seconds:g} s, on the scheduler's own clock"],
        failures=failures,
    )


def measure(
    steps: Sequence[tuple[int, int]], args: argparse.Namespace, context: Context, number: int
) -> list[Figures]:
    """One run: the same agent with more and more (flows, jobs that exchange); raises LabError."""
    hosts = (Host(1, JOB, 0, left=True), Host(2, JOB, 1, left=False))
    with KeyedFabric(FabricSpec(rate_mbit=1000.0, gso_max_segs=64), hosts) as fabric:
        profiled = {"measure": {"jobs_max": 1 + max(jobs for _, jobs in steps)}}
        with_agents = hosts if args.gossip else hosts[:1]
        running = agents.start(fabric, with_agents, profiled, gossiping=args.gossip)
        started: list[subprocess.Popen[bytes]] = []
        try:
            if args.gossip:
                _until_heard(running[0])
            server = _start(fabric, hosts[1], [], HOLDER, "listen", hosts[1].address, PORT)
            started.append(server)
            _answer(server, "listening")
            wrapped = _wrapped(running[0], JOB)
            client = _start(fabric, hosts[0], wrapped, HOLDER, "connect", hosts[1].address, PORT)
            started.append(client)
            found, before = [], (0, 0)
            for step, (count, jobs) in enumerate(steps):
                context.tell(f"{count} flows, {jobs} jobs #{number}", step, len(steps))
                began = usage.read(running[0].process.pid) if jobs else None
                if jobs > before[1] == 0:
                    server = _start(fabric, hosts[1], [], LOAD, "take", hosts[1].address, LOAD_PORT)
                    started.append(server)
                    _answer(server, "listening")
                for one in range(before[1], jobs, AT_ONCE):
                    several = range(one, min(one + AT_ONCE, jobs))
                    batch = _exchanging(fabric, hosts, running[0], several, args)
                    started += batch
                    for job in batch:
                        _answer(job, "sending")
                _learn(running[0], jobs, args.learn)
                more = count - before[0]
                found.append(_with_flows(client, running[0], count, more, args.seconds, began))
                before = count, jobs
            return found
        finally:
            for process in started:
                process.kill()
                process.wait()
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        stream.close()
            agents.stop(running)
            for host in hosts:
                cgroup.empty(fabric.cgroup_of(host))


def _exchanging(
    fabric: Dumbbell,
    hosts: Sequence[Host],
    agent: agents.Agent,
    numbers: Iterable[int],
    args: argparse.Namespace,
) -> list[subprocess.Popen[bytes]]:
    """Jobs of these numbers, started side by side: each says "sending" when it does."""
    load = LOAD, "send", hosts[1].address, LOAD_PORT, args.period, args.burst
    return [_start(fabric, hosts[0], _wrapped(agent, f"load-{one}"), *load) for one in numbers]


def _with_flows(
    client: subprocess.Popen[bytes],
    agent: agents.Agent,
    count: int,
    more: int,
    seconds: float,
    began: usage.Reading | None,
) -> Figures:
    """`began`: before the jobs of this step were started; None without jobs."""
    try:
        before = usage.read(agent.process.pid)
        assert client.stdin is not None
        client.stdin.write(f"{count}\n".encode())
        client.stdin.flush()
        _answer(client, f"open {count}")
        time.sleep(SETTLE_S)
        first = usage.read(agent.process.pid)
        time.sleep(seconds)
        last = usage.read(agent.process.pid)
    except OSError as error:
        raise LabError(f"{count} flows: the agent or the job is gone: {error}") from error
    used = usage.between(first, last)
    # Heartbeats while it opened are part of it; with many flows they do not show.
    opening_s = first.process_s - before.process_s
    return Figures(
        _flows_seen(agent),
        _jobs_known(agent),
        _peers_alive(agent),
        usage.between(began, before).process_percent if began else 0.0,
        used.process_percent,
        last.resident_bytes,
        1e6 * opening_s / more if more else 0.0,
        used.others_percent,
        used.stolen_percent,
    )


def _flows_seen(agent: agents.Agent) -> int:
    """From the agent's own status."""
    jobs = ask(agent.socket, "status")["jobs"]
    return sum(int(job["flows"]) for job in jobs if job["name"] == JOB)


def _jobs_known(agent: agents.Agent) -> int:
    rows = ask(agent.socket, "jobs", detail=True)["jobs"]
    return sum((row.get("profile") or {}).get("period_s") is not None for row in rows)


def _peers_alive(agent: agents.Agent) -> int:
    gossip = ask(agent.socket, "status")["gossip"]
    return int(gossip["members"].get("alive", 0)) if gossip else 0


def _until_heard(agent: agents.Agent) -> None:
    """To find each other is no part of what is measured."""
    deadline = time.monotonic() + HEARD_PATIENCE_S
    while not _peers_alive(agent):
        if time.monotonic() > deadline:
            raise LabError(f"the agents have not heard of each other in {HEARD_PATIENCE_S:g} s")
        time.sleep(0.1)


def _learn(agent: agents.Agent, jobs: int, seconds: float) -> None:
    """Let it learn for so long, and on until it knows all jobs, if it does in KNOWN_PATIENCE_S."""
    if not jobs or not seconds:
        return
    time.sleep(seconds)
    deadline = time.monotonic() + KNOWN_PATIENCE_S
    while _jobs_known(agent) < jobs and time.monotonic() < deadline:
        time.sleep(0.5)


def _wrapped(agent: agents.Agent, job: str) -> list[str]:
    return [*agents.HOSTCC, "run", "--job", job, "--socket", str(agent.socket), "--"]


def _start(
    fabric: Dumbbell, host: Host, wrapper: list[str], module: str, *words: object
) -> subprocess.Popen[bytes]:
    return netns.spawn(
        [*wrapper, sys.executable, "-m", module, *map(str, words)],
        namespace=fabric.namespace(host.name),
        cgroup=fabric.cgroup_of(host),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _answer(process: subprocess.Popen[bytes], expected: str) -> None:
    """Wait for a line; the holder gives up by itself when it cannot connect."""
    assert process.stdout is not None
    line = process.stdout.readline().decode(errors="replace").strip()
    if line != expected:
        raise LabError(f"holder: expected {expected!r}, got {line!r:.60}")
