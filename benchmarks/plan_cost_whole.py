"""A whole agent in a large cluster, as `hostcc agent` runs it, and what it takes.

It only observes, so that no privileges are needed, and its transport process is one that plays all
other members (plan_cost_crowd.py). What the cluster has of its own host, it publishes itself. Time
is not simulated.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from benchmarks import usage
from benchmarks.plan_cost_agent import Case, most_resident
from benchmarks.plan_cost_crowd import TOLD
from benchmarks.plan_cost_world import World
from hostcc.client import ask
from hostcc.coord.keys import files
from hostcc.coord.keys.identity import HostKeys, generate
from hostcc.errors import HostccError, NoAgentError

PATIENCE_S = 300.0
SETTLE_S = 30.0
"""After the first plan: news of the start are passed on, and connections that are not there."""
LOOK_S = 1.0


@dataclass(frozen=True)
class Use:
    """What an agent took."""

    share: float
    """Of one processor, while it was measured."""
    resident_bytes: int
    """The greatest."""


def measured(case: Case) -> Use:
    """Run an agent until it follows a plan of the whole cluster, then for the case's seconds.

    Raises HostccError.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_inputs(directory, case)
        command = [
            sys.executable,
            "-m",
            "benchmarks.plan_cost_main",
            json.dumps(asdict(case)),
            name,
        ]
        with (directory / "log").open("wb") as log:
            agent = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait(agent, lambda: (directory / TOLD).exists() and _follows(directory))
            time.sleep(SETTLE_S)
            first = usage.read(agent.pid)
            time.sleep(case.seconds)
            use = usage.between(first, usage.read(agent.pid))
            return Use(use.process_percent / 100, most_resident(agent.pid))
        except OSError as error:
            raise HostccError(f"plan-cost: the agent has ended: {error}") from None
        finally:
            agent.kill()
            agent.wait()


def write_inputs(directory: Path, case: Case) -> None:
    """Write the agent's configuration, keys of all members, and the records of its own host."""
    (directory / "hostcc.toml").write_text(
        f'[agent]\nobserve_only = true\nrun_dir = "{directory}/run"\n'
        f'[gossip]\nenabled = true\nkeys = "{directory}/keys"\nlisten = "127.0.0.1:7471"\n'
    )
    world = World(case.hosts, case.jobs, case.placement, case.seed)
    hosts = [HostKeys(host, (generate(time.time()),)) for host in world.names]
    for host in hosts:
        files.write_host(directory / "crowd" / host.name, host)
        files.allow(directory / "keys", host.member)
    files.write_host(directory / "keys", hosts[0])
    own = [record for record in world.start() if record.writer == hosts[0].name]
    (directory / "own").write_bytes(msgspec.msgpack.encode(own))


def _wait(agent: subprocess.Popen[bytes], done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if agent.poll() is not None or time.monotonic() > deadline:
            raise HostccError("plan-cost: expected an agent that follows a plan, got none")
        time.sleep(LOOK_S)


def _follows(directory: Path) -> bool:
    try:
        return bool(ask(directory / "run" / "control.sock", "status")["plan"]["follows"])
    except NoAgentError:
        return False
