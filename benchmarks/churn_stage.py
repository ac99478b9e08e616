"""Agents with all parts on, on a small leaf-spine fabric with short-lived jobs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from benchmarks import host_dump
from benchmarks.held import KernelResources, held
from hostcc.client import ask
from hostcc.daemon import preflight
from hostcc.errors import HostccError
from hostcc.lab import agents, netns
from hostcc.lab.errors import LabError
from hostcc.lab.leafspine_lab import LeafSpineLab
from hostcc.lab.leafspine_scenario import LeafSpineFabric

OVER: dict[str, Any] = {
    "mltcp": {"mode": "mltcp"},
    "marking": {"enabled": True},
    "egress": {"queues": "htb", "devices": ["eth0"], "rate_mbit": 1000.0},
    "paths": {"enabled": True, "stale_s": 2.0, "shares": "window"},
}
"""Everything on, beside what the lab sets."""
PORT = 5310
LOAD = "benchmarks.churn_load"
LOOK_S = 0.25
"""Between two looks at a host's flows: what a lag is known to."""
PATIENCE_S = 180.0


@dataclass
class Life:
    """A connection of a job, as far as it got."""

    job: str
    port: int = 0
    lives: bool = False
    """Long enough to be planned."""
    first_at: float = 0.0
    """When its first byte left, CLOCK_MONOTONIC."""
    path_at: float = 0.0
    """When it was first seen on its planned path; 0: never.  Likewise:"""
    mark_at: float = 0.0
    ended: bool = False
    trouble: str = ""


@dataclass
class Host:
    """One host: its jobs so far, by name."""

    lives: dict[str, Life] = field(default_factory=dict)
    moved: int = 0
    """Moves that its agent counts."""


