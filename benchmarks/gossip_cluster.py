"""Many members of gossip as processes in two namespaces with one wire between them."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

import msgspec

from benchmarks.gossip_member import Line, Order
from hostcc.coord.keys import files, identity
from hostcc.coord.keys.identity import HostKeys
from hostcc.lab import netns
from hostcc.lab.errors import LabError

NET = "198.18.60"
FIRST_PORT = 7500
SEEDS = 4
DECODER = msgspec.json.Decoder(Line)


class Cluster:
    """A context manager; everything in it ends with it.  Methods raise LabError."""

    def __init__(self, count: int, quick: bool = False) -> None:
        self._quick = quick
        self.names = [f"m{number:03d}" for number in range(count)]
        self.lines: dict[str, Line] = {}
        """The latest of each member that runs."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._rests: dict[str, bytes] = {}
        self._selector = selectors.DefaultSelector()
        tag = secrets.token_hex(2)
        self._spaces = [f"hcg-{tag}-{side}" for side in "ab"]
        self._stack = contextlib.ExitStack()
        self._keys: Path

    def __enter__(self) -> Cluster:
        try:
            self._keys = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            self._make_keys()
            self._stack.callback(netns.remove, self._spaces)
            netns.create(self._spaces)
            self._wire()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self.kill(list(self._processes))
        self._selector.close()
        self._stack.close()

    @property
    def running(self) -> list[str]:
        """Members whose process runs."""
        return list(self._processes)

    def side(self, name: str) -> int:
        """0 or 1: the end of the wire where a member is."""
        return self.names.index(name) % 2

    def start(self, names: Iterable[str]) -> None:
        """Start members and wait until each has spoken."""
        started = list(names)
        for name in started:
            order = Order(
                name=name,
                listen=self._address(name),
                keys=str(self._keys / name),
                seeds=tuple(f"{s}@{self._address(s)}" for s in self.names[:SEEDS] if s != name),
                quick=self._quick,
            )
            process = netns.spawn(
                [sys.executable, "-m", "benchmarks.gossip_member", _text(order)],
                namespace=self._spaces[self.side(name)],
                cgroup=None,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert process.stdout is not None
            self._processes[name] = process
            self._rests[name] = b""
            self._selector.register(process.stdout, selectors.EVENT_READ, name)
        self.wait(lambda: all(name in self.lines for name in started), 120.0)

    def kill(self, names: Iterable[str]) -> None:
        """kill -9."""
        for name in names:
            process = self._processes.pop(name)
            process.send_signal(signal.SIGKILL)
            assert process.stdout is not None
            assert process.stdin is not None
            self._selector.unregister(process.stdout)
            process.wait()
            process.stdout.close()
            process.stdin.close()
            self.lines.pop(name, None)

    def cut(self, apart: bool) -> None:
        """Take the wire away, or put it back."""
        netns.batch("ip", [f"link set wire {'down' if apart else 'up'}"], self._spaces[0])

    def wait(self, done: Callable[[], bool], within: float) -> float:
        """Seconds until `done()`.  Raises LabError."""
        start = time.monotonic()
        while not done():
            if time.monotonic() - start > within:
                raise LabError(f"gossip: not done within {within:g} s: {self.summary()}")
            self.read(0.1)
        return time.monotonic() - start

    def read(self, seconds: float) -> None:
        """Take note of what members say, for so long at most if nobody says anything."""
        for key, _ in self._selector.select(seconds):
            name = str(key.data)
            process = self._processes[name]
            assert process.stdout is not None
            data = os.read(process.stdout.fileno(), 65536)
            if not data:
                raise LabError(f"gossip: member {name} has ended by itself")
            *lines, self._rests[name] = (self._rests[name] + data).split(b"\n")
            if lines:
                self.lines[name] = DECODER.decode(lines[-1])

    def agree(self, names: Iterable[str]) -> bool:
        """Whether these know each other, nobody else, and follow one plan."""
        wanted = list(names)
        lines = [self.lines[name] for name in wanted if name in self.lines]
        if len(lines) < len(wanted) or any(line.alive != len(wanted) - 1 for line in lines):
            return False
        views = {(line.held, line.active) for line in lines}
        return len(views) == 1 and len(set(next(iter(views)))) == 1 and all(x.agreed for x in lines)

    def summary(self) -> str:
        """For an error message."""
        alive = sorted({line.alive for line in self.lines.values()})
        views = len({line.active for line in self.lines.values()})
        return f"{len(self.lines)} run, {alive} alive as they see it, {views} active views"

    def _address(self, name: str) -> str:
        return f"{NET}.{1 + self.side(name)}:{FIRST_PORT + self.names.index(name)}"

    def _make_keys(self) -> None:
        hosts = [HostKeys(name, (identity.generate(time.time() - 1),)) for name in self.names]
        everybody = self._keys / "everybody"
        for host in hosts:
            files.allow(everybody, host.member)
        for host in hosts:
            directory = self._keys / host.name
            files.write_host(directory, host)
            allowed = files.allowed_directory(directory)
            for file in files.allowed_directory(everybody).iterdir():
                (allowed / file.name).unlink(missing_ok=True)
                (allowed / file.name).hardlink_to(file)

    def _wire(self) -> None:
        one, other = self._spaces
        netns.batch("ip", [f"link add wire netns {one} type veth peer name wire netns {other}"])
        for number, space in enumerate(self._spaces, 1):
            netns.batch("ip", [f"addr add {NET}.{number}/24 dev wire", "link set wire up"], space)


def _text(order: Order) -> str:
    return msgspec.json.encode(order).decode()
