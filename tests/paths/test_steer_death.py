"""kill -9 of either agent before every step of an exchange, under a checksummed stream."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostcc.lab import netns
from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_plan import LeafSpineSpec
from hostcc.paths import steer_kernel
from tests.paths.steer_stage import Pair, counters, until

pytestmark = pytest.mark.kernel

AGENT = Path(__file__).with_name("agent_process.py")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fabric() -> Iterator[LeafSpine]:
    with LeafSpine(LeafSpineSpec(spines=2)) as built:
        yield built


class Agents:
    """Processes h1 and h2, and the folder that they talk through."""

    def __init__(self, fabric: LeafSpine, folder: Path, port: int, own: int) -> None:
        self.fabric, self.folder, self.port, self.own = fabric, folder, port, own
        self.wires = iter(range(50000, 60000, 2))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, step: int = 0) -> None:
        other = "h2" if name == "h1" else "h1"
        address = {h.name: h.address for h in self.fabric.hosts}
        wire = next(self.wires) if name == "h1" else 0
        words = [name, address[name], other, address[other], self.folder, step, self.own, self.port,
                 wire]  # fmt: skip
        self.running[name] = netns.spawn(
            [sys.executable, str(AGENT), *map(str, words)],
            namespace=self.fabric.namespace(name), cgroup=None, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def line(self, name: str) -> str:
        out = self.running[name].stdout
        assert out is not None
        return out.readline().decode().strip()

    def ended(self, name: str) -> Callable[[], bool]:
        process = self.running[name]
        return lambda: process.poll() is not None

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("victim", "steps"), [("h1", 6), ("h2", 5)])
def test_killed_before_every_step(
    fabric: LeafSpine, tmp_path: Path, victim: str, steps: int
) -> None:
    """Each time the other end goes on, and a new agent takes over what the dead one left."""
    pair = Pair(fabric)  # for its stream; the agents are processes
    stream = pair.stream(source=41000 + steps)
    agents = Agents(fabric, tmp_path, stream.flow.dport, stream.flow.sport)
    survivor = "h2" if victim == "h1" else "h1"
    before = [counters(fabric, name, "Tcp") for name in ("h1", "h2")]
    try:
        agents.start(survivor)
        for step in range(1, steps + 1):
            agents.start(victim, step)
            until(agents.ended(victim), f"the end of {victim} before step {step}", 120.0)
            assert agents.running[victim].returncode == -signal.SIGKILL, f"step {step}"
            agents.kill(victim)
        agents.start(victim)
        for _ in range(2):  # whoever is new goes on where the dead one was
            while (said := agents.line("h1")) != "round":
                assert said in {"up", "round"}
        arrived = counters(fabric, "h2", "Tcp")["InSegs"]
        agents.kill(victim)
        agents.kill(survivor)
        until(
            lambda: counters(fabric, "h2", "Tcp")["InSegs"] > arrived + 1000, "the stream to go on"
        )
        assert stream.finish() > 0
        after = [counters(fabric, name, "Tcp") for name in ("h1", "h2")]
        for old, new in zip(before, after, strict=True):
            assert new["EstabResets"] == old["EstabResets"]
            assert new["OutRsts"] == old["OutRsts"]  # nothing ever came that was not understood
    finally:
        stream.kill()
        for name in list(agents.running):
            agents.kill(name)
        for name in ("h1", "h2"):
            steer_kernel.remove_all(["eth0"], fabric.namespace_path(name))
