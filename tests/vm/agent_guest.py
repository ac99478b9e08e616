"""In the guest: hostcc's agents and two jobs that know nothing of them, by `hostcc run --rdma`.

Both jobs are on the only path there is; then the second path comes up.  Once with an agent for
each end that gossip, and once with one agent that plans alone.  Prints one JSON object.

Links are said to carry little, so that no plan depends on how fast the emulator happens to be: two
jobs never fit on one path; as they still share their hosts' own links, which one is above, and so
the class of each, stays.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostcc.client import ask
from hostcc.errors import HostccError
from tests.vm import roce_fabric
from tests.vm.allreduce import STOP
from tests.vm.roce_fabric import ADDRESS, Capture

JOBS = {"heavy": 32.0, "light": 1.0}
DSCP = [56, 48, 40, 32, 24, 16, 8, 0]
TEXT = """
[agent]
instance = "{name}"
run_dir = "/run/{name}"
cgroup_root = "{cgroup}"
network_namespaces = "own"
heartbeat_s = 0.5
heartbeat_stale_s = 40.0
socket_group = ""
[discover]
enabled = false
[gpu]
enabled = false
[pcie]
enabled = false
[rdma]
plan = "/dev/shm/{name}-rdma"
counts = "/dev/shm/{name}-qp"
dscp = {dscp}
probe_s = 4.0
{more}
[[paths.link]]
link = ">198.19.*"
mbit_per_s = 0.4
[[paths.link]]
link = "*198.18.*"
mbit_per_s = 0.64
"""
GOSSIP = """
[gossip]
enabled = true
keys = ""
listen = "127.0.0.1:{port}"
seeds = ["near@127.0.0.1:7471", "far@127.0.0.1:7472"]
[paths]
enabled = true
steer = false
connect = false
elephant_bytes = 1.0
devices = ["{device}"]
addresses = ["{address}"]
"""
PATIENCE_S = 240.0
"""The emulator takes many seconds to load what takes a moment elsewhere."""
Seen = set[tuple[str, int, int]]
"""(path, port, class) of what the near end sends."""


@dataclass
class Agent:
    """One host's."""

    name: str
    more: str = ""

    def start(self) -> None:
        cgroup, config = Path(f"/sys/fs/cgroup/{self.name}"), Path(f"/tmp/{self.name}.toml")
        for folder in (cgroup, Path(f"/run/{self.name}")):
            folder.mkdir()
        text = TEXT.format(name=self.name, cgroup=cgroup, dscp=DSCP, more=self.more)
        config.write_text(text)
        words = [sys.executable, "-m", "hostcc", "agent", "--config", str(config)]
        self.process = subprocess.Popen(words)

    @property
    def socket(self) -> Path:
        return Path(f"/run/{self.name}/control.sock")

    def answers(self) -> bool:
        assert self.process.poll() is None, f"agent {self.name} ended"
        try:
            ask(self.socket, "status")
        except HostccError:
            return False
        return True

    def told(self) -> dict[str, Any]:
        """Job -> what status says of it."""
        rows = ask(self.socket, "status", PATIENCE_S)["parts"]
        part = next(row for row in rows if row["name"] == "rdma-plan")
        return {row["job"]: row for row in part.get("rdma", [])}

    def plan(self) -> dict[str, Any]:
        return ask(self.socket, "plan", PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def until(condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> bool:
    """Whether it came true."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.3)
    return found


def start(job: str, port: int, ends: list[Agent]) -> list[subprocess.Popen[str]]:
    """A process at each end."""
    made = []
    for rank, agent in enumerate(ends):
        ours = ["tests.vm.allreduce", str(rank), str(port), "100000", "0.05"]
        words = [sys.executable, "-m", "hostcc", "run", "--rdma", "--job", job,
                 "--weight", str(JOBS[job]), "--socket", str(agent.socket), "--",
                 sys.executable, "-m", *ours]  # fmt: skip
        made.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    return made


def wire(capture: Capture) -> Seen:
    """What the near end sends in two seconds."""
    capture.take(0)
    seen = [p for p in capture.take(2.0) if p.source == ADDRESS["rxa"]]
    return {(p.path, p.port, p.traffic_class) for p in seen}


def settled(capture: Capture, paths: set[str], known: Callable[[], bool] = lambda: True) -> Any:
    """The wire once both jobs have a class, on exactly these paths, `known` holds, and it stays."""
    last: Seen = set()

    def still() -> bool:
        nonlocal last
        before, last = last, wire(capture)
        classes = {row[2] for row in last} - {0}  # 0: a job that was not told yet
        good = {row[0] for row in last} == paths and len(classes) == len(last) == len(JOBS)
        return good and before == last and known()

    until(still)
    return sorted(last)


def routes(*paths: int) -> None:
    """The paths that there are."""
    for router, net, side in (("f1", 2, 2), ("f2", 1, 1)):
        hops = " ".join(f"nexthop via 198.19.{path}.{side}" for path in paths)
        roce_fabric.run(f"ip -n {router} route replace 198.18.{net}.0/24 {hops}")


def story(
    capture: Capture,
    agents: list[Agent],
    known: Callable[[list[dict[str, Any]], list[dict[str, Any]]], bool],
) -> dict[str, Any]:
    """Jobs on one path, the other path, the death of the agents; `known`: of their plans, and of
    what status says at each."""
    began = time.monotonic()
    routes(0)
    STOP.unlink(missing_ok=True)
    for agent in agents:
        agent.start()
    for agent in agents:
        assert until(agent.answers), "no agent"
    ends = [agents[0], agents[-1]]
    port = 18600 + 10 * len(agents)
    runs = [run for at, job in enumerate(JOBS) for run in start(job, port + at, ends)]

    def state() -> dict[str, Any]:
        return {
            "plans": [agent.plan() for agent in agents],
            "told": [agent.told() for agent in agents],
        }

    def seen(paths: set[str]) -> dict[str, Any]:
        """The wire, and the state that was found to go with it: another view may come any time."""
        kept: dict[str, Any] = {}

        def agreed() -> bool:
            kept.update(state())
            return known(kept["plans"], kept["told"])

        return {"wire": settled(capture, paths, agreed), **(kept or state())}

    report: dict[str, Any] = {"before": seen({"p0"})}
    routes(0, 1)
    report["after"] = seen({"p0", "p1"})
    report["verify"] = [
        row for agent in agents for row in ask(agent.socket, "verify", PATIENCE_S)["differences"]
    ]
    for agent in agents:
        agent.kill()
    report["after_death"] = settled(capture, {"p0", "p1"})  # they go on where they are
    STOP.touch()
    outputs = [run.communicate(timeout=PATIENCE_S)[0] for run in runs]
    report["status"] = [run.returncode for run in runs]
    report["good"] = [json.loads(text.splitlines()[-1])["good"] for text in outputs if text]
    report["seconds"] = time.monotonic() - began
    return report


def one_view(plans: list[dict[str, Any]], told: list[dict[str, Any]]) -> bool:
    """All agree on one, and follow it; all queue pairs at both ends are where it has them."""
    states = [plan["state"] for plan in plans]
    ways = {tuple(sorted((flow["flow"], flow["path"]) for flow in plan["flows"])) for plan in plans}
    taken = [
        str(pair["path"]) for rows in told for row in rows.values() for pair in row["largest"][:1]
    ]
    return (
        all(state["agreed"] and state["follows"] == state["active"] for state in states)
        and len({state["follows"] for state in states}) == len(ways) == 1
        and len(next(iter(ways))) == len(JOBS) * len(plans)
        and sorted(path for _, path in next(iter(ways))) == sorted(taken)
    )


def two() -> list[Agent]:
    """A host at each end of the fabric; their agents share a kernel, as Soft-RoCE wants."""
    return [
        Agent(name, GOSSIP.format(port=port, device=device, address=ADDRESS[end]))
        for name, port, device, end in (("near", 7471, "va", "rxa"), ("far", 7472, "vb", "rxb"))
    ]


def main() -> None:
    roce_fabric.build()
    capture = Capture()
    report = {}
    for part in sys.argv[1:]:
        if part == "together":
            report[part] = story(capture, two(), one_view)
        else:
            report[part] = story(capture, [Agent("alone")], lambda _, __: True)
    print("REPORT " + json.dumps(report))


if __name__ == "__main__":
    main()
