"""In the guest: two agents that gossip, one at each end of the fabric, and jobs on both.

Two jobs over RDMA and one over TCP are in the one plan that both agents follow.  Both RDMA jobs are
on the only path there is in their direction, to which the routers hash them also when another one
comes up that is many times as fast.  Then one of these jobs is killed, then one of the agents.
Prints a REPORT.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hostcc.client import ask
from hostcc.errors import HostccError
from tests.vm import roce_fabric, stream
from tests.vm.allreduce import STOP
from tests.vm.patience import listens, until, worked_s
from tests.vm.roce_fabric import PATHS, Capture
from tests.vm.roce_ways import Ways, ways
from tests.vm.wire import settled

HOSTCC = [sys.executable, "-m", "tests.vm.patient_hostcc"]
CGROUPS = Path("/sys/fs/cgroup")
CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
TEXT = """
[agent]
instance = "{name}"
run_dir = "{run}"
cgroup_root = "{group}"
network_namespaces = "own"
heartbeat_s = 0.5
heartbeat_stale_s = 40.0
socket_group = ""
[discover]
enabled = false
[gpu]
enabled = false
[gossip]
enabled = true
listen = "127.0.0.1:{port}"
keys = ""
seeds = ["{other}@127.0.0.1:{others}"]
[paths]
enabled = true
steer = false
devices = ["{device}"]
elephant_bytes = 1000.0
rtt_factor = 1000.0
{slow}
[[paths.link]]
link = "*"
mbit_per_s = 50.0
[rdma]
dscp = [56, 48, 40, 32, 24, 16, 8, 0]
plan = "{plan}"
counts = "/dev/shm/counts-{name}"
probe_s = 4.0
[pcie]
semaphores = "/dev/shm/semaphores-{name}"
"""
"""Both are in one network namespace, so that neither has hooks and source ports for TCP there.  How
long a message takes says nothing on an emulated processor."""
SLOW = """
[[paths.link]]
link = ">198.19.{path}.{end}"
mbit_per_s = 0.5
"""
PLAIN_PORT = 49152
"""Source port of a queue pair that nobody steers."""
RDMA = {"heavy": 4.0, "light": 1.0}
"""Job -> weight."""
KILLED = "light"
FIRST_PORT, MEETING_PORT = 7471, 18610
ITERATIONS, COMPUTE_S = 1_000_000, 0.25
ANSWER_S, LOOK_S = 90.0, 1.0
WORK_S = 600.0
"""Processor time of agents and jobs by when what they are waited for has to be there."""
MOST_PACKETS = 60_000
"""By when both jobs are where they should be."""


@dataclass(frozen=True)
class Host:
    """One agent and its jobs' processes."""

    name: str
    link: str
    device: str
    rank: int

    @property
    def run(self) -> Path:
        return Path(f"/run/hostcc-{self.name}")

    @property
    def group(self) -> Path:
        return CGROUPS / f"agent-{self.name}"

    @property
    def plan(self) -> Path:
        """Its shared memory, from which jobs read the plan."""
        return Path(f"/dev/shm/plan-{self.name}")

    def ask(self, what: str) -> dict[str, Any]:
        return ask(self.run / "control.sock", what, ANSWER_S)

    def command(self, *words: str) -> list[str]:
        """One of `hostcc` that talks to this agent."""
        first, *rest = words
        return [*HOSTCC, first, "--socket", str(self.run / "control.sock"), *rest]

    def agent(self, other: Host, slow: str) -> subprocess.Popen[bytes]:
        """Start it; `slow`: what the configuration says of slow links."""
        self.group.mkdir()
        self.run.mkdir()
        config = self.run / "hostcc.toml"
        config.write_text(
            TEXT.format(
                name=self.name, run=self.run, group=self.group, device=self.link, slow=slow,
                plan=self.plan, port=FIRST_PORT + self.rank,
                other=other.name, others=FIRST_PORT + other.rank,
            )
        )  # fmt: skip
        return subprocess.Popen([*HOSTCC, "agent", "--config", str(config)])

    def job(self, name: str, *words: str) -> subprocess.Popen[str]:
        """A process of a job, which gets what the agents leave of the only processor."""
        wishes = ["--rdma", "--weight", str(RDMA[name])] if name in RDMA else []
        run = self.command("run", "--job", name, *wishes, "--")
        inner = ["nice", "-n", "19", sys.executable, "-m", *words]
        return subprocess.Popen([*run, *inner], stdout=subprocess.PIPE, text=True)

    def rdma(self) -> dict[str, Any]:
        """Job -> what status says of it."""
        parts = self.ask("status")["parts"]
        rows = next(one for one in parts if one["name"] == "rdma-plan")["rdma"]
        return {row["job"]: row for row in rows}


