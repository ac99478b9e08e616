"""A tracing script as a user runs it, and namespaces with traffic for it to see."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.patience import Patience

TOOLS = Path(__file__).parent.parent.parent / "tools"
PATIENCE_S = 60.0
BOUND = ("--duration", "600")
"""No script outlives a test that failed by much."""


class Tracer:
    """One running script; `events` are its JSON lines."""

    def __init__(self, name: str, *options: str) -> None:
        self.name = f"trace-{name}"
        self.process = subprocess.Popen(
            [str(TOOLS / self.name), *options, *BOUND],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self.lines: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(stream, kept), daemon=True)
            for stream, kept in (
                (self.process.stdout, self.lines),
                (self.process.stderr, self.said),
            )
        ]

    def __enter__(self) -> Tracer:
        for reader in self._readers:
            reader.start()
        self.wait(lambda: any(f"{self.name}: tracing" in line for line in self.said))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    @staticmethod
    def _read(stream: Any, kept: list[str]) -> None:
        kept.extend(line.rstrip("\n") for line in stream)

    @property
    def events(self) -> list[dict[str, Any]]:
        """All JSON lines so far."""
        return [json.loads(line) for line in list(self.lines)]

    def wait(self, true: Callable[[], bool]) -> None:
        """Wait until something is true that the script's output must lead to."""
        patience = Patience(PATIENCE_S)
        while not true():
            assert self.process.poll() in (None, 0), self.said
            assert patience.lasts(), (self.said[-5:], self.lines[-5:])
            time.sleep(0.02)

    def found(self, **wanted: Any) -> dict[str, Any]:
        """The first event that has these values; waits for it."""
        return self.matching(1, **wanted)[0]

    def matching(self, count: int, **wanted: Any) -> list[dict[str, Any]]:
        """Events that have these values; waits until there are so many."""
        found: list[dict[str, Any]] = []

        def enough() -> bool:
            found[:] = [
                event
                for event in self.events
                if all(event.get(key) == value for key, value in wanted.items())
            ]
            return len(found) >= count

        self.wait(enough)
        return found

    def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """Wait for the end; the exit status."""
        status = self.process.wait(2 * PATIENCE_S)
        for reader in self._readers:
            reader.join()
        return status


class Pair:
    """Two network namespaces on one link, 198.18.77.1 and .2, shaped towards the second.

    The second also has 198.18.78.2 and fd00:78::2, which the first reaches through it.
    """

    def __init__(self) -> None:
        mark = uuid.uuid4().hex[:6]
        self.names = (f"hcct-{mark}a", f"hcct-{mark}b")
        for name in self.names:
            self._ip("netns", "add", name)
        one, two = self.names
        self._ip("link", "add", "v0", "netns", one, "type", "veth", "peer", "v0", "netns", two)
        for name, host in ((one, "1"), (two, "2")):
            self._ip("-n", name, "addr", "add", f"198.18.77.{host}/24", "dev", "v0")
            self._ip("-n", name, "addr", "add", f"fd00:77::{host}/64", "dev", "v0", "nodad")
            self._ip("-n", name, "link", "set", "v0", "up")
            self._ip("-n", name, "link", "set", "lo", "up")
        # Nothing shall wait for a neighbour to be found.
        mac = json.loads(self._ip("-n", two, "-j", "link", "show", "v0"))[0]["address"]
        for peer in ("198.18.77.2", "fd00:77::2"):
            self._ip("-n", one, "neigh", "replace", peer, "lladdr", mac, "dev", "v0")
        self._ip("-n", two, "addr", "add", "198.18.78.2/32", "dev", "lo")
        self._ip("-n", two, "addr", "add", "fd00:78::2/128", "dev", "lo", "nodad")
        self._ip("-n", one, "route", "add", "198.18.78.2", "via", "198.18.77.2")
        self._ip("-n", one, "route", "add", "fd00:78::2", "via", "fd00:77::2")

    def close(self) -> None:
        for name in self.names:
            self._ip("netns", "del", name)

    def shape(self, rate: str, limit: int) -> None:
        """HTB above a FIFO of `limit` bytes, from the first to the second."""
        for line in (
            "qdisc add dev v0 root handle 1: htb default 1",
            f"class add dev v0 parent 1: classid 1:1 htb rate {rate} burst 2000 quantum 1514",
            f"qdisc add dev v0 parent 1:1 handle 10: bfifo limit {limit}",
        ):
            subprocess.run(["tc", "-n", self.names[0], *line.split()], check=True)

    def counters(self) -> list[dict[str, Any]]:
        """What tc says about the shaped device."""
        done = subprocess.run(
            ["tc", "-n", self.names[0], "-s", "-j", "qdisc", "show", "dev", "v0"],
            check=True,
            capture_output=True,
            text=True,
        )
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows

    @staticmethod
    def _ip(*words: str) -> str:
        return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
