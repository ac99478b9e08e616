"""Agents in a small leaf-spine fabric: find paths, agree, move live flows, and clean up."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hostcc.lab import netns
from hostcc.lab.leafspine_flows import FlowTable
from hostcc.paths.hooks import attached
from hostcc.paths.steer_kernel import PROGRAMS
from tests.daemon.steering.agents_stage import AgentsStage, Stream
from tests.real import until

pytestmark = pytest.mark.kernel

OVER = """
[paths]
enabled = true
elephant_bytes = 100000
fabric_mbit_per_s = 100
stale_s = 1.0
[[job]]
name = "a"
flops = 1e12
[[job]]
name = "b"
flops = 1e12
"""
HOW: dict[str, Any] = {"period_s": 0.25, "size": 1 << 20}
PATIENCE_S = 120.0
"""Only bounds a failure."""


@pytest.fixture
def stage() -> Iterator[AgentsStage]:
    with AgentsStage(OVER) as made:
        yield made


def dump(stage: AgentsStage, name: str) -> str:
    """Everything of a host that steering could change, once the kernel has seen that its link is
    up."""
    link = ("ip", "link", "show", "dev", "eth0")
    until(lambda: "state UP" in stage.inside(name, *link), lambda: stage.inside(name, *link))
    words = ("tc qdisc show", "tc filter show dev eth0 ingress", "tc filter show dev eth0 egress",
             "ip addr", "ip route", "ip rule", "sysctl net.ipv4.ip_local_reserved_ports",
             "sysctl net.ipv4.ip_local_port_range")  # fmt: skip
    texts = [stage.inside(name, *line.split()) for line in words]
    # The kernel makes sure of its link-local address meanwhile.
    return "\n".join([*texts, str(hooks(stage, name))]).replace(" tentative", "")


def hooks(stage: AgentsStage, name: str) -> list[str]:
    """Our programs at its device."""

    def look() -> list[str]:
        index = socket.if_nametoindex("eth0")
        return [program for hook, program in PROGRAMS.items() if attached(index, hook, [program])]

    return netns.inside(stage.fabric.namespace(name), look)


def sent(stage: AgentsStage) -> dict[str, int]:
    """Bytes that the first leaf has sent to each spine."""

    def read() -> dict[str, int]:
        rows = Path("/proc/thread-self/net/dev").read_text().splitlines()
        found = {row.split(":")[0].strip(): int(row.split()[9]) for row in rows if ":" in row}
        return {name: count for name, count in found.items() if name.startswith("spine")}

    return netns.inside(stage.fabric.namespace("leaf1"), read)


def shares(stage: AgentsStage, seconds: float = 1.5) -> list[float]:
    """Parts of what goes to the spines, the smaller one first."""
    before = sent(stage)
    time.sleep(seconds)
    after = sent(stage)
    parts = [after[name] - before[name] for name in after]
    return sorted(part / max(1, sum(parts)) for part in parts)


def collide(stage: AgentsStage) -> tuple[Stream, Stream, str]:
    """Two flows, and the one spine that both take by their own ports: moved, they have others."""
    with closing(FlowTable(stage.fabric.spine_ports())) as seen:
        ports = [stage.sources("h1", "h3", 5301)[0][0], stage.sources("h2", "h4", 5302)[0][0]]
        one = stage.stream("a", "h1", "h3", 5301, source=ports[0], **HOW)
        two = stage.stream("b", "h2", "h4", 5302, source=ports[1], **HOW)
        own = {(stream.port, stream.sport) for stream in (one, two)}
        ways: dict[int, set[int]] = {}

        def both() -> bool:
            for way in seen.read():
                if (way.dst_port, way.src_port) in own:
                    ways.setdefault(way.dst_port, set()).add(way.spine)
            return ways.keys() == {5301, 5302}

        until(both, lambda: f"bytes of both, not of {ways}", PATIENCE_S)
    (spine,) = set.union(*ways.values())
    return one, two, f"spine{spine}"


def part(stage: AgentsStage, host: str, name: str) -> dict[str, Any]:
    rows = stage.status(host).get("parts", [])
    return next((row for row in rows if row["name"] == name), {})


def wait(stage: AgentsStage, true: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    def what() -> str:
        said = [stage.client(name, "status").stdout for name in ("h1", "h2")]
        plan = stage.client("h1", "plan").stdout
        jobs = [stage.client(name, "jobs", "--detail").stdout for name in ("h1", "h2")]
        return "\n".join([stage.logs(), *said, plan, *jobs])

    until(true, what, patience_s)


def test_two_flows_that_collide_are_separated_and_all_comes_back(stage: AgentsStage) -> None:
    before = {name: dump(stage, name) for name in stage.names}
    stage.start()
    one, two, _ = collide(stage)
    last: list[str] = []

    def moved() -> list[str]:
        rows = {name: stage.flows(name) for name in ("h1", "h2")}
        last[:] = [n for n, flows in rows.items() if flows and flows[0]["wire_port"] >= 61000]
        return last

    def row() -> dict[str, Any]:
        (found,) = json.loads(stage.client(last[0], "flows", "--json").stdout)["flows"]
        return dict(found)

    def one_is_where_it_is_to_be() -> bool:
        if len(moved()) != 1:
            return False
        shown = row()
        wanted = shown["path_is"] == "wanted" and shown["path"] == shown["planned_path"]
        return bool(wanted and shown["wire_port"] >= 61000)

    wait(stage, lambda: shares(stage)[0] > 0.25 and one_is_where_it_is_to_be())
    (mover,) = last
    peers = {"h1": "h3", "h2": "h4"}
    assert part(stage, mover, "steering")["moved"] >= 1
    shown = row()
    assert (shown["dscp"], shown["protocol"]) == (0, "tcp")
    assert stage.client(mover, "verify").returncode == 0, stage.client(mover, "verify").stdout
    # An agent dies: within stale_s its flow has its own port again, and collides as before.
    stage.end(mover, signal.SIGKILL)
    wait(stage, lambda: shares(stage)[0] < 0.1)
    # It starts again, and one of the flows is moved again.
    stage.start(mover)
    wait(stage, lambda: len(moved()) == 1)
    (mover,) = last
    peer = peers[mover]
    # The receiver's agent leaves in good order: nothing is lost by that.  The other flow, both
    # ends of which have agents, may make room instead.
    assert stage.end(peer) == 0
    wait(stage, lambda: mover not in moved())
    # Neither was reset, which would have ended its program.  The host's count of resets does not
    # say so: an agent that leaves may reset a connection of its gossip.
    assert min(one.finish(), two.finish()) > 0
    # Killed, and undone without an agent.
    stage.end(mover, signal.SIGKILL)
    assert hooks(stage, mover)
    done = stage.rollback(mover)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in list(stage.agents):
        assert stage.end(name) == 0
    for name, text in before.items():
        assert dump(stage, name) == text
