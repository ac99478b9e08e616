"""The agent under what packaging/hostcc.service leaves it, and what each capability is for."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import unit_sandbox
from tests.real import HOSTCC, RealHost, until

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        not shutil.which("systemd-analyze"),
        reason="no systemd-analyze; tools/setup --with-packages installs it",
    ),
]
TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs/install.md").read_text()
ROW = re.compile(r"^\| `(CAP_\w+)` \| ([^|]+) \|$", re.MULTILINE)
SOMEBODY = 65534
SETTINGS = """
[gossip]
enabled = true
listen = "127.0.0.1:871"
keys = ""
insecure = true
[discover]
every_s = 1
[gpu]
enabled = false
"""
ENVIRONMENTS = "environments of processes"
# Capability -> what does not work without it; the words are in its row of docs/install.md.
LOST = {
    "CAP_CHOWN": {"socket_group"},
    "CAP_DAC_OVERRIDE": {"cgroups of other users"},
    "CAP_DAC_READ_SEARCH": {"cgroup that is gone"},
    "CAP_NET_ADMIN": {"the agent"},
    "CAP_NET_BIND_SERVICE": {"below 1024"},
    "CAP_NET_RAW": {"probes"},
    "CAP_SYS_ADMIN": {"the agent"},
    "CAP_SYS_PTRACE": {"network namespaces", ENVIRONMENTS},
    "CAP_SYS_RESOURCE": {"descriptors"},
}
UNDOING = """
import resource
from hostcc.system.descriptors import allow_more
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
allow_more()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - hard)
"""
SEEING = """
import sys
from hostcc.system.namespaces import opened
with opened([int(sys.argv[1])]) as found:
    print(*(path.stat().st_ino for path in found if path))
"""
FINDING = """
import sys
from pathlib import Path
from hostcc.daemon.changes.hidden import _exists
print(_exists(Path(sys.argv[1]), int(sys.argv[2])))
"""


@contextmanager
def in_unit(host: RealHost, *without: str) -> Iterator[tuple[str, ...]]:
    """Agents of the host start as in the unit; yields the words that do it."""
    before = host.enter
    words = tuple(unit_sandbox.within(*without))
    host.enter = (*before, *words)
    yield words
    host.enter = before


def own_capabilities() -> int:
    """Of this process: no unit gives more than there is."""
    text = Path("/proc/self/status").read_text()
    found = re.search(r"^CapEff:\s+(\w+)$", text, re.MULTILINE)
    assert found is not None
    return int(found[1], 16)


def test_it_is_as_tight_as_was_promised() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=45", "--no-pager",
         str(unit_sandbox.UNIT)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_it_is_bounded_and_starts_before_what_starts_jobs() -> None:
    service = unit_sandbox.settings()
    for key in ("MemoryMax", "CPUQuota", "TasksMax"):
        (bound,) = service[key]
        assert re.fullmatch(r"\d+[GM%]?", bound), key
    before = re.search(r"^Before=(.*)$", unit_sandbox.UNIT.read_text(), re.MULTILINE)
    assert before is not None
    assert set(before[1].split()) == {"slurmd.service", "kubelet.service"}


def test_the_sandbox_is_one(host: RealHost) -> None:
    """What the unit forbids is refused; otherwise the tests below show nothing."""
    with in_unit(host) as words:
        for command in (
            ["unshare", "--mount", "true"], ["mount", "-t", "tmpfs", "none", str(host.folder)],
            [sys.executable, "-c", "import socket; socket.socket(socket.AF_PACKET)"],
            [sys.executable, "-c", "import time; time.clock_settime(0, time.time())"],
        ):  # fmt: skip
            assert subprocess.run([*words, *command], check=False).returncode != 0
        assert subprocess.run([*words, "unshare", "--net", "true"], check=False).returncode == 0


def test_a_job_is_run_switched_and_rolled_back_in_it(host: RealHost) -> None:
    with in_unit(host):
        agent = host.start("[paths]\nenabled = true\n[marking]\nenabled = true\n" + SETTINGS)
        talker = host.talker("train", 7001)
        assert set(talker.controls()) <= host.ours()
        findings = host.json("doctor")["findings"]
        assert [one for one in findings if one["name"].startswith("part ") and failed(one)] == []
        check = [*host.enter, *HOSTCC, "agent", "--check", "--config"]
        config = str(host.folder / "hostcc.toml")
        done = subprocess.run(
            [*check, config], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr  # as a reload begins
        agent.send_signal(signal.SIGHUP)
        until(lambda: "configuration reloaded" in host.log(), host.log)
        assert host.client("unfair", "off").returncode == 0
        assert set(talker.controls()).isdisjoint(host.ours())
        assert host.client("verify").returncode == 0
        assert host.client("rollback").returncode == 0
        assert host.stop(agent) == 0
        assert talker.ask("send 100000") == "sent"
    assert host.ours() == set()
    assert "not permitted" not in host.log()


def failed(finding: dict[str, str]) -> bool:
    return finding["state"] == "missing"


def test_the_page_has_the_capabilities_of_the_unit_and_what_they_are_for() -> None:
    rows = dict(ROW.findall(PAGE))
    assert set(rows) == set(unit_sandbox.settings()["CapabilityBoundingSet"]) == set(LOST)
    for name, lost in LOST.items():
        for words in lost:
            assert words in rows[name], name


@pytest.mark.parametrize("without", [None, *LOST])
def test_what_is_lost_without_a_capability(host: RealHost, without: str | None) -> None:
    dropped = [] if without is None else [without]
    expected = set() if without is None else LOST[without]
    if not own_capabilities() >> unit_sandbox.CAPABILITIES["CAP_SYS_RESOURCE"] & 1:
        expected = expected | {"descriptors"}  # this machine has none to give
    with in_unit(host, *dropped) as words:
        found = set(lost(host, words))
    if without == "CAP_SYS_PTRACE":  # from Linux 6.13 on CAP_SYS_ADMIN is enough for environments
        found.add(ENVIRONMENTS)
    assert found == expected


def lost(host: RealHost, words: tuple[str, ...]) -> Iterator[str]:
    """What does not work of that which the table is about."""
    if raised(words) <= 0:
        yield "descriptors"
    if not misses_cgroup(host, words):
        yield "cgroup that is gone"
    if not sees_namespace(host, words):
        yield "network namespaces"
    probe = [*words, *HOSTCC, "probe", "127.0.0.1", "--seconds", "0.1"]
    done = subprocess.run(
        ["nsenter", f"--net=/run/netns/{host.name}", *probe],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if "CAP_NET_RAW" in done.stderr:
        yield "probes"
    try:
        host.start(SETTINGS, socket_group="daemon")
    except AssertionError:
        try:
            host.start(SETTINGS, socket_group="")
        except AssertionError:
            assert "cannot change this host, it lacks: root (CAP_" in host.log()
            yield "the agent"
            return
        yield "socket_group"
    until(lambda: tried(host, "gossip"), host.log)
    findings = {one["name"]: one for one in host.json("doctor")["findings"]}
    if "Permission denied" in findings["part gossip"]["detail"]:
        yield "below 1024"
    ranks = Ranks(host, words)
    try:
        if not ranks.found_of(SOMEBODY):
            yield ENVIRONMENTS
        if not ranks.sent_home():
            yield "cgroups of other users"
    finally:
        ranks.close()


def tried(host: RealHost, part: str) -> bool:
    """Whether a part that fills a block of the status has done its first work, or failed at it."""
    status = host.json("status")
    states = {row["name"]: row["state"] for row in status["parts"]}
    return status[part] is not None or states[part] == "failed"


def raised(words: tuple[str, ...]) -> int:
    """How many descriptors more than the hard limit an agent gets for undoing."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    done = subprocess.run(
        [*words, sys.executable, "-c", UNDOING],
        env={**os.environ, "PYTHONPATH": str(TOP)}, preexec_fn=limited,
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return int(done.stdout)


