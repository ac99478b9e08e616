"""Undoing depends on no disk, and on no journal that is still there.  Real agents and kernel."""

from __future__ import annotations

import errno
import json
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.bpf.loader.netns import in_netns
from hostcc.daemon.changes.attribute_copy import AttributeCopy
from hostcc.daemon.changes.leftovers import by_name
from hostcc.errors import Exit
from hostcc.model import Change
from hostcc.system.cgroups import cgroup_of
from tests.daemon.changes import failing_disk
from tests.daemon.planning.scene import Scene
from tests.daemon.profiling.wired import QUIET
from tests.real import HOSTCC, RealHost, Talker, until

pytestmark = pytest.mark.kernel

HTB = """[marking]
enabled = true
[egress]
queues = 'htb'
devices = ['d0']
rate_mbit = 1000
"""
QUEUES = QUIET + HTB
STEERING = "[paths]\nenabled = true\n"


class Disk:
    """A file system of its own for the run directory: 256 kB that can be filled or frozen."""

    def __init__(self, at: Path) -> None:
        self.at = at
        at.mkdir()
        self._mount("-t", "tmpfs", "-o", "size=256k,mode=755", "hostcc-test", str(at))

    def _mount(self, *words: str) -> None:
        subprocess.run(["mount", *words], check=True, timeout=60)

    def fill(self) -> None:
        with (self.at / "journal.jsonl").open("ab") as file:  # to the end of its page
            file.write(b"\n" * (-file.tell() % 4096))
        with (self.at / "filling").open("ab", buffering=0) as file:
            for size in (1 << 12, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError as error:
                    assert error.errno == errno.ENOSPC

    def empty(self) -> None:
        (self.at / "filling").unlink()

    def freeze(self) -> None:
        self._mount("-o", "remount,ro", str(self.at))

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.at)], check=True, timeout=60)


def device(host: RealHost, name: str) -> None:
    host.inside("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-far")
    host.inside("ip", "link", "set", name, "up")


@pytest.fixture
def host(tmp_path: Path, cgroup2: Path) -> Iterator[RealHost]:
    made = RealHost(tmp_path, cgroup2)
    device(made, "d0")
    yield made
    made.close()


@pytest.fixture
def disk(host: RealHost) -> Iterator[Disk]:
    made = Disk(host.folder / "run")
    yield made
    made.close()


def queue(host: RealHost, device: str = "d0") -> str:
    return host.inside("tc", "qdisc", "show", "dev", device)


def left(host: RealHost) -> list[Change]:
    """Queues, and devices with programs, of any agent."""
    return in_netns(Path(f"/run/netns/{host.name}"), by_name)


def reserved(host: RealHost) -> str:
    return host.inside("sysctl", "-n", "net.ipv4.ip_local_reserved_ports").strip()


