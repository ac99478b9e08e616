"""Marks go when the agent's unit dies, done as systemd does it (systemd.kill, systemd.service)."""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hostcc.daemon.changes import kinds, path_kinds
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.marking.guard import Guard
from hostcc.paths.mark_kernel import JobMark, MarkKernel
from tests.daemon.planning.scene import ADDRESSES, MARKED, TOP, Orders, Scene
from tests.daemon.planning.test_planning_kernel import (
    FIRST,
    LITTLE,
    MARKING,
    MUCH,
    the_guard,
)
from tests.paths.test_mark_kernel import Process
from tests.real import HOSTCC, RealHost, until

pytestmark = pytest.mark.kernel


class Unit:
    """What `packaging/hostcc.service` has systemd do with the cgroup of an agent on `scene.two`."""

    def __init__(self, scene: Scene, cgroup2: Path) -> None:
        self.host = scene.two
        self.group = cgroup2 / f"{self.host.name}-unit"
        self.group.mkdir()
        inside = f'echo $$ > {self.group}/cgroup.procs && exec "$@"'
        self.enter = self.host.enter
        self.host.enter = ("sh", "-c", inside, "sh", *self.enter)
        parser = configparser.RawConfigParser(strict=False)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read(TOP / "packaging/hostcc.service")
        self.service = dict(parser["Service"])

    def members(self) -> list[int]:
        return [int(pid) for pid in (self.group / "cgroup.procs").read_text().split()]

    def kill_rest(self) -> None:
        """What is left in the cgroup, by SIGKILL."""
        while pids := self.members():
            for pid in pids:
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(pid, signal.SIGKILL)

    def main_process_died(self) -> None:
        """What systemd does first."""
        if self.service["KillMode"] in ("mixed", "control-group"):
            self.kill_rest()

    def stop_post(self) -> None:
        """After any end of the main process, when what is to be killed was."""
        words = shlex.split(self.service.get("ExecStopPost", "true").removeprefix("-"))
        if words[0] == "/usr/bin/hostcc":
            words = [*HOSTCC, *words[1:], "--socket", str(self.host.socket)]
        subprocess.run([*self.enter, *words], check=False, timeout=120)

    def close(self) -> None:
        self.kill_rest()
        until(self._removed, "the unit's cgroup")

    def _removed(self) -> bool:
        try:
            self.group.rmdir()
        except OSError:
            return False
        return True


@pytest.fixture
def scene(tmp_path: Path, cgroup2: Path) -> Iterator[Scene]:
    made = Scene(tmp_path, cgroup2)
    yield made
    made.close()


@pytest.fixture
def unit(scene: Scene, cgroup2: Path) -> Iterator[Unit]:
    made = Unit(scene, cgroup2)
    yield made
    made.close()


def marked(scene: Scene) -> tuple[subprocess.Popen[str], Orders]:
    """An agent in the unit, and a job with a marked connection."""
    agent = scene.two.start(scene.section(MARKING))
    job = scene.job(scene.two, "a")
    port = job.ask("listen", name="l", address=ADDRESSES[1])
    job.ask("connect", name="c", address=ADDRESSES[1], port=port)
    scene.tell(a=MUCH, b=LITTLE)
    until(lambda: job.ask("tos", name="c") == FIRST, scene.two.log)
    return agent, job


def test_the_guard_outlives_its_unit(scene: Scene, unit: Unit) -> None:
    """It takes the marks away and ends; whatever comes after the stop is not needed for it."""
    agent, job = marked(scene)
    guard = the_guard(agent)
    assert {agent.pid, guard} < set(unit.members())  # and the process of the gossip
    os.kill(guard, signal.SIGSTOP)  # systemd has its turn first
    scene.two.stop(agent, signal.SIGKILL)
    unit.main_process_died()
    with suppress(ProcessLookupError):
        os.kill(guard, signal.SIGCONT)
    until(lambda: job.ask("tos", name="c") == 0, "the guard")
    until(lambda: not unit.members(), "the guard's end")


