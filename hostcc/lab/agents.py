"""Run an agent on each lab host, as a user would: a configuration file and the command line."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hostcc.client import ask
from hostcc.errors import HostccError
from hostcc.lab import gossip_setup, netns
from hostcc.lab.errors import LabError
from hostcc.lab.leafspine_scenario import PlacedJobSpec
from hostcc.lab.network import Network
from hostcc.lab.scenario import JobSpec
from hostcc.lab.scenario_hosts import bytes_per_iteration
from hostcc.lab.toml import dump
from hostcc.lab.topology import LabHost
from hostcc.lab.variants import merge

HOSTCC = (sys.executable, "-m", "hostcc")
NICENESS = -10
"""Of agents, as the systemd unit has it."""
NICE = ("nice", "-n", str(NICENESS))
START_PATIENCE_S = 90.0
STOP_PATIENCE_S = 30.0
CLIENT_PATIENCE_S = 30.0
POLL_S = 0.05


@dataclass
class Agent:
    """One running agent."""

    host: LabHost
    process: subprocess.Popen[bytes]
    socket: Path
    log: Path
    jobs: frozenset[str] = frozenset()
    """That its host runs a part of."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it has beside ours."""

    @property
    def ready(self) -> bool:
        """Whether its control socket answers."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
        return True


def configuration(
    network: Network, host: LabHost, over: Mapping[str, Any], members: Sequence[LabHost] = ()
) -> dict[str, Any]:
    """hostcc.toml of one lab host, as a document; it gossips with `members`, if there are any."""
    base = {
        "agent": {
            "instance": host.name,
            "run_dir": str(network.run_dir / host.name),
            "cgroup_root": str(network.cgroup_of(host)),
            "network_namespaces": "own",
        },
        # The lab starts its jobs itself; many agents on one machine need not all look for more.
        "discover": {"enabled": False},
        "gpu": {"enabled": False},
        **({"gossip": gossip_setup.section(network, host, members)} if members else {}),
    }
    return merge(merge(base, network.agent_settings()), over)


def start(
    network: Network,
    hosts: Sequence[LabHost],
    over: Mapping[str, Any],
    *,
    gossiping: bool = False,
    jobs: Mapping[str, frozenset[str]] = MappingProxyType({}),
    environments: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    wait: bool = True,
) -> list[Agent]:
    """Start an agent on each of the hosts, and `wait` until all answer; `jobs` and what each has in
    its `environments` beside ours, by name of the host.

    Raises LabError with the end of its log when one does not.
    """
    agents: list[Agent] = []
    try:
        members = hosts if gossiping else ()
        if members and network.secured:
            gossip_setup.make_keys(network, members)
        for host in hosts:
            (network.run_dir / host.name).mkdir(exist_ok=True)
            document = configuration(network, host, over, members)
            config_path(network, host).write_text(dump(document))
            own = environments.get(host.name, {})
            agents.append(_spawn(network, host, jobs.get(host.name, frozenset()), own))
        if wait:
            _wait(agents)
    except BaseException:
        kill(agents)
        raise
    return agents


def restart(network: Network, agents: Sequence[Agent]) -> None:
    """Start those that have ended again, and wait until they answer.  Raises LabError."""
    dead = [agent for agent in agents if agent.process.poll() is not None]
    for agent in dead:
        relaunch(network, agent)
    _wait(dead)


def renew(network: Network, agents: Sequence[Agent]) -> str:
    """Stop agents, start them again, and wait until they manage the same jobs; returns which do
    not.  Raises LabError."""
    before = [_managed(agent) for agent in agents]
    stop(agents)
    restart(network, agents)
    deadline = time.monotonic() + START_PATIENCE_S
    late = list(zip(agents, before, strict=True))
    while late and time.monotonic() < deadline:
        late = [(agent, jobs) for agent, jobs in late if _managed(agent) != jobs]
        time.sleep(POLL_S)
    return "; ".join(f"{agent.host.name}: expected {jobs}" for agent, jobs in late)


def _managed(agent: Agent) -> dict[str, tuple[str, float, int]]:
    # Job -> mode, weight, connections.  Raises LabError.
    try:
        jobs = ask(agent.socket, "status")["jobs"]
    except HostccError as error:
        raise LabError(f"agent of {agent.host.name}: {error}") from None
    return {row["name"]: (row["mode"], row["weight"], row["flows"]) for row in jobs}


def relaunch(network: Network, agent: Agent) -> None:
    """Start an agent that has ended again, as it was configured."""
    agent.process = _spawn(network, agent.host, agent.jobs, agent.environment).process


def _spawn(
    network: Network, host: LabHost, jobs: frozenset[str], environment: Mapping[str, str]
) -> Agent:
    log = network.run_dir / f"{host.name}.agent.log"
    with log.open("ab") as file:
        process = netns.spawn(
            [*NICE, *HOSTCC, "agent", "--config", str(config_path(network, host))],
            namespace=network.namespace(host.name),
            cgroup=network.cgroup_of(host),
            # Many agents share this machine: none may take all its cores.
            env={"OPENBLAS_NUM_THREADS": "1", **os.environ, **environment},
            stdout=file,
            stderr=file,
        )
    control = network.run_dir / host.name / "control.sock"
    return Agent(host, process, control, log, jobs, environment)


def config_path(network: Network, host: LabHost) -> Path:
    """Where the configuration of a host's agent is."""
    return network.run_dir / f"{host.name}.toml"


