"""Every kind of change times where its roll-back runs: in its namespace, in another one, without
one that is gone, and where it cannot be seen.  Real namespaces, and real changes where the kernel
has them without hardware; RDMA ports are stood in for by a tool and by files."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from hostcc.bpf.loader.netns import in_netns
from hostcc.daemon import rollback
from hostcc.daemon.changes import elsewhere, kinds, mechanisms, places
from hostcc.daemon.changes import path_kinds as paths
from hostcc.daemon.changes.journal import Journal
from hostcc.mltcp import dcqcn
from hostcc.mltcp.dcqcn_knobs import Knobs
from hostcc.model import Change
from hostcc.paths import egress_kernel, egress_queues, hooks, reserve
from hostcc.paths.hooks import INGRESS
from hostcc.paths.steer_kernel import PROGRAMS, SteerKernel
from tests.patience import until
from tests.real import HOSTCC, RealHost

pytestmark = pytest.mark.kernel

T = TypeVar("T")
DEVICE = "hccd0"
RANGE = "61000-65535"
KINDS = (egress_queues.QUEUES, paths.HOOKS, paths.PORTS)
EGRESS = (
    "[marking]\nenabled = true\n"
    f"[egress]\nqueues = 'htb'\ndevices = ['{DEVICE}']\nrate_mbit = 1000\n"
)


@dataclass
class Namespace:
    """A network namespace with a device, by name."""

    name: str

    @property
    def path(self) -> Path:
        return Path("/run/netns") / self.name

    def do(self, function: Callable[[], T]) -> T:
        return in_netns(self.path, function)

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=True)


@pytest.fixture
def made() -> Iterator[Callable[[], Namespace]]:
    names = []

    def make() -> Namespace:
        names.append(f"hccn-{uuid.uuid4().hex[:6]}")
        subprocess.run(["ip", "netns", "add", names[-1]], check=True)
        words = ["link", "add", DEVICE, "up", "type", "veth", "peer", "name", "hccd1"]
        subprocess.run(["ip", "-n", names[-1], *words], check=True)
        return Namespace(names[-1])

    yield make
    for name in names:
        if (Path("/run/netns") / name).exists():
            subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


def make(kind: str, run_dir: Path) -> None:
    """A change of a kind in the calling thread's namespace, by an agent that then dies."""
    journal = Journal(run_dir)
    journal.open()
    netns = places.current().net
    if kind == egress_queues.QUEUES:
        journal.begin(egress_queues.change(egress_queues.Queues.HTB, DEVICE, "noqueue", 2))
        egress_kernel.apply(
            egress_queues.commands(egress_queues.Queues.HTB, DEVICE, [160, 128], 1000)
        )
    elif kind == paths.HOOKS:
        journal.begin(paths.hooks(DEVICE, netns))
        SteerKernel([DEVICE]).close()
    elif kind == paths.PORTS:
        journal.begin(paths.reserved_ports("", RANGE, netns))
        reserve.write(RANGE)
    journal.close()


def is_there(kind: str) -> bool:
    """In the calling thread's namespace."""
    if kind == egress_queues.QUEUES:
        root = egress_kernel.root(DEVICE)
        return root is not None and root.ours
    if kind == paths.PORTS:
        return reserve.read() == RANGE
    return bool(hooks.attached(socket.if_nametoindex(DEVICE), INGRESS, [PROGRAMS[INGRESS]]))


def in_force(run_dir: Path) -> list[str]:
    book = Journal(run_dir)
    return sorted([*book.active, *book.aside])


@pytest.mark.parametrize("kind", KINDS)
def test_rolled_back_in_its_namespace(
    kind: str, run_dir: Path, made: Callable[[], Namespace]
) -> None:
    there = made()
    there.do(partial(make, kind, run_dir))
    assert there.do(partial(is_there, kind))
    answer = there.do(partial(rollback.offline, run_dir))
    assert (answer.problems, answer.gone, len(answer.undone)) == ([], [], 1)
    assert not there.do(partial(is_there, kind))
    assert in_force(run_dir) == []


@pytest.mark.parametrize("kind", KINDS)
def test_rolled_back_from_another_one(
    kind: str, run_dir: Path, made: Callable[[], Namespace]
) -> None:
    there, here = made(), made()
    there.do(partial(make, kind, run_dir))
    answer = here.do(partial(rollback.offline, run_dir))
    assert not there.do(partial(is_there, kind))
    assert (answer.problems, answer.gone, len(answer.undone)) == ([], [], 1)
    assert in_force(run_dir) == []