def misses_cgroup(host: RealHost, words: tuple[str, ...]) -> bool:
    """Whether an agent can tell that a cgroup has been removed, by its number alone."""
    group = host.root / "gone"
    group.mkdir()
    number = group.stat().st_ino
    group.rmdir()
    done = subprocess.run(
        [*words, sys.executable, "-c", FINDING, str(host.root.parent), str(number)],
        env={**os.environ, "PYTHONPATH": str(TOP)},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout == "False\n"


def sees_namespace(host: RealHost, words: tuple[str, ...]) -> bool:
    """Whether an agent outside of the host's namespace finds it by a process of a user in it."""
    there = Path(f"/run/netns/{host.name}")
    process = subprocess.Popen(
        ["nsenter", f"--net={there}", "setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}",
         "--clear-groups", "sleep", "600"]
    )  # fmt: skip
    try:
        until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "the process")
        done = subprocess.run(
            [*words, sys.executable, "-c", SEEING, str(process.pid)],
            env={**os.environ, "PYTHONPATH": str(TOP)},
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
    finally:
        process.kill()
        process.wait()
    return str(there.stat().st_ino) in done.stdout.split()


class Ranks:
    """Processes that tell of their job by their environment."""

    def __init__(self, host: RealHost, like_agent: tuple[str, ...]) -> None:
        self._host, self._like_agent = host, like_agent
        self._processes: list[subprocess.Popen[bytes]] = []
        self._groups = 0

    def found_of(self, uid: int) -> bool:
        """Whether a rank of the user is found; one of the agent's kind is, with the same scan."""
        theirs = self._rank(uid)
        for _ in range(2):  # the second is found by a scan that began after the first one's
            ours = self._rank(0)
            until(lambda name=ours: self._known(name), f"{ours}: {self._host.log()}")  # type: ignore[misc]
        return self._known(theirs)

    def sent_home(self) -> bool:
        """Whether a roll-back moves a process into the cgroup of a user from which it came."""
        home = self._home()
        for path in [home, *home.iterdir()]:
            os.chown(path, SOMEBODY, SOMEBODY)
        run = [*HOSTCC, "run", "--job", "sent", "--socket", str(self._host.socket), "--"]
        process = self._start(home, [*run, "sleep", "600"])
        where = Path(f"/proc/{process.pid}/cgroup")
        until(lambda: where.read_text().endswith("/hostcc/sent\n"), "the job")
        self._host.client("rollback")
        return where.read_text().endswith(f"/{self._host.name}/{home.name}\n")

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _known(self, name: str) -> bool:
        return any(one["name"] == name for one in self._host.json("jobs", "--detail")["jobs"])

    def _home(self) -> Path:
        self._groups += 1
        home = self._host.root / f"home-{self._groups}"
        home.mkdir()
        return home

    def _rank(self, uid: int) -> str:
        """Start one; the name of its job."""
        home = self._home()
        port = 29500 + self._groups
        environment = ["env", "RANK=0", "MASTER_ADDR=198.18.9.7", f"MASTER_PORT={port}"]
        other = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        command = [*(other if uid else self._like_agent), *environment, "sleep", "600"]
        comm = Path(f"/proc/{self._start(home, command).pid}/comm")
        until(lambda: comm.read_text() == "sleep\n", "the rank")
        return f"rdv:198.18.9.7:uid{uid}:{port}"

    def _start(self, home: Path, command: list[str]) -> subprocess.Popen[bytes]:
        enter = ["sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', str(home)]
        made = subprocess.Popen([*enter, *command])
        self._processes.append(made)
        return made