class ChurnStage:
    """A context manager: agents are up, no job is there yet."""

    def __init__(
        self, rate_mbit: float = 60.0, hosts_per_leaf: int = 2, over: Mapping[str, Any] = OVER
    ) -> None:
        """`over`: what agents are configured with beside what the lab sets."""
        self.lab = LeafSpineLab(
            LeafSpineFabric(rate_mbit=rate_mbit, spines=2, leaves=2, hosts_per_leaf=hosts_per_leaf)
        )
        self._over_all = over
        self.hosts: dict[str, Host] = {}
        self.agents: dict[str, agents.Agent] = {}
        self.before: dict[str, dict[str, str]] = {}
        """Of each host, before its agent began."""
        self._loads: list[subprocess.Popen[bytes]] = []
        self._receivers: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.lab)
            stack.callback(self._end_loads)
            self._wait("addresses to settle", self._settled)
            self.hosts = {host.name: Host() for host in self.lab.hosts}
            self.before = {name: self.dump(name) for name in self.hosts}
            environments = self._prepare(stack)
            for agent in agents.start(
                self.lab, self.lab.hosts, self._over_all, gossiping=True, environments=environments
            ):
                self.agents[agent.host.name] = agent
            stack.callback(lambda: agents.kill([*self.agents.values()]))
            self._wait("agents to steer", lambda: all(map(self._steers, self.agents)))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def dump(self, name: str) -> dict[str, str]:
        """Everything of a host that its agent could change."""
        tag = preflight.tag(name, self.lab.run_dir / name)
        return host_dump.dump(
            self.lab.namespace(name), self.lab.cgroup_of(self.lab.named(name)), tag
        )

    def held(self) -> dict[str, KernelResources]:
        """What each agent holds."""
        return {name: held(agent.process.pid) for name, agent in self.agents.items()}

    def ask(self, name: str, op: str, **words: object) -> dict[str, Any]:
        """A request to an agent.  Raises HostccError."""
        return ask(self.agents[name].socket, op, PATIENCE_S, **words)

    # Jobs

    def churn(self, alive: int, long: float, period_s: float, size: int) -> None:
        """Let jobs come and go on all hosts; each host sends to one of the other leaf."""
        names = list(self.hosts)
        half = len(names) // 2
        for name in names:
            self.receive(name)
        for number, name in enumerate(names):
            to = self.lab.named(names[(number + half) % len(names)]).address
            control = str(self.agents[name].socket)
            words = [control, to, PORT, alive, long, period_s, size, number, f"{name}-job"]
            self._start(name, ["jobs", *map(str, words)])
            watch = threading.Thread(target=self._watch, args=(name,), daemon=True)
            watch.start()
            self._threads.append(watch)

    def receive(self, name: str) -> None:
        """Let a host take what jobs send."""
        load = self.spawn(name, LOAD, "take", self.lab.named(name).address, PORT)
        self._receivers.append(load)
        assert load.stdout is not None
        load.stdout.readline()

    def spawn(self, name: str, module: str, *words: object) -> subprocess.Popen[bytes]:
        """A module as a process of a host."""
        return netns.spawn(
            [sys.executable, "-m", module, *map(str, words)],
            namespace=self.lab.namespace(name),
            cgroup=self.lab.cgroup_of(self.lab.named(name)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    @property
    def came(self) -> int:
        """Jobs so far."""
        return sum(len(host.lives) for host in self.hosts.values())

    def settle(self) -> None:
        """No new jobs; until the last has left and agents have noticed."""
        for load in self._loads:
            assert load.stdin is not None
            load.stdin.close()
        self._wait("jobs to end", lambda: all(x.ended for x in self._all()))
        self._over.set()
        self._wait("agents to forget them", lambda: not any(map(self._busy, self.agents)))
        for thread in self._threads:
            thread.join(1.0)

    def lags(self, of: Callable[[Life], float]) -> tuple[list[float], int]:
        """Seconds from the first byte, in order, of connections that lived long, and how many
        such there were in all."""
        long = [one for one in self._all() if one.lives and one.first_at]
        return sorted(max(0.0, of(x) - x.first_at) for x in long if of(x)), len(long)

    def troubles(self) -> list[str]:
        """Connections that broke, or whose bytes did not all arrive."""
        return [f"{one.job}: {one.trouble}" for one in self._all() if one.trouble]

    # End

    def stop(self, name: str) -> None:
        """End an agent in good order."""
        agents.stop([self.agents.pop(name)])

    def roll_back(self, name: str) -> None:
        """`hostcc rollback` to a living agent, which is then ended."""
        answer = self.ask(name, "rollback")
        if answer["problems"]:
            raise LabError(f"rollback of {name}: {answer['problems']}")
        self.stop(name)

    def kill_and_roll_back(self, name: str) -> None:
        """kill -9, then `hostcc rollback` without an agent."""
        agent = self.agents.pop(name)
        agents.kill([agent])
        done = subprocess.run(
            ["nsenter", f"--net={netns.NAMESPACE_DIRECTORY / self.lab.namespace(name)}",
             *agents.HOSTCC, "rollback", "--socket", str(agent.socket)],
            capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        if done.returncode:
            raise LabError(f"rollback of {name}: {done.stdout} {done.stderr}")

    def log(self) -> str:
        """The ends of all agents' logs."""
        paths = sorted(self.lab.run_dir.glob("*.agent.log"))
        return "\n".join(f"{p.name}: {p.read_text(errors='replace')[-1500:]}" for p in paths)

    # Inside

    def _prepare(self, stack: ExitStack) -> Mapping[str, Mapping[str, str]]:  # noqa: ARG002
        """Whatever else is to be there before the agents begin, and what they have in their
        environments, by host; `stack` ends it after them."""
        return {}

    def _all(self) -> list[Life]:
        return [life for host in self.hosts.values() for life in [*host.lives.values()]]

    def _start(self, name: str, words: list[str]) -> None:
        load = self.spawn(name, LOAD, *words)
        self._loads.append(load)
        reader = threading.Thread(target=self._read, args=(name, load), daemon=True)
        reader.start()
        self._threads.append(reader)

    def _read(self, name: str, load: subprocess.Popen[bytes]) -> None:
        """Follow what a host's jobs say."""
        assert load.stdout is not None
        lives = self.hosts[name].lives
        for line in load.stdout:
            said = json.loads(line)
            life = lives.setdefault(said["job"], Life(said["job"]))
            if said["event"] == "open":
                life.port, life.lives, life.first_at = said["port"], said["lives"], said["at"]
            else:
                life.ended, life.trouble = True, said["trouble"]

    def _watch(self, name: str) -> None:
        """See when connections are on their paths and marked."""
        host = self.hosts[name]
        while not self._over.wait(LOOK_S):
            with suppress(HostccError):
                rows = self.ask(name, "flows", limit=50_000)["flows"]
                now = time.monotonic()
                for row in rows:
                    life = host.lives.get(row["job"])
                    if life is None:
                        continue
                    if row["path_is"] == "wanted":
                        life.path_at = life.path_at or now
                    if row["dscp"]:
                        life.mark_at = life.mark_at or now

    def part(self, name: str, part: str) -> dict[str, Any]:
        """What an agent says of one of its parts.  Raises HostccError."""
        return next(x for x in self.ask(name, "status")["parts"] if x["name"] == part)

    def _steers(self, name: str) -> bool:
        with suppress(HostccError):
            return bool(self.part(name, "steering").get("devices"))
        return False

    def _busy(self, name: str) -> bool:
        """Whether an agent still has anything of a job, or of its flows."""
        status = self.ask(name, "status")
        parts = {part["name"]: part for part in status["parts"]}
        self.hosts[name].moved = int(parts["steering"].get("moved", 0))
        return bool(
            status["jobs"] or status["routing"]["flows"] or parts["steering"].get("translated")
        )

    def _settled(self) -> bool:
        return not any(
            "tentative" in host_dump.run(self.lab.namespace(host.name), "ip addr")
            for host in self.lab.hosts
        )

    def _wait(self, what: str, true: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + patience_s
        while not true():
            if time.monotonic() > deadline:
                raise LabError(f"waited in vain for {what}: {self.log()}")
            time.sleep(0.1)

    def _end_loads(self) -> None:
        self._over.set()
        for load in (*self._loads, *self._receivers):
            load.kill()
            load.wait()
            for stream in (load.stdin, load.stdout):
                if stream is not None:
                    with suppress(OSError, ValueError):
                        stream.close()
