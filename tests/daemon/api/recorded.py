"""Every answer of agents in memory, as it goes over the socket, and the metrics of one.

`python -m tests.daemon.api.recorded` writes answers.jsonl and metrics.txt anew.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from hostcc.answers.gossip import (
    Disagreement,
    GossipStatus,
    OtherOptions,
    PeerStatus,
    ProcessStatus,
    Trouble,
)
from hostcc.answers.host import LeftAlone
from hostcc.answers.status import Status
from hostcc.config.sections.job import JobConfig
from hostcc.coord.net.troubles import Reason
from hostcc.daemon import preflight
from hostcc.daemon.api.metrics import MetricsServer
from hostcc.daemon.enforcement import default_ca
from hostcc.daemon.gossip.gossip_task import Gossip
from hostcc.daemon.jobs import views
from hostcc.daemon.profiling.gauges import gauges
from hostcc.daemon.profiling.profiles import summary
from hostcc.daemon.supervisor import WithBlock
from hostcc.foreign import encoded
from hostcc.model import Difference
from tests.daemon.planning.made import made, standing
from tests.daemon.planning.test_planning_task import World as PlannedHost
from tests.daemon.profiling.test_gauges import profiled
from tests.hosts import Ask, Host, play

HERE = Path(__file__).parent
ANSWERS, METRICS = HERE / "answers.jsonl", HERE / "metrics.txt"
VOLATILE = {
    "pid", "uptime_s", "cpu_s", "resident_bytes", "longest_stall_s", "longest_busy_s", "at",
    "net", "cookie", "mnt", "folder", "cgroup_id", "default_congestion_control", "version",
    "processes", "config", "how", "place", "boot",
}  # fmt: skip
"""Keys whose values differ from run to run."""
GOSSIP = GossipStatus(
    name="a",
    listen="0.0.0.0:7471",
    insecure=True,
    key="",
    members={"alive": 2, "dead": 1},
    seeds={"reached": 1, "missing": 1},
    held="ab" * 16,
    active="",
    agreed=False,
    missing=("b",),
    troubles=(Trouble(Reason.UNREACHABLE, "seed b@10.0.0.2:7471", "no answer (timeout)"),),
    dialled=1,
    accepted=2,
    process=ProcessStatus(7, 3, "was ended by SIGABRT"),
    counters={"sent": 3},
)
PEER = PeerStatus("b", "10.0.0.2:7471", "alive", "dialled", 0.0004, "0.1.0", "cd", "", None, False)
UNLIKE = Disagreement("plan.levels", "4", (OtherOptions("8", ("b", "c"), 5),))


def stable(value: Any, names: dict[str, str], key: str = "") -> Any:
    """The same without what differs from run to run, or in the last digits; `names`: pattern ->
    what is written instead."""
    if key in VOLATILE and value is not None:
        return type(value).__name__
    if isinstance(value, dict):
        return {stable(name, names): stable(item, names, name) for name, item in value.items()}
    if isinstance(value, list):
        return [stable(item, names) for item in value]
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, str):
        for pattern, instead in names.items():
            value = re.sub(pattern, instead, value)
    return value


def answers() -> dict[str, Any]:
    """Name -> answer, its keys in the order in which they are sent."""
    found: dict[str, Any] = {}

    def add(name: str, value: Any, folder: Path | str = "/nowhere") -> None:
        names = {
            str(folder): "DIR",
            r"hcc_\w{4}_": "hcc_TAG_",
            rf"\b{os.getpid()}\b": "PID",
            f"uid {os.getuid()}": "uid UID",
            rf"\b{default_ca()}\b": "DEFAULT",
            r"127\.0\.0\.1:\d+": "127.0.0.1:PORT",
        }
        found[name] = stable(json.loads(encoded(value)), names)

    _of_agents(add)
    _of_gossip(add)
    _of_plans(add)
    add("profile, measured", summary(profiled("a", 5e12)))
    difference = Difference("kernel", "BPF", "attached", "gone")
    add("verify, different", views.verification(5, [difference], [LeftAlone("a", "reno", 2)]))
    add("rollback, in part", views.rollback(["a"], ["b: busy"], {"c": "disk full"}, ["d"]))
    return found


def _of_agents(add: Callable[..., None]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        host = Host(folder)

        async def acting(request: Ask) -> None:
            add("register", await request("register", job="a", weight=2.0), folder)
            add("job", await request("job", job="a", weight=1.5, flops=1e15), folder)
            host.join("a")
            add("unfair", await request("unfair", mode="static", weights={"a": 2, "b": 3}), folder)
            state = host.backends[0].states[1]
            state["total_bytes"], state["period_ns"], state["comm_ns"] = 250, 240_000_000, 99
            state["flows"], state["iterations"] = 1, 7
            for op in ("status", "jobs", "flows", "plan", "changes", "verify"):
                add(op, await request(op), folder)
            add("jobs --detail", await request("jobs", detail=True), folder)
            add("profile", await request("profile", job="a", series=True), folder)
            add("unfair off", await request("unfair", mode="off"), folder)
            add("status, mode off", await request("status"), folder)
            add("rollback", await request("rollback"), folder)
            add("status, rolled back", await request("status"), folder)

        play(host.agent(), acting)

        async def observing(request: Ask) -> None:
            for op in ("status", "verify"):
                add(f"{op}, observing", await request(op), folder)
            jobs, flows = await request("jobs"), await request("flows")
            jobs["jobs"][0]["remote_ports"] = []  # another one in each run
            flows["flows"][0]["wire_port"] = 0
            add("jobs, observing", jobs, folder)
            add("flows, observing", flows, folder)

        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
            job = JobConfig(name="a", remote_ports=(address[1],))
            config = msgspec.structs.replace(host.config(observe_only=True), job=(job,))
            with socket.create_connection(address):
                play(host.agent(config), observing)


def _of_gossip(add: Callable[..., None]) -> None:
    member = SimpleNamespace(
        status=lambda: GOSSIP,
        peers=lambda: [PEER],
        differences=SimpleNamespace(found=(UNLIKE,)),
    )
    cluster = SimpleNamespace(member=member, refused=lambda _: {"j": "too much"})
    part = Gossip(cast("Any", None), cast("Any", cluster), cast("Any", None))
    shown = part.view()
    assert isinstance(shown, WithBlock)
    add("gossip", {"gossip": shown.block})
    add("peers", part.peers())


def _of_plans(add: Callable[..., None]) -> None:
    with TemporaryDirectory() as name:
        world = PlannedHost(Path(name))
        world.standing = standing(made())
        world.tick()
        add("plan, followed", {"plan": world.part.view().block})
        add("plan --explain", world.part.answer("a"))
        world.standing = None
        add("plan, none", {"plan": world.part.view().block})


def status() -> Status:
    """A status in which everything is."""
    kept = {row["name"]: row["answer"] for row in map(json.loads, ANSWERS.read_text().splitlines())}
    agent = {
        **kept["status"]["agent"], "cpu_s": 1.5, "resident_bytes": 42, "pid": 7, "uptime_s": 2.0,
        "loop": {
            "longest_stall_s": 0.5, "longest_busy_s": 0.25, "failing": {"sweep": "x"},
            "failures": 7,
        },
    }  # fmt: skip
    jobs = [
        {**row, "name": name, "processes": 1}
        for name, answer in (("a", "status"), ("b", "status, mode off"))
        for row in kept[answer]["jobs"]
    ]
    flow: dict[str, Any] = {
        "id": "f",
        "job": "a",
        "local": "l:1",
        "remote": "r:2",
        "host": "h",
        "path": None,
    }
    flow |= {"bytes_per_iteration": 5.0, "wire_port": 1, "state": "ecmp", "reason": None}
    target = {"src": "s", "dst": "d", "dst_port": 4, "paths": 2, "ports": 9, "confidence": 0.5}
    steering = {"moved": 1, "fell_back": 2, "refused": 3}
    found = {
        **kept["status"],
        "agent": agent,
        "jobs": jobs,
        "gossip": {
            **kept["gossip"]["gossip"], "process": {"pid": 7, "restarts": 3, "reason": None},
        },
        "plan": kept["plan, followed"]["plan"],
        "routing": {
            "destinations": [{**target, "age_s": None, "reason": None}], "flows": [flow],
        },
        "parts": [
            {"name": "discovery", "state": "running", "reason": None, "claims_refused": 5},
            {"name": "marks", "state": "running", "reason": None, "over_quota": 6},
            {"name": "steering", "state": "running", "reason": None, **steering,
             "strays": {"resets": 1, "syns": 2, "over": 3}},
            {"name": "rdma-plan", "state": "running", "reason": None, "moved": 7, "fell_back": 8},
        ],
    }  # fmt: skip
    return msgspec.convert(found, Status)


def metrics() -> str:
    """The exposition of that status and of a profile: families in alphabetical order."""
    known = {"a": profiled("a", 5e12)}
    server = MetricsServer("127.0.0.1:0", status, [lambda core: gauges(core, known)])
    text = server._response().decode().partition("\r\n\r\n")[2]
    rounded = re.sub(r"(?m)^(hostcc_profile_\S+) (\S+)$", _rounded, text)
    masked = re.sub(r"(?m)^(process_\S+) \S+$", r"\1 0.0", rounded)
    return "# HELP".join(["", *sorted(masked.split("# HELP")[1:])])


def _rounded(sample: re.Match[str]) -> str:
    return f"{sample[1]} {float(sample[2]):.5g}"


def written(found: dict[str, Any]) -> str:
    """Answers as in the file."""
    lines = [json.dumps({"name": name, "answer": one}) for name, one in found.items()]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preflight, "missing", lambda root: [])
        ANSWERS.write_text(written(answers()))
    METRICS.write_text(metrics())