def _wait(agents: Sequence[Agent]) -> None:
    deadline = time.monotonic() + START_PATIENCE_S
    for agent in agents:
        while not agent.ready:
            if agent.process.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"agent of {agent.host.name}: {_last_words(agent.log)}")
            time.sleep(POLL_S)


def stop(agents: Sequence[Agent]) -> None:
    """Ask all to end, and kill those that do not in time."""
    for agent in agents:
        agent.process.terminate()
    deadline = time.monotonic() + STOP_PATIENCE_S
    for agent in agents:
        try:
            agent.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            agent.process.kill()
            agent.process.wait()


def kill(agents: Sequence[Agent]) -> None:
    """End all at once, without a chance to tidy up."""
    for agent in agents:
        agent.process.kill()
    for agent in agents:
        agent.process.wait()


def wrapper(agent: Agent, job: JobSpec, network: Network) -> list[str]:
    """`hostcc run ... --` for a job's command on an agent's host."""
    command = [*HOSTCC, "run", "--job", job.name, "--socket", str(agent.socket)]
    total = bytes_per_iteration(job, network.wire)
    if job.declare_bytes and total:
        command += ["--bytes-per-iteration", str(total)]
    if isinstance(job, PlacedJobSpec) and job.flops and job.declare_flops:
        command += ["--flops", f"{job.flops / job.hosts:g}"]
    return [*command, "--"]


def control(agents: Sequence[Agent], words: Sequence[str]) -> list[str]:
    """Run a client command against all of the agents at once; what went wrong, by host."""
    clients = [
        subprocess.Popen(
            [*HOSTCC, *words, "--socket", str(agent.socket)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for agent in agents
    ]
    problems = []
    for agent, client in zip(agents, clients, strict=True):
        try:
            _, error = client.communicate(timeout=CLIENT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            client.kill()
            client.communicate()
            error = "no answer"
        if client.returncode:
            problems.append(f"{agent.host.name}: {' '.join(error.split())}")
    return problems


def statuses(agents: Sequence[Agent]) -> dict[str, Any]:
    """What each agent says of itself, by host; of one that does not answer, why."""
    found: dict[str, Any] = {}
    for agent in agents:
        try:
            found[agent.host.name] = ask(agent.socket, "status")
        except HostccError as error:
            found[agent.host.name] = {"error": str(error)}
    return found


def turns_since(agents: Sequence[Agent]) -> dict[str, float]:
    """Job -> since when all of its hosts' agents have it take turns, CLOCK_MONOTONIC seconds.

    A job that one of them has take none is left out; an agent that does not answer is.
    """
    since: dict[str, list[float]] = {}
    none = set[str]()
    for answer in statuses(agents).values():
        now_s = time.monotonic()
        for row in (row for part in answer.get("parts", ()) for row in part.get("gated", ())):
            if row["turns_for_s"] is None:
                none.add(row["job"])
            else:
                since.setdefault(row["job"], []).append(now_s - row["turns_for_s"])
    return {job: max(times) for job, times in since.items() if job not in none}


def usage(agent: Agent) -> dict[str, float]:
    """CPU seconds and resident bytes of an agent, from /proc; empty when it is gone."""
    try:
        base = Path(f"/proc/{agent.process.pid}")
        fields = (base / "stat").read_text().rpartition(")")[2].split()
        pages = int((base / "statm").read_text().split()[1])
    except OSError:
        return {}
    ticks = os.sysconf("SC_CLK_TCK")
    return {
        "cpu_seconds": (int(fields[11]) + int(fields[12])) / ticks,
        "resident_bytes": float(pages * os.sysconf("SC_PAGE_SIZE")),
    }


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return " ".join(lines[-1].split())[:500] if lines else "did not start"