HOSTS = A, B = Host("a", "va", "rxa", 0), Host("b", "vb", "rxb", 1)


class Scene:
    """What runs, and what is seen of it."""

    def __init__(self, slow: str) -> None:
        self.captures = [Capture(host.device) for host in HOSTS]
        self.agents = [A.agent(B, slow), B.agent(A, slow)]
        self.runs: dict[str, list[subprocess.Popen[str]]] = {}

    def works(self) -> float:
        """Seconds that agents have worked."""
        return worked_s([one.pid for one in self.agents])

    def wait(self, done: Callable[[], Any], what: str) -> Any:
        """What `done` returns once the agents have brought that about."""
        return until(done, self.works, what, WORK_S, LOOK_S)

    def ready(self) -> bool:
        """Whether both agents answer, and have a place for what jobs are told."""
        assert all(one.poll() is None for one in self.agents), "an agent ended"
        try:
            return all(host.ask("status") and host.plan.exists() for host in HOSTS)
        except HostccError:
            return False

    def begin(self) -> None:
        """Start all jobs, one process after the other."""
        for port, name in enumerate(RDMA, MEETING_PORT):
            words = str(port), str(ITERATIONS), str(COMPUTE_S)
            self._start(name, A, port, "tests.vm.allreduce", "0", *words)
            self._start(name, B, 0, "tests.vm.allreduce", "1", *words)
        self._start("stream", B, stream.PORT, "tests.vm.stream", "receive")
        self._start("stream", A, 0, "tests.vm.stream", "send")

    def _start(self, name: str, host: Host, port: int, *words: str) -> None:
        process = host.job(name, *words)
        self.runs.setdefault(name, []).append(process)
        print("started", name, "on", host.name, flush=True)

        def listening() -> bool:
            assert process.poll() is None, f"{name} ended"
            return listens(port)

        if port:
            pids = [process.pid, *(one.pid for one in self.agents)]
            until(listening, partial(worked_s, pids), f"{name} on {host.name}", WORK_S)

    def on(self, paths: Sequence[str]) -> list[list[Any]]:
        """What both ends send once all jobs with RDMA are on these, one for each end, and stay."""
        jobs = sum(all(run.poll() is None for run in self.runs[name]) for name in RDMA)
        seen = [
            settled(one, {path}, jobs, MOST_PACKETS)
            for one, path in zip(self.captures, paths, strict=True)
        ]
        for rows, path in zip(seen, paths, strict=True):
            assert {row[0] for row in rows} == {path}, seen
            assert len({row[2] for row in rows} - {0}) == len(rows) == jobs, seen
        return seen

    def plan(self) -> dict[str, Any]:
        """The plan that both agents follow, once it has exactly the jobs that run, and a flow of
        each of their senders; else nothing."""
        jobs = {name for name, runs in self.runs.items() if all(one.poll() is None for one in runs)}
        first, second = (host.ask("plan") for host in HOSTS)
        flows = [one["flow"] for one in first["flows"]]
        ends = [flow.partition("-")[0] for flow in flows if "/roce-" in flow]
        wanted = sorted(f"{host.name}/roce" for host in HOSTS for name in jobs & RDMA.keys())
        named = {one["job"] for one in first["jobs"]}
        is_whole = named == jobs and sorted(ends) == wanted and len(flows) > len(ends)
        return first if is_whole and first["digest"] == second["digest"] else {}

    def kill(self, name: str) -> None:
        """Kill all processes of a job, as a launcher does once one is gone."""
        for run in self.runs[name]:
            run.kill()
        for run in self.runs[name]:
            run.wait()

    def end(self) -> dict[str, list[Any]]:
        """Have the jobs end that run; job -> exit status and last line of each process."""
        left = {name: runs for name, runs in self.runs.items() if runs[0].poll() is None}
        STOP.touch()
        pids = [run.pid for runs in left.values() for run in runs]
        ended = partial(_ended, [run for runs in left.values() for run in runs])
        until(ended, partial(worked_s, pids), "jobs that end", WORK_S)
        return {
            name: [[run.returncode, *run.communicate()[0].splitlines()[-1:]] for run in runs]
            for name, runs in left.items()
        }