@pytest.mark.parametrize("kind", KINDS)
def test_its_namespace_is_gone(kind: str, run_dir: Path, made: Callable[[], Namespace]) -> None:
    there, here = made(), made()
    there.do(partial(make, kind, run_dir))
    there.remove()
    answer = here.do(partial(rollback.offline, run_dir))
    assert (answer.problems, answer.undone, len(answer.gone)) == ([], [], 1)
    assert in_force(run_dir) == []
    again = here.do(partial(rollback.offline, run_dir))
    assert (again.problems, again.undone, again.gone) == ([], [], [])


@pytest.mark.parametrize("kind", KINDS)
def test_its_namespace_is_not_seen(kind: str, run_dir: Path, made: Callable[[], Namespace]) -> None:
    """In a container with processes of its own: it stays, is said, and found again later."""
    there = made()
    there.do(partial(make, kind, run_dir))
    holder = subprocess.Popen(["nsenter", f"--net={there.path}", "sleep", "600"])
    try:
        inode = there.path.stat().st_ino
        until(lambda: Path(f"/proc/{holder.pid}/ns/net").stat().st_ino == inode, "to enter")
        there.remove()
        inside = ("unshare", "--pid", "--fork", "--mount-proc")
        command = [*inside, *HOSTCC, "rollback", "--run-dir", str(run_dir), "--json"]
        command += ["--socket", str(run_dir / "none")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        answer = json.loads(done.stdout)
        assert (answer["undone"], answer["gone"]) == ([], [])
        assert f"network namespace {inode}, which no process here shows" in answer["problems"][0]
        held = Path(f"/proc/{holder.pid}/ns/net")
        assert in_netns(held, partial(is_there, kind))
        assert len(in_force(run_dir)) == 1
        assert in_netns(held, partial(rollback.offline, run_dir)).problems == []
        assert not in_netns(held, partial(is_there, kind))
        assert in_force(run_dir) == []
    finally:
        holder.kill()
        holder.wait()


def test_a_number_that_is_used_again_is_another_namespace(
    run_dir: Path, made: Callable[[], Namespace]
) -> None:
    """Reserved ports look like anybody's: only the record says whose they are."""
    there = made()
    there.do(partial(make, paths.PORTS, run_dir))
    book = run_dir / "journal.jsonl"
    cookie = there.do(places.cookie)
    assert cookie
    book.write_text(book.read_text().replace(f'"cookie":{cookie}', f'"cookie":{cookie + 1000000}'))
    assert len(there.do(partial(rollback.offline, run_dir)).gone) == 1
    assert there.do(partial(is_there, paths.PORTS))


def test_records_without_a_namespace(run_dir: Path, made: Callable[[], Namespace]) -> None:
    """Of an older version: undone where they are found, and never said to be where they are not."""
    there, here = made(), made()
    there.do(partial(make, egress_queues.QUEUES, run_dir))
    book = run_dir / "journal.jsonl"
    lines = [json.loads(line) for line in book.read_text().splitlines()]
    for line in lines:
        line.pop("place", None)
    book.write_text("".join(json.dumps(line) + "\n" for line in lines))
    answer = here.do(partial(rollback.offline, run_dir))
    assert answer.undone == []
    assert "nothing says where they are" in answer.problems[0]
    assert there.do(partial(is_there, egress_queues.QUEUES))
    assert there.do(partial(rollback.offline, run_dir)).problems == []
    assert not there.do(partial(is_there, egress_queues.QUEUES))


def test_counters_of_rdma_ports(
    run_dir: Path,
    tmp_path: Path,
    made: Callable[[], Namespace],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asked for in their namespace; when that has ended the device is back in the first one."""
    tool, seen = tmp_path / "bin" / "rdma", tmp_path / "seen"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nreadlink /proc/self/ns/net >> {seen}\necho "$@" >> {seen}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    there, here = made(), made()

    def bind() -> None:
        journal = Journal(run_dir)
        journal.open()
        journal.begin(kinds.rdma_counters("mlx5_0", 1))
        journal.close()

    try:
        first = Path("/proc/1/ns/net").stat().st_ino
    except PermissionError:  # then it is tried where we are
        first = here.path.stat().st_ino
    for runs_in, where in ((there, there.path.stat().st_ino), (here, there.path.stat().st_ino)):
        there.do(bind)
        answer = runs_in.do(partial(rollback.offline, run_dir))
        assert (answer.problems, answer.undone) == ([], ["rdma-counters:mlx5_0/1"])
        assert seen.read_text().splitlines()[-2:] == [
            f"net:[{where}]",
            "statistic qp set link mlx5_0/1 auto off",
        ]
    there.do(bind)
    there.remove()
    answer = here.do(partial(rollback.offline, run_dir))
    assert (answer.problems, answer.undone) == ([], ["rdma-counters:mlx5_0/1"])
    assert seen.read_text().splitlines()[-2] == f"net:[{first}]"
    assert in_force(run_dir) == []


def test_rate_parameters_of_a_nic(
    run_dir: Path,
    tmp_path: Path,
    made: Callable[[], Namespace],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are where sysfs shows them: not "the port is gone" where it only is not seen."""
    knob = tmp_path / "sys/class/net/eth9/ecn/roce_rp/rpg_time_reset"
    knob.parent.mkdir(parents=True)
    away = tmp_path / "away"
    away.mkdir()
    shown = [tmp_path / "sys"]
    for module in (mechanisms, elsewhere):
        monkeypatch.setattr(module, "Knobs", lambda: Knobs(shown[0], tmp_path / "none"))
    there, here = made(), made()

    def set_rate() -> None:
        monkeypatch.setattr(places, "DEVICES", tmp_path / "sys/class/net/x")
        knob.write_text("125\n")
        journal = Journal(run_dir)
        journal.open()
        port = dcqcn.Port("eth9", ("a",))
        found, wanted = {dcqcn.Knob.TIME_RESET: 125}, {dcqcn.Knob.TIME_RESET: 100}
        Knobs(shown[0], away).apply(dcqcn.changes(port, found, wanted, "test"), journal)
        journal.close()
        assert knob.read_text() == "100\n"

    there.do(set_rate)
    assert there.do(partial(rollback.offline, run_dir)).problems == []
    assert knob.read_text() == "125\n"
    there.do(set_rate)
    shown[0] = away
    monkeypatch.setattr(places, "DEVICES", away)
    answer = here.do(partial(rollback.offline, run_dir))
    assert answer.undone == []
    assert "run hostcc rollback in network namespace" in answer.problems[0]
    assert knob.read_text() == "100\n"
    shown[0] = tmp_path / "sys"
    assert there.do(partial(rollback.offline, run_dir)).problems == []
    assert knob.read_text() == "125\n"
    there.do(set_rate)
    there.remove()
    shown[0] = away
    monkeypatch.setattr(places, "DEVICES", away)
    assert here.do(partial(rollback.offline, run_dir)).problems == []
    assert in_force(run_dir) == []


def elsewhere_mounted(run_dir: Path, hide: Path) -> subprocess.CompletedProcess[str]:
    """`hostcc rollback` in a mount namespace that hides a directory."""
    words = f'mount -t tmpfs none "{hide}" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", words, "-", *HOSTCC, "rollback", "--json"]
    command += ["--run-dir", str(run_dir), "--socket", str(run_dir / "none")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def begun(run_dir: Path, *those: Change) -> None:
    journal = Journal(run_dir)
    journal.open()
    journal.begin(*those)
    journal.close()


def test_cgroups_that_are_not_seen_are_not_undone(run_dir: Path, cgroup: Path) -> None:
    """As in `ip netns exec`, which hides them: what is not seen there is not gone."""
    base = cgroup / "hostcc"
    begun(run_dir, kinds.base_group(base))
    base.mkdir()
    begun(run_dir, kinds.job_group("a", base / "a", {}, "test"))
    (base / "a").mkdir()
    done = elsewhere_mounted(run_dir, Path("/sys"))
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["undone"] == []
    assert (base / "a").is_dir()
    assert len(in_force(run_dir)) == 2
    answer = rollback.offline(run_dir)
    assert answer.problems == []
    assert not base.exists()
    assert in_force(run_dir) == []
    begun(run_dir, kinds.job_group("a", base / "a", {}, "its directory is gone"))
    base.mkdir()
    begun(run_dir, kinds.job_group("b", base / "b", {}, "its directory is gone"))
    base.rmdir()
    assert rollback.offline(run_dir).problems == []
    assert in_force(run_dir) == []


def test_shared_memory_that_is_not_seen_is_not_undone(run_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shm"
    folder.mkdir()
    begun(run_dir, kinds.rdma_plan(folder / "plan"))
    done = elsewhere_mounted(run_dir, folder)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["undone"] == []
    assert "not seen in this mount namespace" in json.loads(done.stdout)["problems"][0]
    assert rollback.offline(run_dir).undone == [f"rdma-plan:{folder / 'plan'}@{net()}"]
    assert in_force(run_dir) == []

    script = (
        "import sys; from pathlib import Path;"
        "from tests.daemon.changes.test_elsewhere_kernel import begun;"
        "from hostcc.daemon.changes import kinds;"
        "begun(Path(sys.argv[1]), kinds.rdma_plan(Path(sys.argv[2])))"
    )
    mounted = f'mount -t tmpfs none "{folder}" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounted, "-"]
    command += [sys.executable, "-c", script, str(run_dir), str(folder / "plan")]
    subprocess.run(command, check=True)
    assert rollback.offline(run_dir).problems == []
    assert in_force(run_dir) == []


def net() -> int:
    return places.current().net


@pytest.fixture
def host(tmp_path: Path, cgroup2: Path) -> Iterator[RealHost]:
    made = RealHost(tmp_path, cgroup2)
    made.inside("ip", "link", "add", DEVICE, "up", "type", "veth", "peer", "name", "hccd1")
    yield made
    made.close()


def queues(host: RealHost) -> bool:
    return in_netns(Path(f"/run/netns/{host.name}"), partial(is_there, egress_queues.QUEUES))


def test_a_killed_agent_is_rolled_back_from_outside(host: RealHost) -> None:
    agent = host.start(EGRESS)
    until(lambda: host.queued(DEVICE), host.log)
    assert host.client("verify").returncode == 0  # asked from outside: the agent's own answer
    agent.kill()
    agent.wait()
    done = host.client("rollback")
    assert done.returncode == 0, done.stderr
    assert f"undone: egress-queues:{DEVICE}" in done.stdout
    assert not queues(host)


def test_an_agent_in_another_namespace_cleans_up_the_first(host: RealHost) -> None:
    agent = host.start(EGRESS)
    until(lambda: host.queued(DEVICE), host.log)
    agent.kill()
    agent.wait()
    agent = host.start(EGRESS, inside=False)
    assert not queues(host)
    assert host.client("verify").returncode == 0
    assert host.stop(agent) == 0


def test_an_agent_says_what_it_cannot_reach(
    host: RealHost, made: Callable[[], Namespace], tmp_path: Path
) -> None:
    """It keeps it apart from its own device of that name, in `changes`, `verify` and `rollback`."""
    (tmp_path / "run").mkdir(mode=0o700)
    there = made()
    there.do(partial(make, egress_queues.QUEUES, tmp_path / "run"))
    inode, path = there.path.stat().st_ino, f"/run/netns/{there.name}"
    holder = subprocess.Popen(["nsenter", f"--net={path}", "sleep", "600"])
    try:
        until(lambda: Path(f"/proc/{holder.pid}/ns/net").stat().st_ino == inode, "to enter")
        there.remove()
        host.enter = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *host.enter)
        log = (host.folder / "agent.log").open("a")
        command = [*host.enter, *HOSTCC, "agent", "--config", str(host.configure(EGRESS))]
        with log:
            agent = subprocess.Popen(command, stderr=log)
        try:
            until(lambda: host.client("status").returncode == 0, host.log)
            until(lambda: host.queued(DEVICE), host.log)
            aside = f"egress-queues:{DEVICE}@{inode}"
            ids = {one["id"] for one in host.json("changes")["in_force"]}
            assert {aside, f"egress-queues:{DEVICE}"} <= ids
            assert host.client("verify").returncode == 1
            assert [one["id"] for one in host.json("verify")["differences"]] == [aside]
            assert f"network namespace {inode}" in host.client("status").stdout
            done = host.client("rollback")
            assert done.returncode == 1
            assert f"network namespace {inode}" in done.stderr
            assert not queues(host)
        finally:
            agent.kill()
            agent.wait()
        held = Path(f"/proc/{holder.pid}/ns/net")
        assert in_netns(held, partial(is_there, egress_queues.QUEUES))
        until(lambda: host.client("rollback").returncode == 0, host.log)
        assert not in_netns(held, partial(is_there, egress_queues.QUEUES))
    finally:
        holder.kill()
        holder.wait()
