"""Real agents on the hosts of a small leaf-spine fabric, and jobs between them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.checked_stream import CheckedStream
from hostcc.lab import netns
from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_plan import LeafSpineSpec
from hostcc.paths.packets import TCP, Target
from hostcc.paths.prober import search
from tests.real import HOSTCC, PATIENCE_S, begun, until

PULSES = Path(__file__).with_name("pulses.py")
GOSSIP_PORT = 7471
SOURCES = range(20_000, 20_200)
"""Of which streams take one: below the ephemeral ports, which agents' connections may have."""


class AgentsStage:
    """A context manager.  `over`: lines that every agent's configuration has beside the stage's."""

    def __init__(
        self, over: str = "", *, v6: bool = False, spec: LeafSpineSpec | None = None
    ) -> None:
        self.fabric = LeafSpine(spec or LeafSpineSpec(leaves=2, spines=2, hosts_per_leaf=2))
        self.over, self.v6 = over, v6
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()
        self.folder = Path("/nowhere")

    def __enter__(self) -> AgentsStage:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stack.enter_context(self.fabric)
            stack.callback(self._kill_all)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    # Agents

    @property
    def names(self) -> list[str]:
        return [host.name for host in self.fabric.hosts]

    def address(self, name: str) -> str:
        host = self.fabric.host(int(name[1:]))
        return host.address6 if self.v6 else host.address

    def start(self, *names: str, over: str = "") -> None:
        """Start agents, all unless named, and wait until all of each has begun."""
        chosen = names or tuple(self.names)
        for name in chosen:
            path = self._configure(name, over)
            with (self.folder / f"{name}.log").open("ab") as log:
                self.agents[name] = self._spawn(
                    name, [*HOSTCC, "agent", "--config", str(path)], stdout=log, stderr=log
                )
        for name in chosen:
            until(lambda name=name: self._acts(name), self.logs, PATIENCE_S)  # type: ignore[misc]

    def reload(self, over: str) -> None:
        """Have all agents read their configuration again, with other lines of their own."""
        for name, agent in self.agents.items():
            self._configure(name, over)
            agent.send_signal(signal.SIGHUP)

    def end(self, name: str, number: int = signal.SIGTERM) -> int:
        agent = self.agents.pop(name)
        agent.send_signal(number)
        return agent.wait(PATIENCE_S)

    def client(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        socket = self.folder / name / "control.sock"
        return subprocess.run(
            [*HOSTCC, *words, "--socket", str(socket)],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def rollback(self, name: str) -> subprocess.CompletedProcess[str]:
        """`hostcc rollback` on a host whose agent is gone."""
        words = [*HOSTCC, "rollback", "--socket", str(self.folder / name / "control.sock")]
        netns = f"--net=/run/netns/{self.fabric.namespace(name)}"
        return subprocess.run(
            ["nsenter", netns, *words], capture_output=True, text=True, check=False, timeout=60
        )

    def status(self, name: str) -> dict[str, Any]:
        done = self.client(name, "status", "--json")
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        return found

    def flows(self, name: str) -> list[dict[str, Any]]:
        """Large flows, as status shows them."""
        rows: list[dict[str, Any]] = (self.status(name).get("routing") or {}).get("flows", [])
        return rows

    def logs(self) -> str:
        texts = [f"{p.name}:\n{p.read_text()[-3000:]}" for p in sorted(self.folder.glob("*.log"))]
        return "\n".join(texts)

    def inside(self, name: str, *command: str) -> str:
        done = subprocess.run(
            ["ip", "netns", "exec", self.fabric.namespace(name), *command],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return done.stdout

    def sources(self, src: str, dst: str, port: int) -> list[tuple[int, ...]]:
        """Source ports of sockets by the spine that they hash to, always in the same order."""
        target = Target(self.address(src), self.address(dst), TCP, port)
        found = netns.inside(self.fabric.namespace(src), lambda: search(target, SOURCES))
        return [ports for _, ports in sorted(found.paths.items())]

    # Jobs

    def stream(self, job: str, src: str, dst: str, port: int, **how: Any) -> Stream:
        made = Stream(self, job, src, dst, port, **how)
        self._stack.callback(made.kill)
        return made

    def run(self, job: str, name: str, words: list[str]) -> subprocess.Popen[bytes]:
        """A command on a host, as a part of a job."""
        socket = self.folder / name / "control.sock"
        run = [*HOSTCC, "run", "--job", job, "--socket", str(socket), "--"]
        return self._spawn(
            name, [*run, sys.executable, str(PULSES), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def _configure(self, name: str, over: str) -> Path:
        (self.folder / name).mkdir(exist_ok=True)
        host = self.fabric.host(int(name[1:]))
        seeds = [f"{x.name}@{x.address}:{GOSSIP_PORT}" for x in self.fabric.hosts if x != host]
        sections: dict[str, dict[str, Any]] = {
            "agent": {
                "instance": name,
                "run_dir": str(self.folder / name),
                "cgroup_root": str(self.fabric.cgroup_of(host)),
                "network_namespaces": "own",
            },
            "discover": {"enabled": False},
            "gpu": {"enabled": False},
            "gossip": {
                "enabled": True, "listen": f"{host.address}:{GOSSIP_PORT}", "keys": "",
                "insecure": True, "seeds": seeds,
            },
        }  # fmt: skip
        lines = []
        for section, keys in sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join([*lines, self.over, over]))
        return path

    def _acts(self, name: str) -> bool:
        status = self.status(name)
        return "parts" in status and begun(status)

    def _spawn(self, name: str, command: list[str], **files: Any) -> subprocess.Popen[bytes]:
        cgroup = self.fabric.cgroup_of(self.fabric.host(int(name[1:])))
        namespace = self.fabric.namespace(name)
        return netns.spawn(command, namespace=namespace, cgroup=cgroup, **files)

    def _kill_all(self) -> None:
        for agent in self.agents.values():
            agent.kill()
            agent.wait()


class Stream:
    """Checked bursts of a job from one host to another."""

    def __init__(
        self, stage: AgentsStage, job: str, src: str, dst: str, port: int,
        source: int = 0, period_s: float = 0.4, size: int = 4 << 20,
    ) -> None:  # fmt: skip
        address = stage.address(dst)
        words = ["send", address, str(port), str(source), str(period_s), str(size)]
        self._stream = CheckedStream(
            lambda: stage.run(job, dst, ["take", address, str(port)]),
            lambda: stage.run(job, src, words),
        )
        self.sport, self.port = self._stream.own_port, port
        self.kill = self._stream.close

    def finish(self) -> int:
        """Stop; bytes that arrived, every one of them as it was sent."""
        sent, whole = self._stream.finish()
        assert whole
        return sent