def _ended(runs: list[subprocess.Popen[str]]) -> bool:
    return all(run.poll() is not None for run in runs)


def moved() -> list[dict[str, Any]]:
    """What both agents say of their jobs, once they have counted the moves of each."""
    told = [host.rdma() for host in HOSTS]
    return told if all(rows[job]["moves"] for rows in told for job in RDMA) else []


def dead() -> bool:
    """Whether the agent that is left takes the other one for that."""
    (other,) = A.ask("peers")["peers"]
    return bool(other["state"] == "dead")


def traces() -> dict[str, Any]:
    """What an agent makes for its jobs, beside the plan of its host."""
    groups = [one for host in HOSTS for one in host.group.rglob("cgroup.procs")]
    return {
        "plans": sorted(str(one) for one in Path("/dev/shm").glob("plan-*")),
        "controls": sorted(set(CONTROLS.read_text().split())),
        "in_cgroups": sorted(str(one.parent) for one in groups if one.read_text()),
    }


def hashed(found: Ways) -> int:
    """The path, by number, that routers choose for PLAIN_PORT."""
    (way,) = (way for way, ports in found.items() if PLAIN_PORT in ports)
    return int(any(hop.startswith("198.19.1.") for hop in way))


def report() -> dict[str, Any]:
    """What is on the wire, planned, told to jobs and left behind, step by step."""
    began = time.monotonic()

    def step(what: str) -> None:
        print(f"{time.monotonic() - began:.0f} s: {what}", roce_fabric.counters(), flush=True)

    roce_fabric.build()
    step("hashes of routers")
    there, back = map(hashed, ways())
    old = [PATHS[there], PATHS[back]]
    new = [PATHS[1 - there], PATHS[1 - back]]
    roce_fabric.one_path(*old)
    found: dict[str, Any] = {"paths": [old, new], "traces": [traces()]}
    step("agents")
    scene = Scene(SLOW.format(path=there, end=2) + SLOW.format(path=back, end=1))
    scene.wait(scene.ready, "two agents")
    step("jobs")
    scene.begin()
    found["before"] = scene.on(old)
    step("a plan")
    found["plan"] = scene.wait(scene.plan, "a plan of both")
    step("another path")
    roce_fabric.two_paths()
    found["after"] = scene.on(new)
    found["told"] = scene.wait(moved, "moves")
    found["traces"].append(traces())
    step("a job dies")
    scene.kill(KILLED)
    found["less"] = scene.wait(scene.plan, "a plan without the job")
    found["after_a_job"] = scene.on(new)
    found["verify"] = [host.ask("verify")["differences"] for host in HOSTS]
    step("an agent dies")
    scene.agents[1].kill()
    scene.agents[1].wait()
    scene.wait(dead, "a dead agent")
    found["after_an_agent"] = scene.on(new)
    step("its changes are undone")
    undo = subprocess.run(B.command("rollback", "--json"), stdout=subprocess.PIPE, check=True)
    found["undone"] = json.loads(undo.stdout)
    step("the other agent ends")
    scene.agents[0].send_signal(signal.SIGTERM)
    scene.wait(lambda: scene.agents[0].poll() is not None, "the end of an agent")
    found["agent_status"] = scene.agents[0].returncode
    found["traces"].append(traces())
    found["after_all"] = scene.on(new)
    step("the jobs end")
    found["jobs"] = scene.end()
    found["seconds"] = time.monotonic() - began
    return found


if __name__ == "__main__":
    print("REPORT " + json.dumps(report()), flush=True)
