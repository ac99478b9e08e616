"""Two hosts of a leaf-spine fabric whose agents move a checksummed stream between paths.

The agents' messages are UDP datagrams through the same fabric.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks import repath_stream
from benchmarks.checked_stream import CheckedStream
from hostcc.lab import netns
from hostcc.lab.errors import LabError
from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_plan import LeafSpineSpec
from hostcc.paths.steer_kernel import SteerKernel
from hostcc.paths.steering import Steering
from hostcc.paths.steering_messages import FlowKey, Timing

STREAM = Path(repath_stream.__file__)
PORT, AGENT_PORT = 5301, 5400
PATIENCE_S = 10.0
TICK_S = 0.1
TIMING = Timing(drain_s=0.1, quarantine_s=0.1)
Result = TypeVar("Result")
NAMES = ("h1", "h2")


class RepathStage:
    """A context manager; `flow` is the stream from h1 to h2."""

    def __init__(self, spines: int, v6: bool) -> None:
        self.fabric = LeafSpine(LeafSpineSpec(spines=spines))
        self._v6 = v6
        self._stack = ExitStack()
        self._ticked = 0.0
        self.kernels: dict[str, SteerKernel] = {}
        self.agents: dict[str, Steering] = {}
        self._socks: dict[str, socket.socket] = {}

    def __enter__(self) -> RepathStage:
        with ExitStack() as stack:
            stack.enter_context(self.fabric)
            hosts = self.fabric.hosts[:2]
            self.addresses = {h.name: h.address6 if self._v6 else h.address for h in hosts}
            for name in NAMES:
                self._socks[name] = stack.enter_context(
                    self._inside(name, partial(self._bind, name))
                )
            self.attach()
            stack.callback(self.detach)
            self._start_stream(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def attach(self) -> None:
        """Programs on both hosts, and agents that know of no flow."""
        owner = {address: name for name, address in self.addresses.items()}
        for name in NAMES:
            kernel = SteerKernel(["eth0"], self.fabric.namespace_path(name), stale_s=30.0)
            self.kernels[name] = kernel
            make = partial(
                Steering,
                kernel,
                partial(self._post, name),
                lambda address: owner.get(address, ""),
                partial(self._mine, name),
                TIMING,
            )
            self.agents[name] = self._inside(name, make)

    def detach(self) -> None:
        """As if there were no steering."""
        for name in NAMES:
            if name in self.kernels:
                self.kernels.pop(name).remove()
                del self.agents[name]

    def move(self, port: int) -> float:
        """Move the stream; seconds until its first packet has left with the new port."""
        sender = self.agents["h1"].sender
        start = time.monotonic_ns()
        self.agents["h1"].move(self.flow, "h2", port)
        self.serve(lambda: sender.active(self.flow) == port)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for row in self.kernels["h1"].leaving():
                if row.wire_port == port and row.first_ns:
                    return max(0, row.first_ns - start) / 1e9
        raise LabError("no packet left with the new port")

    def free(self, port: int) -> bool:
        """Whether the stream may move there."""
        sender = self.agents["h1"].sender
        return sender.free(self.flow, port) and sender.active(self.flow) != port

    def serve(self, done: Callable[[], bool]) -> None:
        """Let the agents talk until something is so.  Raises LabError."""
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            if time.monotonic() > deadline:
                raise LabError(f"no agreement: {self.agents['h1'].sender.refusals}")
            self.step(0.05)

    def step(self, seconds: float) -> None:
        """What an agent's loop does once."""
        ready, _, _ = select.select(list(self._socks.values()), [], [], seconds)
        for name, sock in self._socks.items():
            if sock in ready:
                data = sock.recv(2048)
                other = NAMES[1 - NAMES.index(name)]
                self._inside(name, partial(self.agents[name].heard, other, data))
        if time.monotonic() - self._ticked > TICK_S:
            self._ticked = time.monotonic()
            for agent in self.agents.values():
                agent.tick()

    def received(self) -> int:
        """Bytes that h2's device has received."""

        def read() -> int:
            rows = Path("/proc/thread-self/net/dev").read_text().splitlines()
            return next(int(row.split()[1]) for row in rows if row.strip().startswith("eth0:"))

        return netns.inside(self.fabric.namespace("h2"), read)

    def finish(self) -> tuple[int, bool]:
        """End the stream: bytes, and whether all arrived as they were sent."""
        return self._stream.finish()

    def _start_stream(self, stack: ExitStack) -> None:
        to = [self.addresses["h2"], str(PORT)]
        self._stream = CheckedStream(
            partial(self._spawn, 1, ["serve", *to]), partial(self._spawn, 0, ["send", *to, "0"])
        )
        stack.callback(self._stream.close)
        self.flow = FlowKey(self.addresses["h1"], to[0], self._stream.own_port, PORT)

    def _spawn(self, number: int, words: list[str]) -> subprocess.Popen[bytes]:
        return netns.spawn(
            [sys.executable, "-I", "-S", str(STREAM), *words],
            namespace=self.fabric.namespace(NAMES[number]),
            cgroup=self.fabric.cgroup_of(self.fabric.hosts[number]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def _bind(self, name: str) -> socket.socket:
        sock = socket.socket(socket.AF_INET6 if self._v6 else socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((self.addresses[name], AGENT_PORT))
        return sock

    def _post(self, name: str, to: str, data: bytes) -> None:
        self._socks[name].sendto(data, (self.addresses[to], AGENT_PORT))

    def _mine(self, name: str, address: str) -> bool:
        return address == self.addresses[name]

    def _inside(self, name: str, function: Callable[[], Result]) -> Result:
        return netns.inside(self.fabric.namespace(name), function)
