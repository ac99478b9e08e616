"""Scenarios on a leaf-spine fabric, on the real kernel: agents, events, cleaning up."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostcc.lab import down, netns, results, state
from hostcc.lab.leafspine_lab import LeafSpineLab
from hostcc.lab.leafspine_plan import FabricHost
from hostcc.lab.leafspine_scenario import LeafSpineFabric
from tests.lab.test_run import things
from tests.real import until

pytestmark = pytest.mark.kernel

FABRIC = """
gossip = true
alone_iterations = 0
[fabric]
kind = "leaf-spine"
spines = 2
hosts_per_leaf = 2
rate_mbit = 50
queues = "strict"
management = true
[[job]]
name = "a"
on = ["h1", "h3"]
compute_ms = 30
comm_ms = 20
flops = 1e9
[[job]]
name = "ring"
on = ["h2", "h4", "h1"]
pattern = "allreduce"
compute_ms = 30
comm_ms = 20
[[variant]]
name = "agents"
agent = {}
"""


def action(at_ms: int, run: str) -> str:
    return f'[[action]]\nat_ms = {at_ms}\nrun = "{run}"\n'


EVENTS = "".join(
    (
        action(300, "spine-down 2"),
        action(600, "spine-up 2"),
        action(700, "uplink leaf1 1 25"),
        action(800, "cut-gossip h1 h3"),
        action(900, "kill-agent a"),
        action(950, "cut-gossip all"),
        action(1000, "heal-gossip"),
        action(1100, "start-agent a"),
        action(1200, "start-job ring"),
    )
)


def run(tmp_path: Path, text: str, *extra: str) -> dict[str, Any]:
    path = tmp_path / "tiny.toml"
    path.write_text(text)
    command = [sys.executable, "-m", "hostcc", "lab", "run", str(path), "--json", *extra]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err.decode()
    assert err == b""
    # A record goes last, after everything that it names.
    assert process.pid not in [lab.pid for lab in state.recorded()]
    results.decode(out)
    found: dict[str, Any] = json.loads(out)
    return found


def test_agents_events_and_the_way_of_every_flow(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run(
        tmp_path, "iterations = 20\n" + FABRIC + EVENTS, "--compare", "agents", "--out", str(out)
    )
    (measured,) = found["variants"][0]["runs"]
    assert [event["problem"] for event in measured["events"]] == [""] * 9
    assert {agent["host"] for agent in measured["agents"]} == {"h1", "h2", "h3", "h4"}
    assert all(len(job["seconds"]) >= 20 for job in measured["jobs"])
    assert measured["resets"] == 0
    flows = {(flow["job"], flow["src"], flow["dst"]): flow for flow in measured["flows"]}
    assert set(flows) == {("a", "h1", "h3"), ("ring", "h2", "h4"), ("ring", "h4", "h1")}
    seen = [entry["what"] for entry in measured["settled"]]
    assert seen[:2] == ["a begins", "spine-down 2"]
    assert (out / "paths.png").stat().st_size > 1000


def test_the_best_assignment_keeps_flows_apart(tmp_path: Path) -> None:
    text = "iterations = 5\n" + FABRIC.replace('"h2", "h4", "h1"', '"h2", "h4"').replace(
        '"allreduce"', '"push"'
    )
    found = run(tmp_path, text, "--compare", "best")
    (measured,) = found["variants"][0]["runs"]
    spines = [flow["spines"] for flow in measured["flows"]]
    assert sorted(spines) == [[1], [2]]
    assert {flow["job"] for flow in measured["flows"]} == {"a", "ring"}


def test_a_killed_lab_is_removed_by_down(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text("iterations = 100000\n" + FABRIC)
    before = things()
    process = subprocess.Popen(
        [sys.executable, "-m", "hostcc", "lab", "run", str(path), "--compare", "agents"],
        stdout=subprocess.DEVNULL,
    )
    try:

        def mine() -> list[state.LabState]:
            return [one for one in state.recorded() if one.pid == process.pid]

        until(lambda: bool(mine()), "a record", 60)
        (lab,) = mine()
        agents = Path(lab.run_dir)
        until((agents / "h4" / "control.sock").exists, "the agents", 120)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert things() - before
        assert lab.id in down.down()
        until(lambda: lab.id not in str(things()), "the kernel to remove the lab")
    finally:
        process.kill()
        process.wait()


def test_a_longer_way_and_a_slower_host(tmp_path: Path) -> None:
    text = """
    iterations = 3
    alone_iterations = 1
    [fabric]
    kind = "leaf-spine"
    spines = 2
    hosts_per_leaf = 1
    base_rtt_us = 20050
    host_mbit = [0, 10]
    [[job]]
    name = "a"
    on = ["h1", "h2"]
    bytes = 25000
    [[background]]
    kind = "udp"
    rate_mbit = 1
    on = ["h1", "h2"]
    """
    found = run(tmp_path, text, "--compare", "cubic")
    (variant,) = found["variants"]
    (job,) = variant["runs"][0]["jobs"]
    # 25 kB at 10 Mbit/s, of which some packets leave at once, and an answer that cannot be back
    # before a round trip is over: well above either.
    assert min(job["seconds"]) >= 0.03


# A process that stands still must not make the higher level run dry: what the sender of the lowest
# and both receivers have in hand is little, beside all that the higher level sends.
SINK = """
import select, socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
listener.bind((sys.argv[1], 5000))
listener.listen()
print("ready", flush=True)
links = [listener.accept()[0] for _ in range(2)]
while links:
    for link in select.select(links, [], [])[0]:
        try:
            more = link.recv(1 << 18, socket.MSG_TRUNC)
        except ConnectionResetError:
            more = 0
        if not more:
            links.remove(link)
"""
SOURCE = """
import select, socket, struct, sys
links = []
for tos, buffer in ((0, 1 << 16), (0xA0, 1 << 21)):
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    link.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    link.connect((sys.argv[1], 5000))
    link.setblocking(False)
    links.append(link)
low, high = links
low.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
left = 4_000_000
while left > 0:
    for link in select.select([], links, [])[1]:
        sent = link.send(bytes(1 << 16))
        left -= sent if link is high else 0
low.close()
high.shutdown(socket.SHUT_WR)
high.setblocking(True)
high.recv(1)
"""


def test_a_higher_level_goes_first_and_the_lowest_does_not_starve() -> None:
    fabric = LeafSpineFabric(spines=1, hosts_per_leaf=1, rate_mbit=20, queues="strict")
    with LeafSpineLab(fabric) as lab:
        client, server = lab.hosts

        def spawn(host: FabricHost, code: str) -> subprocess.Popen[bytes]:
            return netns.spawn(
                [sys.executable, "-c", code, server.address],
                namespace=lab.namespace(host.name),
                cgroup=lab.cgroup_of(host),
                stdout=subprocess.PIPE,
            )

        with spawn(server, SINK) as sink:
            assert sink.stdout is not None
            assert sink.stdout.readline() == b"ready\n"
            with spawn(client, SOURCE) as source:
                assert source.wait(300) == 0
            sent = {one.dscp: one.bytes for one in lab.segments()}
            sink.kill()
    assert sent[40] > 3 * sent[0] > 0
