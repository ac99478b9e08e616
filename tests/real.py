"""A real agent, started as a user starts it, in a network namespace and cgroup of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from tests import groups, patience, unit_sandbox

HOSTCC = (sys.executable, "-m", "hostcc")
IN_UNIT = tuple(unit_sandbox.within()) if os.environ.get("HOSTCC_TEST_UNIT") else ()
"""Before agents: with HOSTCC_TEST_UNIT=1 they have only what the unit leaves them."""
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

# A connection on loopback with both ends in one process, driven by lines on stdin.
TALKER = """
import socket, sys
port = int(sys.argv[1])
server = socket.create_server(("127.0.0.1", port))
client = socket.create_connection(("127.0.0.1", port))
peer, _ = server.accept()
TCP_CONGESTION = 13
def name(sock):
    return sock.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).rstrip(b"\\0").decode()
print("up", flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "ca":
        print(name(client), name(peer), flush=True)
    elif word == "set":
        client.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, rest[0].encode())
        print("done", flush=True)
    elif word == "send":
        left = int(rest[0])
        while left:
            part = min(left, 60000)
            client.sendall(bytes(part))
            got = 0
            while got < part:
                got += len(peer.recv(part - got))
            left -= part
        print("sent", flush=True)
    elif word == "exit":
        sys.exit(int(rest[0]))
"""


until = patience.until
PATIENCE_S = patience.PATIENCE_S
FILTERS = 10
"""Of the queues by level: five levels, IPv4 and IPv6."""


def available() -> set[str]:
    """Congestion controls that are registered now."""
    return set(AVAILABLE.read_text().split())


def begun(status: dict[str, Any]) -> bool:
    """Whether each part of an agent runs, or says why not: it answers before it starts them."""
    waiting = (None, "not started yet")
    return not any(row["state"] == "off" and row["reason"] in waiting for row in status["parts"])


class Talker:
    """A process with one connection."""

    def __init__(
        self, command: list[str], port: int, namespace: str = "", python: str = sys.executable
    ) -> None:
        enter = ["ip", "netns", "exec", namespace] if namespace else []
        self.process = subprocess.Popen(
            [*enter, *command, python, "-c", TALKER, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "up"

    def ask(self, words: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self._line()

    def controls(self) -> tuple[str, ...]:
        """The congestion control of each end."""
        return tuple(self.ask("ca").split())

    def cgroup(self) -> str:
        text = Path(f"/proc/{self.process.pid}/cgroup").read_text()
        return next(line[3:] for line in text.splitlines() if line.startswith("0::"))

    def exit(self, status: int) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"exit {status}\n")
        self.process.stdin.close()
        return self.process.wait(60)

    def warnings(self) -> str:
        """What its command has said on standard error; ends it."""
        self.exit(0)
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


class RealHost:
    """One lab-like host: namespace, cgroup, run directory; agents and talkers on it."""

    def __init__(self, folder: Path, cgroup2: Path) -> None:
        self.name = f"hcct-{uuid.uuid4().hex[:6]}"
        self.folder = folder
        self.root = cgroup2 / self.name
        self.root.mkdir()
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        self.inside("ip", "link", "set", "lo", "up")
        self.enter: tuple[str, ...] = ("nsenter", f"--net=/run/netns/{self.name}")
        self.agents: list[subprocess.Popen[str]] = []
        self.talkers: list[Talker] = []
        self.socket = folder / "run" / "control.sock"

    def inside(self, *command: str) -> str:
        """Run a command in the namespace."""
        done = subprocess.run(
            ["ip", "netns", "exec", self.name, *command],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout

    def configure(self, text: str = "", **agent: Any) -> Path:
        """Write the configuration."""
        keys = {
            "instance": self.name,
            "run_dir": str(self.folder / "run"),
            "cgroup_root": str(self.root),
            "network_namespaces": "own",
            **agent,
        }
        path = self.folder / "hostcc.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        path.write_text("\n".join(["[agent]", *lines, text]))
        return path

    def start(self, text: str = "", inside: bool = True, **agent: Any) -> subprocess.Popen[str]:
        """Start an agent, inside of the namespace or outside; wait until all of it has begun."""
        path = self.configure(text, **agent)
        enter = self.enter if inside else ()
        log = (self.folder / "agent.log").open("a")
        with log:
            process = subprocess.Popen(
                # ip netns exec would hide the cgroup tree
                [*enter, *IN_UNIT, *HOSTCC, "agent", "--config", str(path)],
                stderr=log,
                text=True,
            )
        self.agents.append(process)
        until(lambda: process.poll() is not None or self.acts(process.pid), self.log, PATIENCE_S)
        assert process.poll() is None, self.log()
        return process

    def answers(self, pid: int) -> bool:
        return self._status_of(pid) is not None

    def acts(self, pid: int) -> bool:
        """Whether that agent answers, and each of its parts runs, or says why it does not."""
        status = self._status_of(pid)
        return status is not None and begun(status)

    def _status_of(self, pid: int) -> dict[str, Any] | None:
        """What the agent answers; None: another one does, or none."""
        done = self.client("status", "--json")
        if done.returncode:
            return None
        status: dict[str, Any] = json.loads(done.stdout)
        return status if status["agent"]["pid"] == pid else None

    def log(self) -> str:
        return (self.folder / "agent.log").read_text()

    def client(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A client command."""
        return subprocess.run(
            [*HOSTCC, *words, "--socket", str(self.socket)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def json(self, *words: str) -> Any:
        """The answer of a client command."""
        done = self.client(*words, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def talker(self, job: str, port: int, *options: str) -> Talker:
        """A connection; as part of a job if one is named."""
        run = [*HOSTCC, "run", "--job", job, "--socket", str(self.socket), *options, "--"]
        made = Talker(run if job else [], port, self.name)
        self.talkers.append(made)
        return made

    def ours(self) -> set[str]:
        """Congestion controls that agents of this host have registered."""
        tag = self.tag()
        return {name for name in available() if name.startswith(f"hcc_{tag}_")}

    def tag(self) -> str:
        from hostcc.daemon.preflight import tag

        return tag(self.name, self.folder / "run")

    def queued(self, device: str = "eth0") -> bool:
        """Whether an agent's HTB queues are there, up to the last filter that it makes."""
        if "qdisc htb c1c: root" not in self.inside("tc", "qdisc", "show", "dev", device):
            return False
        filters = self.inside("tc", "filter", "show", "dev", device, "parent", "c1c:")
        return filters.count("flowid c1c:") == FILTERS

    def stop(self, process: subprocess.Popen[str], number: int = signal.SIGTERM) -> int:
        process.send_signal(number)
        return process.wait(PATIENCE_S)

    def close(self) -> None:
        """Leave nothing behind."""
        for talker in self.talkers:
            talker.close()
        for process in self.agents:
            if process.poll() is None:
                process.kill()
                process.wait()
        subprocess.run(["ip", "netns", "del", self.name], check=False)
        groups.remove(self.root)  # whoever was killed may not have ended yet
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        until(lambda: not self.ours(), "the kernel to forget the congestion controls")
