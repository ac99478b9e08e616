"""Jobs that run while the agent stops, is killed, rolls back or registers anew: none is lost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hostcc.system.cgroups import cgroup_of
from tests.real import HOSTCC, PATIENCE_S, RealHost, until

pytestmark = pytest.mark.kernel

WAYS = ("restore", "keep", "kill", "rollback", "reload")
WISHES = ("--weight", "2.5", "--bytes-per-iteration", "3M", "--flops", "7e12")

# A launcher and its rank, which sends to itself without a pause and checks every byte.  The
# launcher starts another rank when it is asked to.
JOB = """
import os, socket, subprocess, sys, threading
port = int(sys.argv[1])
BLOCK = bytes(range(256)) * 64
server = socket.create_server(("127.0.0.1", port))
links, moved, broken = [], [0], []
def receive(sock):
    at = 0
    try:
        while data := sock.recv(1 << 16):
            if data != (BLOCK * 6)[at : at + len(data)]:
                broken.append("other bytes")
            at = (at + len(data)) % len(BLOCK)
            moved[0] += len(data)
    except OSError as error:
        broken.append(str(error))
def send(sock, wait=threading.Event()):
    try:
        while not wait.wait(0.005):
            sock.sendall(BLOCK)
    except OSError as error:
        broken.append(str(error))
def connect():
    mine = socket.create_connection(("127.0.0.1", port))
    theirs, _ = server.accept()
    links.extend((mine, theirs))
    threading.Thread(target=receive, args=(theirs,), daemon=True).start()
    threading.Thread(target=send, args=(mine,), daemon=True).start()
def name(sock):
    return sock.getsockopt(socket.IPPROTO_TCP, 13, 16).rstrip(b"\\0").decode()
connect()
print(os.getpid(), flush=True)
children = []
for line in sys.stdin:
    word, *rest = line.split()
    if word == "moved":
        print(moved[0], flush=True)
    elif word == "broken":
        print(*broken or ["-"], flush=True)
    elif word == "controls":
        print(*map(name, links), flush=True)
    elif word == "connect":
        connect()
        print("done", flush=True)
    elif word == "child":
        children.append(subprocess.Popen(["sleep", "1000"]))
        print(children[-1].pid, flush=True)
    elif word == "exit":
        for child in children:
            child.kill()
            child.wait()
        sys.exit(0)