def default(host: RealHost) -> str:
    return host.inside("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()


def groups(host: RealHost) -> set[str]:
    return {str(path.relative_to(host.root)) for path in host.root.rglob("*/")}


def rollback(host: RealHost, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*host.enter, *HOSTCC, "rollback", "--socket", str(host.socket), *words],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def acting(host: RealHost, text: str = QUEUES) -> tuple[subprocess.Popen[str], Talker]:
    """An agent with a queue and a job."""
    agent = host.start(text)
    until(lambda: host.queued("d0"), host.log)
    talker = host.talker("train", 7101)
    assert set(talker.controls()) <= host.ours()
    assert talker.cgroup() == f"/{host.name}/hostcc/train"
    return agent, talker


def as_before(host: RealHost, talker: Talker) -> None:
    assert "c1c:" not in queue(host)
    assert host.ours() == set()
    assert set(talker.controls()) == {default(host)}
    assert talker.cgroup() == "/"
    assert talker.ask("send 1000") == "sent"


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_roll_back_needs_no_disk(host: RealHost, disk: Disk, how: str) -> None:
    agent, talker = acting(host)
    host.stop(agent, signal.SIGKILL)
    assert "c1c:" in queue(host)
    disk.fill() if how == "full" else disk.freeze()
    done = rollback(host)
    assert done.returncode == Exit.UNRECORDED, done.stderr
    as_before(host, talker)
    assert groups(host) == set()
    why = "No space left on device" if how == "full" else "Read-only file system"
    assert re.search(rf"undone, but not recorded: egress-queues:d0: .*{why}", done.stderr)
    assert "Traceback" not in done.stderr
    assert "undone: job-cgroup:train" in done.stdout


def test_jobs_are_let_go_without_a_disk(host: RealHost, disk: Disk) -> None:
    agent, talker = acting(host)
    disk.fill()
    refused = host.client("unfair", "static", "train=2")
    assert (refused.returncode, "No space left" in refused.stderr) == (1, True)
    assert set(talker.controls()) <= host.ours()
    assert host.client("unfair", "off").returncode == 0
    assert set(talker.controls()) == {default(host)}
    done = host.client("rollback", "--json")
    assert done.returncode == Exit.UNRECORDED
    assert "egress-queues:d0" in json.loads(done.stdout)["unrecorded"]
    as_before(host, talker)
    assert host.stop(agent) == Exit.UNRECORDED


def test_a_stop_needs_no_disk_and_says_what_is_not_recorded(host: RealHost, disk: Disk) -> None:
    agent, talker = acting(host)
    disk.fill()
    assert host.stop(agent) == Exit.UNRECORDED
    as_before(host, talker)
    assert groups(host) == set()
    last = host.log().splitlines()[-1]
    assert "undone, but not recorded: " in last
    assert "No space left on device" in last
    assert "Traceback" not in host.log()
    disk.empty()
    again = host.start(QUEUES)
    assert host.client("verify").returncode == 0
    assert host.stop(again) == 0


# An agent that uses all descriptors that it may have when it is asked to.
HUNGRY = """
import os, signal, sys
def fill(*_):
    try:
        while True:
            os.open("/dev/null", os.O_RDONLY)
    except OSError as error:
        print("full:", error.strerror, file=sys.stderr, flush=True)
signal.signal(signal.SIGUSR1, fill)
from hostcc.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def elsewhere(host: RealHost) -> Iterator[list[str]]:
    """More network namespaces."""
    names = [f"{host.name}-{number}" for number in range(6)]
    for name in names:
        subprocess.run(["ip", "netns", "add", name], check=True)
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
    yield names
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_a_stop_needs_no_descriptor_left(host: RealHost, elsewhere: list[str]) -> None:
    path = host.configure(QUEUES, network_namespaces="all")
    with (host.folder / "agent.log").open("w") as log:
        words = [*host.enter, sys.executable, "-c", HUNGRY, "agent", "--config", str(path)]
        agent = subprocess.Popen(words, stderr=log, text=True)
    host.agents.append(agent)
    until(lambda: host.acts(agent.pid) and host.queued("d0"), host.log)
    run = [*HOSTCC, "run", "--job", "train", "--socket", str(host.socket), "--"]
    host.talkers += [Talker(run, 7101, name) for name in (host.name, *elsewhere)]
    for talker in host.talkers:
        assert set(talker.controls()) <= host.ours()
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (512, 512))
    agent.send_signal(signal.SIGUSR1)
    until(lambda: "full: Too many open files" in host.log(), host.log)
    assert host.stop(agent) == 0, host.log()
    for talker in host.talkers:
        as_before(host, talker)
    assert groups(host) == {"hostcc", "hostcc/train"}  # by which the next agent knows it again
    assert "Traceback" not in host.log()


ERRORS = ("ENOSPC", "EROFS", "EIO", "EMFILE")
COUNTED = 1_000_000


def live(host: RealHost, name: str, first: int) -> tuple[int, int, str]:
    """An agent's whole life, from the start to SIGTERM, on a disk that fails from a write on:
    exit status, writes, log."""
    path, counted = host.configure(QUEUES), host.folder / "counted"
    command = [sys.executable, "-m", failing_disk.__name__, name, str(first)]
    words = [str(host.folder / "run"), str(counted), "agent", "--config", str(path)]
    process = subprocess.Popen(
        [*host.enter, *command, *words], stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    host.agents.append(process)
    until(lambda: process.poll() is not None or host.answers(process.pid), "an answer")
    if process.poll() is None:
        for job in ("a", "b"):
            run = [*HOSTCC, "run", "--job", job, "--socket", str(host.socket), "--", "true"]
            subprocess.run([*host.enter, *run], check=True, stderr=subprocess.DEVNULL, timeout=60)
        host.client("unfair", "static", "a=2")
        process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=300)
    return process.returncode, int(counted.read_text()), log


@pytest.mark.timeout(1800)
def test_whatever_write_fails_the_host_is_as_before(host: RealHost) -> None:
    """Every write of an agent's life, each error in turn."""
    status, writes, log = live(host, "EIO", COUNTED)
    assert status == 0, log
    assert writes > 10
    before = queue(host)
    statuses = []
    for first in range(1, writes + 1):
        shutil.rmtree(host.folder / "run")
        name = ERRORS[first % len(ERRORS)]
        status, _, log = live(host, name, first)
        where = f"{name} from write {first} of {writes} on: {status}\n{log}"
        assert "Traceback" not in log, where
        assert (queue(host), groups(host), host.ours()) == (before, set(), set()), where
        assert status in {Exit.OK, Exit.FAILED, Exit.UNRECORDED}, where
        assert (status == Exit.UNRECORDED) == ("undone, but not recorded" in log), where
        statuses.append(status)
    assert Exit.UNRECORDED in statuses


@pytest.mark.parametrize("how", ["rollback", "the next agent", "the next agent, changed"])
def test_what_is_left_is_found_without_a_journal(tmp_path: Path, cgroup2: Path, how: str) -> None:
    """Ports, hooks, queues, and where processes came from."""
    scene, jobs = Scene(tmp_path, cgroup2), list[subprocess.Popen[bytes]]()
    try:
        one = scene.one
        ports, plain = reserved(one), queue(one, "eth0")
        agent = one.start(scene.section(HTB.replace("d0", "eth0") + STEERING))
        until(lambda: reserved(one) != ports, one.log)
        until(one.queued, one.log)
        until(lambda: len(left(one)) == 2, one.log)
        home = one.root / "home"
        home.mkdir()
        enter = f'echo $$ > {home}/cgroup.procs; exec "$@"'
        run = [*HOSTCC, "run", "--job", "train", "--socket", str(one.socket), "--"]
        job = subprocess.Popen([*one.enter, "sh", "-c", enter, "sh", *run, "sleep", "1000"])
        jobs.append(job)
        until(lambda: cgroup_of(job.pid) == f"/{one.name}/hostcc/train", one.log)
        one.stop(agent, signal.SIGKILL)
        assert len(left(one)) == 2
        assert AttributeCopy(one.root / "hostcc").owner[0] == str(one.folder / "run")
        shutil.rmtree(one.folder / "run")
        if how == "rollback":
            done = rollback(one)
            assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
            assert "undone: reserved-ports" in done.stdout
        else:
            section = HTB.replace("d0", "eth0") + STEERING if how == "the next agent" else ""
            again = one.start(scene.section(section))
            if how != "the next agent":
                until(lambda: reserved(one) == ports, one.log)
                until(lambda: "c1c:" not in queue(one, "eth0"), one.log)
            assert "left behind, and not in the journal change=reserved-ports" in one.log()
            assert one.stop(again) == 0
        assert reserved(one) == ports
        assert queue(one, "eth0") == plain
        assert left(one) == []
        kept = set() if how == "rollback" else {"hostcc", "hostcc/train"}
        assert groups(one) == {"home", *kept}
        assert cgroup_of(job.pid) == f"/{one.name}/home"
    finally:
        for process in jobs:
            process.kill()
            process.wait()
        scene.close()


def test_what_another_agent_or_an_administrator_has_made_stays(
    host: RealHost, tmp_path: Path, cgroup2: Path
) -> None:
    """In one network namespace: a queue of an agent that lives, and one of nobody's."""
    agent, talker = acting(host)
    device(host, "d1")
    host.inside("tc", "qdisc", "add", "dev", "d1", "root", "handle", "7:", "pfifo", "limit", "9")
    (tmp_path / "other").mkdir()
    other = RealHost(tmp_path / "other", cgroup2)
    try:
        other.enter = host.enter
        second = other.start(QUIET)
        assert other.stop(second, signal.SIGKILL) != 0
        shutil.rmtree(other.folder / "run")
        done = rollback(other)
        assert (done.returncode, done.stderr) == (0, "")
        assert "egress-queues" not in done.stdout
    finally:
        other.close()
    assert "c1c:" in queue(host)
    assert "pfifo 7:" in queue(host, "d1")
    assert host.client("verify").returncode == 0
    host.stop(agent, signal.SIGKILL)
    assert rollback(host).returncode == 0
    as_before(host, talker)
    assert "pfifo 7:" in queue(host, "d1")


def test_a_queue_that_only_its_handle_tells_of_goes(host: RealHost) -> None:
    """Its agent is gone with its run directory and its directory of cgroups."""
    plain = queue(host)
    agent = host.start(QUEUES)
    until(lambda: host.queued("d0"), host.log)
    host.stop(agent, signal.SIGKILL)
    shutil.rmtree(host.folder / "run")
    (host.root / "hostcc").rmdir()
    again = host.start(QUIET)
    until(lambda: queue(host) == plain, host.log)
    assert "left behind, and not in the journal change=egress-queues:d0" in host.log()
    assert host.stop(again) == 0


# Connections to itself, each end a socket, and memory; it says when it has them.
CROWD = """
import resource, socket, sys, time
count = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 64, count + 64))
memory = bytearray(64 << 20)
for at in range(0, len(memory), 4096):
    memory[at] = 1
server = socket.create_server(("127.0.0.1", 0), backlog=128)
held = []
while len(held) < count:
    held.append(socket.create_connection(server.getsockname()))
    held.append(server.accept()[0])
    held[-2].send(b"x" * 4096)
print("up", flush=True)
time.sleep(1000)
"""
JOBS, SOCKETS = 6, 3000


def test_a_stop_waits_for_processes_that_are_exiting(host: RealHost) -> None:
    agent = host.start(QUIET)
    run = [*HOSTCC, "run", "--socket", str(host.socket), "--job"]
    jobs = []
    try:
        crowd = ["--", sys.executable, "-c", CROWD, str(SOCKETS)]
        for number in range(JOBS):
            command = [*host.enter, *run, f"j{number}", *crowd]
            jobs.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        for job in jobs:
            assert job.stdout is not None
            assert job.stdout.readline() == "up\n"
        assert len(groups(host)) == JOBS + 1
        for job in jobs:
            job.kill()
        assert host.stop(agent) == 0
        assert groups(host) == set(), host.log()
        assert "not undone" not in host.log()
    finally:
        for job in jobs:
            job.kill()
            job.communicate()
