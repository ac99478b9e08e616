"""Two hosts with a wire between them, an agent on each, and one who tells them of the cluster."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostcc.bpf.loader.netns import in_netns
from hostcc.lab import netns
from tests.daemon.profiling.wired import QUIET
from tests.patience import Patience
from tests.real import HOSTCC, RealHost

TOP = Path(__file__).parents[3]
MARKED = TOP / "tests" / "paths" / "marked.py"
TELLER = Path(__file__).with_name("teller.py")
ADDRESSES = ("198.18.12.1", "198.18.12.2")
PORT = 7473
ETH_P_ALL, ETH_P_IP, TCP = 3, 0x0800, 6
"""All: of one kind alone the kernel shows only what comes in."""
PATIENCE_S = 120.0


class Orders:
    """A process that is told things by lines and answers each."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TOP)},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, words: Any) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return self.line()

    def ask(self, order: str, **arguments: Any) -> Any:
        return json.loads(self.say([order, arguments]))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


class Scene:
    """`one` and `two`; the teller lives beside `one`."""

    def __init__(self, folder: Path, cgroup2: Path) -> None:
        self.hosts: list[RealHost] = []
        self.processes: list[Orders] = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            self.hosts.append(RealHost(folder / name, cgroup2))
        self.one, self.two = self.hosts
        ends = [host.name for host in self.hosts]
        netns.batch("ip", [f"link add eth0 type veth peer name eth0 netns {ends[1]}"], ends[0])
        for name, address in zip(ends, ADDRESSES, strict=True):
            netns.batch("ip", [f"addr add {address}/24 dev eth0", "link set eth0 up"], name)
        self.wire = in_netns(Path(f"/run/netns/{self.one.name}"), _packets)
        command = [sys.executable, str(TELLER), "teller", f"{ADDRESSES[0]}:{PORT}"]
        self.teller = self._spawn(self.one, command)
        assert self.teller.line() == "up"

    def section(self, text: str = "") -> str:
        """Of the configuration, beside `text`."""
        seed = f"teller@{ADDRESSES[0]}:{PORT}"
        gossip = f"enabled = true\nkeys = ''\ninsecure = true\nseeds = ['{seed}']"
        return f"{QUIET}[gossip]\n{gossip}\n{text}"

    def tell(self, **work: float) -> None:
        assert self.teller.say(work) == "told"

    def job(self, host: RealHost, name: str) -> Orders:
        """A process of a job."""
        run = [*HOSTCC, "run", "--job", name, "--socket", str(host.socket), "--"]
        return self._spawn(host, [*run, sys.executable, str(MARKED)])

    def seen(self, port: int, send: Callable[[], object]) -> dict[str, int]:
        """ToS bytes on the wire, by source address, of packets from or to a port that `send`
        causes."""
        self.wire.setblocking(False)
        try:
            while self.wire.recv(2048):
                pass
        except BlockingIOError:
            pass
        found: dict[str, int] = {}
        self.wire.settimeout(0.5)
        patience = Patience(PATIENCE_S)
        send()
        while len(found) < 2 and patience.lasts():
            try:
                packet, where = self.wire.recvfrom(2048)
            except TimeoutError:
                continue
            if where[1] != ETH_P_IP:
                continue
            at = (packet[0] & 15) * 4
            ports = {int.from_bytes(packet[at + i : at + i + 2], "big") for i in (0, 2)}
            if packet[9] == TCP and port in ports:
                found[socket.inet_ntoa(packet[12:16])] = packet[1] & 0xFC
        return found

    def _spawn(self, host: RealHost, command: list[str]) -> Orders:
        made = Orders(["ip", "netns", "exec", host.name, *command])
        self.processes.append(made)
        return made

    def close(self) -> None:
        self.wire.close()
        for process in self.processes:
            process.close()
        for host in self.hosts:
            host.close()


def _packets() -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    sock.bind(("eth0", ETH_P_ALL))
    return sock
