"""One user's crowd takes nothing from others: no slot, no mark, no time of the loop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostcc.system.quota import FOR_ROOT, PER_UID
from tests.daemon.profiling.wired import USUAL
from tests.real import HOSTCC, RealHost, until

pytestmark = pytest.mark.kernel

CLAIMANTS = Path(__file__).with_name("claimants.py")
NOBODY, OTHER = 65534, 65000
CLAIMS = 2000
LOOKS, GAP_S = 3, 2.0
"""What is promised: another user's job is managed after so many looks, of which one may be under
way when it begins; and the loop stands still less long than for all of a crowd in one go."""
RETURNING = 4000
QUIET = "[gpu]\nenabled = false\n"
PATIENCE_S = 240.0


class Host(RealHost):
    """Its processes end with it."""

    def __init__(self, folder: Path, cgroup2: Path) -> None:
        super().__init__(folder, cgroup2)
        self.processes: list[subprocess.Popen[str]] = []
        self.enter = (*USUAL, *self.enter)

    def claimants(
        self, count: int, uid: int, port: int, *words: str, job: str = ""
    ) -> subprocess.Popen[str]:
        """A crowd, in a cgroup that is no job's, or in a job."""
        home = self.root / "crowd"
        home.mkdir(exist_ok=True)
        enter = ["sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', str(home)]
        run = self.run(job) if job else []
        program = [sys.executable, str(CLAIMANTS), str(count), str(uid), str(port), *words]
        made = subprocess.Popen(
            [*enter, *run, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.processes.append(made)
        assert made.stdout is not None
        assert made.stdout.readline() == "up\n"
        return made

    def run(self, job: str) -> list[str]:
        return [*HOSTCC, "run", "--job", job, "--socket", str(self.socket), "--"]

    def part(self, name: str) -> dict[str, Any]:
        parts: list[dict[str, Any]] = self.json("status")["parts"]
        return next(part for part in parts if part["name"] == name)

    def jobs(self) -> set[str]:
        return {job["name"] for job in self.json("status")["jobs"]}

    def appeared(self, job: str) -> bool:
        """Whether the agent has begun to manage a job, by its log."""
        return f"job appeared job={job} " in self.log()

    def close(self) -> None:
        for process in self.processes:
            process.communicate()
        super().close()


@pytest.fixture
def host(tmp_path: Path, cgroup2: Path) -> Iterator[Host]:
    made = Host(tmp_path, cgroup2)
    yield made
    made.close()
    assert made.ours() == set()


def test_two_thousand_claims_of_one_user_take_nothing_from_others(host: Host) -> None:
    agent = host.start(QUIET)
    host.claimants(CLAIMS, NOBODY, 20_000)
    until(lambda: len(host.jobs()) >= PER_UID, host.log, PATIENCE_S)

    host.claimants(1, OTHER, 29_500)
    theirs = f"rdv:198.18.9.7:uid{OTHER}:29500"
    looks = [host.part("discovery")["look_s"]]

    def theirs_is_managed() -> bool:
        """Each look took another time."""
        managed = host.appeared(theirs)
        looked_s = host.part("discovery")["look_s"]
        if not managed and looked_s != looks[-1]:
            looks.append(looked_s)
        return managed

    until(theirs_is_managed, host.log, PATIENCE_S)
    assert len(looks) <= LOOKS

    urgent = subprocess.Popen([*host.run("urgent"), "cat"], stdin=subprocess.PIPE, text=True)
    host.processes.append(urgent)
    until(lambda: "urgent" in host.jobs(), host.log, PATIENCE_S)
    status = host.json("status")
    assert sum(f"uid{NOBODY}" in job["name"] for job in status["jobs"]) == PER_UID
    assert status["agent"]["slots"] == {
        "total": 1023, "used": PER_UID + 2, "root": 1, "per_uid": PER_UID, "for_root": FOR_ROOT,
    }  # fmt: skip
    until(lambda: host.part("discovery")["refused"], host.log, PATIENCE_S)
    (refused,) = host.part("discovery")["refused"]
    assert refused["uid"] == NOBODY
    assert refused["claims"] > 0
    assert "the most for one user (agent.per_uid)" in refused["why"]
    assert f"claims refused uid={NOBODY}" in host.log()
    assert f"uid {NOBODY} has {PER_UID}" in host.client("status").stdout
    assert 0 < host.json("status")["agent"]["loop"]["longest_busy_s"] < GAP_S
    assert host.stop(agent) == 0


def test_processes_go_home_and_come_back_without_a_gap(host: Host) -> None:
    agent = host.start(QUIET)
    crowd = host.claimants(RETURNING, 0, 20_000, job="crowded")
    group = host.root / "hostcc" / "crowded" / "cgroup.procs"
    until(lambda: len(group.read_text().split()) > RETURNING, host.log, PATIENCE_S)
    assert host.client("rollback").returncode == 0
    assert group.read_text() == ""
    assert host.client("unfair", "mltcp").returncode == 0
    assert len(group.read_text().split()) > RETURNING
    assert str(crowd.pid) in group.read_text().split()
    assert 0 < host.json("status")["agent"]["loop"]["longest_busy_s"] < GAP_S
    assert host.stop(agent) == 0


def test_one_users_marks_leave_room_for_others(host: Host) -> None:
    most = 5
    reachable = f'[marks]\nsocket = "/tmp/{host.name}.marks"\n'
    agent = host.start(QUIET + reachable, per_uid=most)
    host.claimants(most + 3, NOBODY, 0, "marks", job="theirs")

    def full() -> bool:
        marks = host.part("marks")
        return bool(marks["over_quota"] >= 3 and marks["senders"] == most)

    until(full, host.log, PATIENCE_S)
    host.claimants(1, OTHER, 0, "marks", job="other")
    until(lambda: host.part("marks")["senders"] == most + 1, host.log, PATIENCE_S)
    host.claimants(most + 1, 0, 0, "marks", job="own")
    until(lambda: host.part("marks")["senders"] == 2 * most + 2, host.log, PATIENCE_S)
    until(lambda: "marks refused" in host.log(), host.log, PATIENCE_S)
    assert host.stop(agent) == 0