"""


class Job:
    """A real job of `hostcc run`: a shell that waits for what has the connection."""

    def __init__(self, host: RealHost, name: str, port: int, *options: str) -> None:
        self.name = name
        run = [*HOSTCC, "run", "--job", name, "--socket", str(host.socket), *options, "--"]
        shell = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", JOB, str(port)]
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", host.name, *run, *shell],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.pids = [self.process.pid, int(self.line())]

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, words: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self.line()

    def child(self) -> None:
        self.pids.append(int(self.ask("child")))

    def controls(self) -> set[str]:
        return set(self.ask("controls").split())

    def goes_on(self) -> None:
        """Every byte arrives, and more of them."""
        before = int(self.ask("moved"))
        until(lambda: int(self.ask("moved")) > before, "traffic")
        assert self.ask("broken") == "-"

    def groups(self) -> set[str]:
        return {cgroup_of(pid) for pid in self.pids}

    def end(self) -> None:
        assert self.process.stdin is not None
        if self.process.poll() is None:
            self.process.stdin.write("exit\n")
            self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def run(host: RealHost) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def start(name: str, port: int, *options: str) -> Job:
        jobs.append(Job(host, name, port, *options))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()


class Stopped:
    """An agent that is gone, or has gone back to observing, and how it comes back."""

    def __init__(self, host: RealHost, way: str, process: subprocess.Popen[str]) -> None:
        self.host, self.way, self.process = host, way, process
        match way:
            case "rollback":
                assert host.client("rollback").returncode == 0
            case "restore" | "keep":
                assert host.stop(process) == 0
            case "kill":
                host.stop(process, signal.SIGKILL)

    def back(self) -> float:
        """Seconds until it said that it manages jobs again."""
        began = time.monotonic()
        match self.way:
            case "rollback":
                assert self.host.client("unfair", "mltcp").returncode == 0
            case "reload":
                self.host.configure('[mltcp]\nvariant = "cubic"')
                self.process.send_signal(signal.SIGHUP)
                until(lambda: "configuration reloaded" in self.host.log(), "the reload")
            case _:
                self.host.start()
        return time.monotonic() - began


def told(host: RealHost) -> dict[str, Any]:
    """What the agent knows of its jobs that has to survive."""
    rows = {row["name"]: row for row in host.json("jobs", "--detail")["jobs"]}
    return {
        row["name"]: (
            row["weight"],
            row["processes"],
            rows[row["name"]]["parameters"]["bytes_per_iteration"],
            kept(host, row["name"]).get("flops"),
            rows[row["name"]]["how"],
        )
        for row in host.json("status")["jobs"]
    }


def kept(host: RealHost, job: str) -> dict[str, Any]:
    """The change that gave a job its cgroup, as the journal has it."""
    (change,) = (
        change for change in host.json("changes")["in_force"] if change["id"] == f"job-cgroup:{job}"
    )
    found: dict[str, Any] = change["to"]
    return found


@pytest.mark.parametrize("way", WAYS)
def test_no_job_is_lost(host: RealHost, run: Callable[..., Job], way: str) -> None:
    process = host.start(on_exit="keep" if way == "keep" else "restore")
    jobs = [run("train-a", 7001, *WISHES), run("train-b", 7002), run("train-b", 7003)]
    for job in jobs:
        job.child()
        job.goes_on()
        assert job.controls() <= host.ours()
    before = told(host)
    assert {name: row[1] for name, row in before.items()} == {"train-a": 3, "train-b": 6}
    assert before["train-a"][0] == 2.5
    assert before["train-a"][2:4] == (3_000_000, 7e12)
    default = host.inside("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()

    stopped = Stopped(host, way, process)
    for job in jobs:
        if way in {"restore", "rollback"}:
            assert (job.controls(), job.groups()) == ({default}, {"/"})
        job.goes_on()
        job.child()
    took_s = stopped.back()
    print(f"{way}: {took_s:.2f} s until it manages its jobs again")

    for job in jobs:
        until(lambda job=job: job.controls() <= host.ours(), "its congestion control")  # type: ignore[misc]
        assert job.groups() == {f"/{host.name}/hostcc/{job.name}"}
        job.goes_on()
        assert job.ask("connect") == "done"
        assert job.controls() <= host.ours()
        job.goes_on()
    again = told(host)
    assert {name: row[1] for name, row in again.items()} == {"train-a": 4, "train-b": 8}
    assert [(name, row[0], *row[2:]) for name, row in again.items()] == [
        (name, row[0], *row[2:]) for name, row in before.items()
    ]
    assert host.client("verify").returncode == 0

    # All of it can be undone again, and a job that ends takes its group with it.
    assert host.client("rollback").returncode == 0
    for job in jobs:
        assert (job.controls(), job.groups()) == ({default}, {"/"})
        job.goes_on()
        job.end()
    assert host.client("unfair", "mltcp").returncode == 0
    assert host.json("status")["jobs"] == []
    assert list((host.root / "hostcc").glob("*/")) == []


@pytest.mark.parametrize("stale", ["ended", "another process", "another cgroup", "no cgroup"])
def test_what_is_kept_of_a_job_that_is_no_more_is_dropped(
    host: RealHost, run: Callable[..., Job], stale: str
) -> None:
    process = host.start()
    gone, live = run("gone", 7001), run("live", 7002)
    assert host.stop(process) == 0
    group = host.root / "hostcc" / "gone"
    assert group.is_dir()
    match stale:
        case "ended":
            gone.end()
        case "another process":  # the numbers are the same, the processes are not
            journal = host.folder / "run" / "journal.jsonl"
            lines = journal.read_text().splitlines()
            other = [re.sub(r"/(\d+)(?=[ \"])", r"/1\1", s) if "gone" in s else s for s in lines]
            assert lines != other
            journal.write_text("\n".join([*other, ""]))
        case "another cgroup":
            group.rmdir()
            (host.root / "hostcc" / "between").mkdir()
            group.mkdir()
        case "no cgroup":
            group.rmdir()
    host.start()
    assert [row["name"] for row in host.json("status")["jobs"]] == ["live"]
    assert live.groups() == {f"/{host.name}/hostcc/live"}
    if stale != "ended":
        assert gone.groups() == {"/"}
        gone.goes_on()
    assert [path.name for path in (host.root / "hostcc").glob("*/")] == ["live"]
    in_force = [change["id"] for change in host.json("changes")["in_force"]]
    assert not [change_id for change_id in in_force if "gone" in change_id]


def test_a_roll_back_without_an_agent_leaves_nothing(
    host: RealHost, run: Callable[..., Job]
) -> None:
    """Not even what the next agent would know the jobs by."""
    process = host.start()
    job = run("train", 7001)
    assert host.stop(process) == 0
    assert (host.root / "hostcc" / "train").is_dir()
    done = host.client("rollback")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["undone: cgroup", "undone: job-cgroup:train"]
    assert list(host.root.glob("*/")) == []
    job.goes_on()
    host.start()
    assert host.json("status")["jobs"] == []
    assert job.groups() == {"/"}


def test_dry_run_says_which_jobs_come_back(host: RealHost, run: Callable[..., Job]) -> None:
    process = host.start()
    job = run("train", 7001)
    assert host.stop(process) == 0
    done = subprocess.run(
        [*HOSTCC, "agent", "--config", str(host.folder / "hostcc.toml"), "--dry-run", "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    ids = {change["id"] for change in json.loads(done.stdout)["changes"]}
    assert {f"job-member:train:{pid}" for pid in job.pids} | {"job-sockets:train"} <= ids
    assert job.groups() == {"/"}