def test_no_mark_stays_where_all_of_the_unit_is_killed(scene: Scene, unit: Unit) -> None:
    """`systemctl kill -s KILL`: agent and guard at once.  What comes after the stop does it."""
    agent, job = marked(scene)
    agent.send_signal(signal.SIGSTOP)
    unit.kill_rest()
    agent.wait()
    assert job.ask("tos", name="c") == FIRST
    unit.stop_post()
    assert job.ask("tos", name="c") == 0
    again = scene.two.start(scene.section(MARKING))  # Restart=on-failure
    until(lambda: job.ask("tos", name="c") == FIRST, scene.two.log)
    assert scene.two.stop(again) == 0
    assert job.ask("tos", name="c") == 0
    unit.stop_post()
    assert not unit.members()


@pytest.fixture
def host(tmp_path: Path, cgroup2: Path) -> Iterator[RealHost]:
    made = RealHost(tmp_path, cgroup2)
    yield made
    made.close()


def test_a_guard_that_takes_over_clears_what_an_agent_cannot(cgroup: Path) -> None:
    process = Process(cgroup)
    try:
        with MarkKernel() as kernel:
            kernel.set_job(1, JobMark(FIRST))
            kernel.attach(1, cgroup)
            guard = Guard(kernel, everywhere=True)
            port = process.ask("listen", name="l", address="127.0.0.1")
            assert process.ask("connect", name="c", address="127.0.0.1", port=port) == FIRST
        guard.take_over()
        until(lambda: process.ask("tos", name="c") == 0, "the guard")
        until(lambda: not guard.alive, "the guard's end")
    finally:
        process.close()


def test_no_mark_of_a_killed_agent_stays_on_a_job_that_it_followed(host: RealHost) -> None:
    group = host.root / "found by hostcc"
    group.mkdir()
    join = f"echo $$ > '{group}/cgroup.procs' && exec \"$@\""
    enter = ["sh", "-c", join, "sh", *host.enter, sys.executable, str(MARKED)]
    job = Orders(enter)
    try:
        port = job.ask("listen", name="l", address="127.0.0.1")
        for name, tos in ("c", FIRST), ("own", FIRST + 4):
            assert job.ask("connect", name=name, address="127.0.0.1", port=port, own_tos=tos) == tos
        (host.folder / "run").mkdir()
        left = Journal(host.folder / "run")
        left.open()
        left.begin(kinds.followed("a", [group], "torchrun"), path_kinds.mark("a", FIRST, "plan"))
        left.close()
        done = host.client("rollback", "--marks")
        assert (done.returncode, done.stdout) == (0, "undone: job-mark:a\n")
        assert [job.ask("tos", name=name) for name in ("c", "own")] == [0, FIRST + 4]
    finally:
        job.close()


def test_marks_of_a_job_by_port_rules_are_left_to_the_next_agent(host: RealHost) -> None:
    job = Orders([*host.enter, sys.executable, str(MARKED)])
    try:
        port = job.ask("listen", name="l", address="127.0.0.1")
        job.ask("connect", name="c", address="127.0.0.1", port=port, own_tos=FIRST)
        (host.folder / "run").mkdir()
        left = Journal(host.folder / "run")
        left.open()
        left.begin(path_kinds.mark("svc", FIRST, "plan"))
        left.close()
        done = host.client("rollback", "--marks")
        assert (done.returncode, done.stdout) == (1, "nothing to undo\n")
        assert "job svc: known by port rules only: the next agent takes its marks" in done.stderr
        rule = f"[[job]]\nname = 'svc'\nremote_ports = [{port}]\n"
        agent = host.start(rule)
        until(lambda: job.ask("tos", name="c") == 0, host.log)
        until(lambda: "job-mark" not in host.client("changes").stdout, host.log)
        assert host.stop(agent) == 0
    finally:
        job.close()
