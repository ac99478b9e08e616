"""Start the processes of a job on its hosts, and read what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostcc.lab import netns
from hostcc.lab.errors import LabError
from hostcc.lab.leafspine_scenario import PlacedJobSpec
from hostcc.lab.network import Network
from hostcc.lab.scenario import BackgroundSpec, JobSpec
from hostcc.lab.scenario_hosts import bytes_per_iteration
from hostcc.lab.topology import LabHost

FIRST_PORT = 5000
PORTS_PER_JOB = 100
MAX_ITERATION_S = 1e6
WORKER_NICE = -15
"""Workers stand for hosts with cores of their own."""


@dataclass(frozen=True)
class Iteration:
    """One iteration as its job reported it; times in seconds, CLOCK_MONOTONIC."""

    number: int
    seconds: float
    start: float
    end: float


@dataclass
class Rank:
    """One started process of a job or of background traffic."""

    job: str
    host: LabHost
    process: subprocess.Popen[bytes]
    log: Path
    waits: bool
    """Whether it says `ready` and waits to be released."""
    background: bool = False
    ready: bool = False
    finished: bool = False
    iterations: list[Iteration] = field(default_factory=list)
    retransmitted: int = 0
    sent: int = 0
    _text: bytes = b""

    @property
    def stdout_fd(self) -> int:
        """Descriptor to wait on."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def tell(self, line: str) -> None:
        """Write a line to its standard input; a process that is gone does not matter."""
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            pass

    def read(self, now: float) -> int:
        """Take in what it printed; returns the number of iterations in it."""
        data = os.read(self.stdout_fd, 1 << 16)
        if not data:
            self.finished = True
            return 0
        *lines, self._text = (self._text + data).split(b"\n")
        before = len(self.iterations)
        for line in lines:
            self._understand(line.decode(errors="replace").split(), now)
        return len(self.iterations) - before

    def _understand(self, words: list[str], now: float) -> None:
        try:
            if words[:1] == ["ready"]:
                self.ready = True
            elif words[:1] == ["iteration"] and len(words) in (3, 5):
                seconds = float(words[2])
                if not 0 <= seconds <= MAX_ITERATION_S:  # not a number is neither
                    return
                end = int(words[4]) / 1e9 if len(words) == 5 else now
                start = int(words[3]) / 1e9 if len(words) == 5 else now - seconds
                self.iterations.append(Iteration(int(words[1]), seconds, start, end))
            elif words[:1] == ["retransmitted"] and len(words) == 3:
                self.retransmitted, self.sent = int(words[1]), int(words[2])
        except (ValueError, OverflowError):
            return


@dataclass(frozen=True)
class Options:
    """What a run adds to the scenario's jobs."""

    iterations: int
    """Iterations that a command is told to do."""
    socket_control: str = ""
    seed: int = 1
    fixed_ports: bool = False


def port_of(number: int) -> int:
    """Where the ranks of the job with this place in the scenario listen."""
    return FIRST_PORT + PORTS_PER_JOB * number


def environment(
    job: JobSpec,
    number: int,
    host: LabHost,
    peers: tuple[LabHost, ...],
    options: Options,
    total_bytes: int,
) -> dict[str, str]:
    """The environment contract of a job's processes; docs/lab.md lists it for users."""
    port = port_of(number)
    addresses = [peer.address for peer in peers]
    rank = str(peers.index(host))
    return {
        "HOSTCC_JOB": job.name,
        "HOSTCC_RANK": rank,
        "HOSTCC_WORLD_SIZE": str(len(peers)),
        "HOSTCC_PEERS": ",".join(addresses),
        "HOSTCC_ADDRESS": host.address,
        "HOSTCC_INTERFACE": "eth0",
        "HOSTCC_PORT": str(port),
        "HOSTCC_FLOWS": str(job.flows),
        "HOSTCC_ITERATIONS": str(job.iterations or options.iterations),
        "HOSTCC_BYTES": str(total_bytes),
        "HOSTCC_COMPUTE_MS": f"{job.compute_ms:g}",
        "RANK": rank,
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(len(peers)),
        "MASTER_ADDR": addresses[0],
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "eth0",
    }


def search_path() -> str:
    """PATH of a job's processes: `python3` is the interpreter that runs the lab."""
    return f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"


def worker_orders(job: JobSpec, total_bytes: int, options: Options) -> str:
    """The built-in worker's part of the environment."""
    return json.dumps(
        {
            "pattern": job.pattern,
            "flows": job.flows,
            "compute_s": job.compute_ms / 1e3,
            "bytes": total_bytes,
            "jitter": job.jitter_percent / 100,
            "bytes_jitter": job.bytes_jitter_percent / 100,
            "bursts": job.bursts,
            "burst_pause_s": job.burst_pause_ms / 1e3,
            "change_at": job.change_at_iteration,
            "change_bytes": job.change_bytes_factor,
            "change_pause_s": job.change_pause_ms / 1e3,
            "start_s": job.start_ms / 1e3,
            "iterations": job.iterations,
            "stop_after_s": job.stop_after_ms / 1e3,
            "congestion_control": options.socket_control,
            "seed": options.seed,
            "fixed_ports": options.fixed_ports,
            "marks": isinstance(job, PlacedJobSpec) and job.marks,
        }
    )


def start_job(
    network: Network,
    job: JobSpec,
    number: int,
    options: Options,
    wrappers: Mapping[str, list[str]],
) -> list[Rank]:
    """Start every rank of a job; `wrappers` maps a host's name to what runs its commands."""
    peers = network.members(job)
    total = bytes_per_iteration(job, network.wire)
    ranks = []
    for host in peers:
        extra = environment(job, number, host, peers, options, total)
        command = list(job.command)
        if not command:
            command = [sys.executable, "-m", "hostcc.lab.worker"]
            extra["HOSTCC_LAB_WORKER"] = worker_orders(job, total, options)
        wrapped = [*wrappers.get(host.name, []), *command]
        ranks.append(
            _start(network, host, job.name, wrapped, extra, waits=job.barrier or not job.command)
        )
    return ranks


def start_background(network: Network, spec: BackgroundSpec, number: int) -> list[Rank]:
    """Start both ends of background traffic."""
    owner = f"{spec.name}.{number}"
    pair = network.pair(number, spec)
    orders = json.dumps(
        {
            "kind": spec.kind,
            "rate_mbit": spec.rate_mbit,
            "flows": spec.flows,
            "start_s": spec.start_ms / 1e3,
            "stop_s": spec.stop_ms / 1e3,
            "congestion_control": spec.congestion_control,
            "mtu": network.wire.mtu,
            "peer": pair[1].address,
            "port": FIRST_PORT,
        }
    )
    ranks = []
    for end in (1, 0):
        command = [sys.executable, "-m", "hostcc.lab.background", str(end)]
        extra = {"HOSTCC_LAB_BACKGROUND": orders}
        rank = _start(network, pair[end], owner, command, extra, waits=True)
        rank.background = True
        ranks.append(rank)
    return ranks


def _start(
    network: Network,
    host: LabHost,
    job: str,
    command: list[str],
    extra: dict[str, str],
    waits: bool,
) -> Rank:
    log = network.run_dir / f"{host.name}.{job}.stderr"
    try:
        stderr = log.open("wb")
    except OSError as error:
        raise LabError(f"{log}: {error.strerror}") from error
    with stderr:
        process = netns.spawn(
            command,
            namespace=network.namespace(host.name),
            cgroup=network.cgroup_of(host),
            nice=WORKER_NICE,
            env={**os.environ, "PATH": search_path(), **extra},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    return Rank(job, host, process, log, waits)
