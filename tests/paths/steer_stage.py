"""Two hosts of a fabric with steering on both, whose agents talk through a mailbox."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import repath_stream
from benchmarks.checked_stream import CheckedStream
from hostcc.lab import netns
from hostcc.lab.leafspine import LeafSpine
from hostcc.paths.hooks import Way
from hostcc.paths.steer_kernel import SteerKernel
from hostcc.paths.steering import Steering
from hostcc.paths.steering_messages import FlowKey, Timing
from tests import patience

STREAM = Path(repath_stream.__file__)
TIMING = Timing(retry_s=0.05, drain_s=0.1, quarantine_s=0.1, keep_s=900.0)
PORT = 5301


until = patience.until


class Pair:
    """Agents "h1", which sends, and one that receives; `mail` is delivered by `deliver`."""

    def __init__(
        self, fabric: LeafSpine, *, v6: bool = False, way: Way | None = None, receiver: int = 2
    ) -> None:
        self.fabric, self.way = fabric, way
        one, two = fabric.host(1), fabric.host(receiver)
        self.receiver = two.name
        self.addresses = {
            "h1": one.address6 if v6 else one.address,
            two.name: two.address6 if v6 else two.address,
        }
        self.mail: list[tuple[str, str, bytes]] = []
        self.kernels: dict[str, SteerKernel] = {}
        self.agents: dict[str, Steering] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Pair:
        for name in self.addresses:
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.agents):
            self.kernels[name].remove()
        self._stack.close()

    def start(self, name: str, stale_s: float = 30.0) -> None:
        """A new agent; it takes over what the last one left."""
        kernel = SteerKernel(["eth0"], self.fabric.namespace_path(name), stale_s, way=self.way)
        owner = {address: host for host, address in self.addresses.items()}
        self.kernels[name] = kernel
        self.agents[name] = netns.inside(
            self.fabric.namespace(name),
            lambda: Steering(
                kernel,
                lambda to, data: self.mail.append((name, to, data)),
                lambda address: owner.get(address, ""),
                lambda address: address == self.addresses[name],
                TIMING,
            ),
        )

    def kill(self, name: str) -> None:
        """The agent dies: its descriptors close, nothing is undone."""
        self.kernels.pop(name).close()
        del self.agents[name]

    def deliver(self) -> None:
        """All messages, and those that they lead to."""
        while self.mail:
            sender, to, data = self.mail.pop(0)
            if to in self.agents:
                agent = self.agents[to]
                netns.inside(self.fabric.namespace(to), partial(agent.heard, sender, data))

    def tick(self) -> None:
        for agent in list(self.agents.values()):
            agent.tick()
        self.deliver()

    def move(self, flow: FlowKey, port: int) -> None:
        self.agents["h1"].move(flow, self.receiver, port)
        self.deliver()
        assert self.agents["h1"].sender.active(flow) == port, self.agents["h1"].sender.refusals

    def stream(self, port: int = PORT, source: int = 0) -> Stream:
        made = Stream(self, port, source)
        self._stack.callback(made.kill)
        return made


class Stream:
    """A checksummed stream from h1 to the receiver."""

    def __init__(self, pair: Pair, port: int, source: int) -> None:
        self._pair = pair
        address = pair.addresses[pair.receiver]
        self._stream = CheckedStream(
            partial(self._spawn, pair.receiver, ["serve", address, str(port)]),
            partial(self._spawn, "h1", ["send", address, str(port), str(source)]),
        )
        self.flow = FlowKey(pair.addresses["h1"], address, self._stream.own_port, port)
        self.kill = self._stream.close

    def _spawn(self, name: str, words: list[str]) -> subprocess.Popen[bytes]:
        fabric = self._pair.fabric
        return netns.spawn(
            [sys.executable, "-I", "-S", str(STREAM), *words],
            namespace=fabric.namespace(name),
            cgroup=fabric.cgroup_of(fabric.host(int(name[1:]))),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def finish(self) -> int:
        """Stop; bytes that arrived, every one of them as it was sent."""
        sent, whole = self._stream.finish()
        assert whole
        return sent


def counters(fabric: LeafSpine, namespace: str, table: str) -> dict[str, int]:
    """Tcp or TcpExt counters of a host."""

    def read() -> dict[str, int]:
        found: dict[str, int] = {}
        for file in ("snmp", "netstat"):
            rows = Path(f"/proc/thread-self/net/{file}").read_text().splitlines()
            parts = [row.split()[1:] for row in rows if row.startswith(f"{table}:")]
            if len(parts) == 2:
                found |= {k: int(v) for k, v in zip(*parts, strict=True)}
        return found

    return netns.inside(fabric.namespace(namespace), read)
