"""Four agents in a leaf-spine lab that are not all of one package, and jobs between them.

All that the agents say is looked at again and again, while hosts change to another package.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.checked_stream import CheckedStream
from hostcc.client import ask
from hostcc.errors import HostccError
from hostcc.lab import agents, netns
from hostcc.lab.leafspine_lab import LeafSpineLab
from hostcc.lab.leafspine_scenario import LeafSpineFabric
from tests.daemon.steering.agents_stage import PULSES
from tests.patience import until

TOP = Path(__file__).parents[3]
PATIENCE_S = 120.0
"""Only bounds a failure."""
LOOK_S = 0.04
"""Between two looks; a status costs an agent some milliseconds."""
MAX_AGE_S = 5.0
JOBS = {"a": ("h1", "h3"), "b": ("h1", "h2", "h4")}
"""Hosts of each job, a ring; both send over the link of h1."""
OVER: dict[str, Any] = {
    "paths": {"enabled": True},
    "marking": {"enabled": True},
    # Turns have marks of their own.
    "measure": {"profiling_max_s": 0.0},
    "plan": {
        "max_age_s": MAX_AGE_S,
        "act_on_weights": "timeout",
        "act_on_marks": "agreed",
        "act_on_paths": "agreed",
    },
    "job": [{"name": "a", "flops": 4e12}, {"name": "b", "flops": 1e12}],
}
PERIOD_S, SIZE = 0.25, 1 << 19
FIRST_PORT = 5300
OTHER = "0.2.0"
"""Version of the package whose scheduler plans each job otherwise."""
OTHER_REVISION = "\nREVISION += 1\n"
OTHER_RULE = """

_highest_first = usable_levels


def usable_levels(levels: int, reserved: tuple[int, ...]) -> Ints:
    return _highest_first(levels, reserved)[::-1]
