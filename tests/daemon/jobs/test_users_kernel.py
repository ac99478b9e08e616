"""Jobs of users other than root, by real processes of two users."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.profiling.wired import USUAL
from tests.real import RealHost, Talker, until

pytestmark = pytest.mark.kernel

AS_USER = Path(__file__).parent.parent.parent / "as_user.py"
ANYBODYS_PYTHON = str(Path(sys.executable).resolve())
ANN, BOB, GROUP_NAME, GROUP = 65000, 65001, "users", 100
QUIET = "[gpu]\nenabled = false\n"
POD = "5b1e9c7e-6f0a-4c59-9b61-0d7a4f1f2b3c"


class Host(RealHost):
    """Its control socket is where members of a group reach it."""

    def __init__(self, folder: Path, cgroup2: Path) -> None:
        super().__init__(folder, cgroup2)
        self.enter = (*USUAL, *self.enter)
        self.socket = Path("/tmp") / f"{self.name}.sock"
        self.home = self.root / "session"
        self.home.mkdir()
        self.programs: list[subprocess.Popen[str]] = []

    def configure(self, text: str = "", **agent: Any) -> Path:
        return super().configure(
            QUIET + text, socket=str(self.socket), socket_group=GROUP_NAME, **agent
        )

    def words(self, uid: int, *words: str, group: int = GROUP) -> list[str]:
        socket = ["--socket", str(self.socket)]
        return [sys.executable, str(AS_USER), str(uid), str(group), words[0], *socket, *words[1:]]

    def command(self, uid: int, *words: str, **kept: Any) -> subprocess.CompletedProcess[str]:
        """A client command of a user."""
        return subprocess.run(
            self.words(uid, *words, **kept),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def theirs(
        self, uid: int, job: str, port: int, *options: str, at: Path | None = None,
        environ: Sequence[str] = (),
    ) -> Talker:  # fmt: skip
        """A connection of a user's job, begun in a cgroup of theirs."""
        enter = ["sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', str(at or self.home)]
        run = self.words(uid, "run", "--job", job, *options, "--")
        command = [*enter, "env", *environ, "nsenter", f"--net=/run/netns/{self.name}", *run]
        made = Talker(command, port, python=ANYBODYS_PYTHON)
        self.talkers.append(made)
        return made

    def program(
        self, uid: int, job: str, *command: str, options: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """A program of a user's job."""
        made = subprocess.Popen(
            [*self.words(uid, "run", "--job", job, *options, "--"), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.programs.append(made)
        return made

    def close(self) -> None:
        for process in self.programs:
            process.kill()
            process.communicate()
        super().close()

    def weights(self) -> dict[str, float]:
        return {job["name"]: job["weight"] for job in self.json("status")["jobs"]}


@pytest.fixture
def host(tmp_path: Path, cgroup2: Path) -> Iterator[Host]:
    made = Host(tmp_path, cgroup2)
    yield made
    made.close()
    assert made.ours() == set()


def below(host: Host, talker: Talker) -> str:
    """Its cgroup, below the host's."""
    return talker.cgroup().partition(f"/{host.name}/")[2]


def test_users_have_jobs_of_their_own_and_touch_no_others(host: Host) -> None:
    agent = host.start()
    anns = host.theirs(ANN, "train", 7001, "--weight", "0.5")
    bobs = host.theirs(BOB, "train", 7002)
    ann, bob = f"uid{ANN}:train", f"uid{BOB}:train"
    assert below(host, anns) == f"hostcc/{ann}"
    assert below(host, bobs) == f"hostcc/{bob}"
    until(lambda: all(name.startswith("hcc_") for name in anns.controls()), host.log)
    assert host.weights() == {ann: 0.5, bob: 1.0}

    changed = host.command(BOB, "job", "train", "--weight", "0.25", "--json")
    assert json.loads(changed.stdout)["job"] == bob
    for name, why in ((ann, f"no job {ann}"), (f"uid{ANN}:other", "no job")):
        denied = host.command(BOB, "job", name, "--weight", "0.1")
        assert (denied.returncode, why in denied.stderr) == (1, True)
    taken = host.theirs(BOB, ann, 7003)
    assert below(host, taken) == "session"
    assert f"job {ann} is of uid {ANN}" in taken.warnings()
    greedy = host.command(ANN, "job", "train", "--weight", "2")
    assert "weight: expected at most 1 (users.max_weight), got 2" in greedy.stderr
    declared = host.command(ANN, "job", "train", "--flops", "1e30")
    assert "users may declare none (users.declare)" in declared.stderr
    for op in (("unfair", "off"), ("rollback",)):
        assert "changing needs root" in host.command(ANN, *op).stderr
    outside = host.theirs(ANN, "heavy", 7004, "--weight", "2")
    assert below(host, outside) == "session"
    assert "users.max_weight" in outside.warnings()
    assert host.weights() == {ann: 0.5, bob: 0.25}

    assert host.client("job", ann, "--weight", "3").returncode == 0
    locked = host.command(ANN, "job", "train", "--weight", "0.1")
    assert f"job {ann}: root has set its parameters" in locked.stderr
    stranger = host.command(ANN, "job", "train", "--weight", "0.1", group=ANN)
    assert "permission denied" in stranger.stderr
    assert host.stop(agent) == 0

    host.start("[users]\nenabled = false\n")
    until(lambda: host.weights() == {ann: 3.0, bob: 0.25}, lambda: f"both again: {host.log()}")
    off = host.command(BOB, "job", "train", "--weight", "0.1")
    assert "users.enabled" in off.stderr


def test_a_users_job_keeps_its_limits_and_comes_back(host: Host) -> None:
    never = '[discover]\nmove = "never"\n'
    agent = host.start(never)
    job = f"uid{ANN}:train"
    anns = host.theirs(ANN, "train", 7001, "--weight", "0.5")
    assert below(host, anns) == f"session/hostcc/{job}"
    until(lambda: all(name.startswith("hcc_") for name in anns.controls()), host.log)
    elsewhere = host.root / "another"
    elsewhere.mkdir()
    second = host.theirs(ANN, "train", 7002, at=elsewhere)
    assert below(host, second) == "another"
    assert "would leave its limits" in second.warnings()

    assert host.stop(agent) == 0
    assert below(host, anns) == "session"
    assert not anns.controls()[0].startswith("hcc_")
    agent = host.start(never)
    until(lambda: below(host, anns) == f"session/hostcc/{job}", host.log)
    until(lambda: host.weights() == {job: 0.5}, host.log)
    until(lambda: all(name.startswith("hcc_") for name in anns.controls()), host.log)
    agent.kill()
    agent.wait()
    done = host.client("rollback", "--run-dir", str(host.folder / "run"))
    assert done.returncode == 0, done.stderr
    assert below(host, anns) == "session"
    assert not (host.home / "hostcc").exists()

    host.start(never)
    again = host.theirs(ANN, "train", 7003)
    again.exit(0)
    until(lambda: host.weights() == {}, host.log)
    until(lambda: not (host.home / "hostcc").exists(), host.log)


def test_a_pods_process_stays_in_its_cgroup(host: Host) -> None:
    pods = '[discover]\nkubernetes = "all"\nevery_s = 1\n'
    agent = host.start(pods)
    place = host.root / "kubepods" / f"pod{POD}"
    place.mkdir(parents=True)
    job = f"k8s:pod:{POD}"
    pod = host.theirs(ANN, "train", 7001, "--weight", "0.5", at=place)
    assert below(host, pod) == f"kubepods/pod{POD}"
    until(lambda: all(name.startswith("hcc_") for name in pod.controls()), host.log)
    until(lambda: host.weights() == {job: 0.5}, host.log)
    denied = host.command(BOB, "job", job, "--weight", "0.1")
    assert f"job {job} is of uid {ANN}" in denied.stderr
    assert host.command(ANN, "job", job, "--weight", "0.75").returncode == 0
    assert host.stop(agent) == 0

    host.start(pods)
    until(lambda: host.weights() == {job: 0.75}, host.log)
    assert below(host, pod) == f"kubepods/pod{POD}"
    assert f"part of job {job}" in pod.warnings()
    until(lambda: host.weights() == {}, host.log)
    until(lambda: "job-request" not in host.client("changes", "--json").stdout.partition(
        '"latest"')[0], host.log)  # fmt: skip


def test_the_environment_of_a_pod_gives_its_weight(host: Host) -> None:
    host.start('[discover]\nkubernetes = "all"\nevery_s = 1\n[users]\nmax_weight = 2\n')
    jobs = dict[str, float]()
    for at, (said, weight) in enumerate((("1.5", 1.5), ("7", 2.0), ("much", 1.0))):
        pod = str(uuid.uuid4())
        place = host.root / "kubepods" / f"pod{pod}"
        place.mkdir(parents=True)
        host.theirs(ANN, "x", 7001 + at, at=place, environ=[f"HOSTCC_WEIGHT={said}"])
        jobs[f"k8s:pod:{pod}"] = weight
    until(lambda: host.weights() == jobs, host.log)
    until(lambda: "7 is more than users.max_weight, 2" in host.log(), host.log)
    until(lambda: 'got \\"much\\"' in host.log(), host.log)
    assert host.log().count('got \\"much\\"') == 1