"""
"""The most important job gets the lowest level."""


def package(folder: Path, version: str) -> dict[str, str]:
    """Return the environment in which agents are of that version of the package."""
    info = folder / f"hostcc-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hostcc\nVersion: {version}\n")
    if version == OTHER:
        shutil.copytree(TOP / "hostcc", folder / "hostcc")
        for name, text in (("revision", OTHER_REVISION), ("compression", OTHER_RULE)):
            with (folder / "hostcc" / "schedule" / f"{name}.py").open("a") as file:
                file.write(text)
    return {"PYTHONPATH": f"{folder}:{TOP}", "PYTHONSAFEPATH": "1"}


@dataclass(frozen=True)
class Said:
    """What an agent has said at one moment."""

    pid: int
    version: str
    plan: dict[str, Any]
    marks: dict[str, int]
    """Job -> DSCP of its sockets."""

    @property
    def planned(self) -> dict[str, dict[str, Any]]:
        """Jobs of this host, by what is in force without waiting."""
        return {one["name"]: one for one in self.plan.get("jobs", [])}

    @property
    def differing(self) -> dict[str, dict[str, Any]]:
        """Jobs of this host whose other hosts have another plan."""
        return {one["name"]: one for one in self.plan.get("differing", [])}

    @property
    def late(self) -> set[str]:
        """Those of them that have had two plans for as long as they may."""
        return {job for job, one in self.differing.items() if one["total_s"] >= MAX_AGE_S}


class UpgradeStage:
    """A context manager; `environments`: of each host's agent."""

    def __init__(self, environments: dict[str, dict[str, str]]) -> None:
        self.lab = LeafSpineLab(LeafSpineFabric(spines=2, hosts_per_leaf=2))
        self.said: dict[str, Said | None] = {}
        """What each agent has said last; None: it did not answer."""
        self._decided: dict[tuple[str, str], tuple[Any, ...]] = {}
        """(Digest of a view, job) -> what the plan of that view says of it."""
        self._environments = environments
        self._streams: list[CheckedStream] = []
        self._stack = ExitStack()

    def __enter__(self) -> UpgradeStage:
        with ExitStack() as stack:
            stack.enter_context(self.lab)
            hosts = self.lab.hosts
            running = agents.start(
                self.lab, hosts, OVER, gossiping=True, environments=self._environments, wait=False
            )
            stack.callback(agents.kill, running)
            self.agents = {one.host.name: one for one in running}
            self.until(lambda: None not in self.said.values(), "agents that answer")
            self._stack = stack
            for job, on in JOBS.items():
                for src, dst in zip(on, on[1:] + on[:1], strict=True):
                    self._send(job, src, dst)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait, and look at all agents meanwhile."""

        def looked() -> bool:
            self.look()
            return true()

        def text() -> str:
            return f"{what}: {self.said}\n{self.logs()}"

        until(looked, text, PATIENCE_S, meanwhile=lambda: time.sleep(LOOK_S))

    def look(self) -> None:
        """Ask all agents, and check what they say."""
        for name, agent in self.agents.items():
            before, now = self.said.get(name), said(agent.socket)
            self.said[name] = now
            if now is None:
                continue
            for job, one in now.planned.items():
                found = one["rank"], one["level"], one["factor"]
                known = self._decided.setdefault((now.plan["follows"], job), found)
                assert known == found, f"{name} plans job {job} of one view otherwise: {now.plan}"
            if before is not None and before.pid == now.pid:
                two = before.late & now.late & now.planned.keys()
                assert not two, f"{name} acts by one of two plans for too long: {now.plan}"
                self._check_marks(name, now, before.marks.items() & now.marks.items())

    def _check_marks(self, name: str, now: Said, marks: AbstractSet[tuple[str, int]]) -> None:
        # The host had these marks before all the others were asked, and has them after that.
        for job, mark in marks:
            for other, theirs in self.said.items():
                if theirs is None or theirs.marks.get(job, mark) == mark:
                    continue
                if (now.version == OTHER) == (theirs.version == OTHER):
                    continue  # one scheduler: reports of a change are on their way
                upgraded, old = (name, other) if now.version == OTHER else (other, name)
                if self._is_dead(old, upgraded):
                    continue  # each side of a partition has a plan of its own
                two = f"{mark} on {name}, {theirs.marks[job]} on {other}"
                raise AssertionError(f"job {job} is marked by two plans: {two}: {self.said}")

    def _is_dead(self, name: str, by: str) -> bool:
        return any(one["name"] == name and one["state"] == "dead" for one in self.peers(by))

    def version(self, name: str) -> str:
        """Of an agent that has just answered."""
        now = self.said[name]
        assert now is not None
        return now.version

    def upgrade(self, name: str, environment: dict[str, str]) -> None:
        """Stop a host's agent, and start it from another package; returns when it knows a plan."""
        agent = self.agents[name]
        agent.process.terminate()
        self.until(lambda: agent.process.poll() is not None, f"the end of {name}")
        assert agent.process.returncode == 0
        agent.environment = environment
        agents.relaunch(self.lab, agent)

        def back() -> bool:
            now = self.said[name]
            if now is None or now.pid != agent.process.pid:
                return False
            return now.planned.keys() | now.differing.keys() == jobs_of(name)

        self.until(back, f"a plan on {name}")

    def agree(self) -> bool:
        """Whether all follow one plan in all that they do, and know that."""
        rows = [now for now in self.said.values() if now is not None and now.plan.get("agreed")]
        if len(rows) < len(self.agents):
            return False
        if any(now.differing or now.plan["disagreements"] for now in rows):
            return False
        digests = {now.plan["active"] for now in rows}
        digests |= {digest for now in rows for digest in now.plan["acts"].values()}
        marks = [self.marks(job) for job in JOBS]
        return len(digests) == 1 and all(len(one) == 1 and None not in one for one in marks)

    def marks(self, job: str) -> set[int | None]:
        """DSCP of a job on its hosts; None: none."""
        rows = [self.said[name] for name in JOBS[job]]
        return {now.marks.get(job) if now is not None else None for now in rows}

    def peers(self, name: str) -> list[dict[str, Any]]:
        """What an agent says of the others."""
        found: list[dict[str, Any]] = ask(self.agents[name].socket, "peers")["peers"]
        return found

    def client(self, name: str, *words: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            [*agents.HOSTCC, *words, "--socket", str(self.agents[name].socket)],
            capture_output=True, text=True, check=True, timeout=PATIENCE_S,
        )  # fmt: skip
        return done.stdout

    def finish(self) -> None:
        """End the jobs; no connection broke, and all bytes arrived as they were sent."""
        for stream in self._streams:
            sent, whole = stream.finish()
            assert whole
            assert sent > 0

    def logs(self) -> str:
        """The end of each agent's log."""
        return "\n".join(
            f"{name}: {agent.log.read_text()[-2000:]}" for name, agent in self.agents.items()
        )

    def _send(self, job: str, src: str, dst: str) -> None:
        port, address = FIRST_PORT + len(self._streams), self.lab.named(dst).address
        stream = CheckedStream(
            lambda: self._run(job, dst, "take", address, port),
            lambda: self._run(job, src, "send", address, port, 0, PERIOD_S, SIZE),
        )
        self._stack.callback(stream.close)
        self._streams.append(stream)

    def _run(self, job: str, name: str, *words: object) -> subprocess.Popen[bytes]:
        run = [*agents.HOSTCC, "run", "--job", job, "--socket", str(self.agents[name].socket), "--"]
        return netns.spawn(
            [*run, sys.executable, str(PULSES), *map(str, words)],
            namespace=self.lab.namespace(name),
            cgroup=self.lab.cgroup_of(self.lab.named(name)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )


def jobs_of(name: str) -> set[str]:
    """Jobs that a host has a part of."""
    return {job for job, on in JOBS.items() if name in on}


def said(socket: Path) -> Said | None:
    """Ask an agent; None: it does not answer."""
    try:
        status = ask(socket, "status")
    except HostccError:
        return None
    parts = {one["name"]: one for one in status["parts"]}
    return Said(
        status["agent"]["pid"],
        status["agent"]["version"],
        status["plan"] or {},
        parts.get("marking", {}).get("dscp", {}),
    )
