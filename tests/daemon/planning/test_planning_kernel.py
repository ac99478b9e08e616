"""Plans acted upon: two agents that gossip, real kernel, marks on the wire."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.planning.scene import ADDRESSES, Scene
from tests.real import HOSTCC, RealHost, until

pytestmark = pytest.mark.kernel

MARKING = "[marking]\nenabled = true\n"
QUEUES = f"{MARKING}[egress]\nqueues = 'htb'\ndevices = ['eth0']\nrate_mbit = 1000\n"
MUCH, LITTLE = 4e12, 1e12
FIRST, SECOND = 40 << 2, 32 << 2


@pytest.fixture
def scene(tmp_path: Path, cgroup2: Path) -> Iterator[Scene]:
    made = Scene(tmp_path, cgroup2)
    yield made
    made.close()


class Talk:
    """Connections of a job from `one` to `two`."""

    def __init__(self, scene: Scene, job: str) -> None:
        self.ends = [scene.job(host, job) for host in scene.hosts]
        self.port = self.ends[1].ask("listen", name="l", address=ADDRESSES[1])
        self.connect("first")

    def connect(self, name: str, **how: Any) -> None:
        self.ends[0].ask("connect", name=name, address=ADDRESSES[1], port=self.port, **how)
        self.ends[1].ask("accept", name=name, listener="l")

    def tos(self, name: str = "first") -> list[int]:
        """Of both ends."""
        return [end.ask("tos", name=name) for end in self.ends]


def weight(host: RealHost, job: str) -> float:
    rows = host.json("jobs")["jobs"]
    return float(next(row for row in rows if row["name"] == job)["parameters"]["weight"])


def marks(*talks: Talk) -> Callable[[], bool]:
    """Whether the first of these jobs has the first mark, the next the second."""
    return lambda: [one.tos() for one in talks] == [[FIRST] * 2, [SECOND] * 2][: len(talks)]


def guards(agent: subprocess.Popen[str]) -> list[int]:
    """Children of an agent that guard its marks."""
    return [pid for pid in children(agent) if b"guard_process" in command_line(pid)]


def children(agent: subprocess.Popen[str]) -> list[int]:
    """Those of all threads that have not ended meanwhile."""
    found: list[int] = []
    for thread in Path(f"/proc/{agent.pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, thread.read_text().split())
    return found


def command_line(pid: int) -> bytes:
    """Of a process; empty once it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def agree(one: RealHost, two: RealHost) -> bool:
    """Whether both follow one plan, and know that."""
    mine, theirs = (host.json("plan")["state"] for host in (one, two))
    same = mine["follows"] == theirs["follows"] == mine["active"]
    return bool(same and mine["agreed"] and theirs["agreed"])


def says(host: RealHost, *words: str) -> bool:
    """Whether the status has all of these."""
    shown = host.client("status").stdout
    return all(one in shown for one in words)


def the_guard(agent: subprocess.Popen[str]) -> int:
    """The one guard, which becomes its program after it was started."""
    until(lambda: len(guards(agent)) == 1, "the guard")
    return guards(agent)[0]


def test_both_hosts_follow_one_plan_and_its_changes(scene: Scene) -> None:
    one, two = scene.hosts
    agents = [host.start(scene.section(MARKING)) for host in scene.hosts]
    a, b = Talk(scene, "a"), Talk(scene, "b")
    own = 46 << 2
    a.connect("own", own_tos=own)
    scene.tell(a=MUCH, b=LITTLE)
    until(marks(a, b), one.log)
    until(lambda: agree(*scene.hosts), one.log)
    factors = [2.0, 0.5] * 2
    until(lambda: [weight(host, job) for host in scene.hosts for job in "ab"] == factors, one.log)
    # The application's own, and the other end without one.
    until(lambda: a.tos("own") == [own, FIRST], one.log)
    b.connect("new")
    assert b.tos("new") == [SECOND] * 2
    seen = scene.seen(b.port, lambda: b.ends[0].ask("send", name="new"))
    assert seen == dict.fromkeys(ADDRESSES, SECOND)
    level = "job a: rank 0, level 2, DSCP 40, weight 2 (2 times its owner's)"
    alone = "left alone 1 connections that their applications have marked"
    until(lambda: says(one, level, alone), one.log)
    assert one.client("plan").stdout.startswith("plan of view ")
    why = one.client("plan", "--explain", "b").stdout
    assert "weight 0.5: its owner's 1 times 0.5" in why
    assert one.client("verify").returncode == 0
    in_force = {change["id"] for change in one.json("changes")["in_force"]}
    assert {"job-mark:a", "job-mark:b"} <= in_force

    scene.tell(a=LITTLE, b=MUCH)
    until(marks(b, a), one.log)
    until(lambda: b.tos("new") == [FIRST] * 2, one.log)
    scene.tell(b=MUCH)
    until(lambda: a.tos() == [0, 0], one.log)
    until(lambda: (weight(one, "a"), weight(two, "b")) == (1.0, 1.0), one.log)

    assert one.client("unfair", "static", "b=3").returncode == 0
    assert one.json("status")["jobs"][1]["static_weight"] == 3.0
    assert guards(agents[0])
    assert one.stop(agents[0]) == 0
    assert [b.ends[0].ask("tos", name=name) for name in ("first", "new")] == [0, 0]


def test_whoever_ends_an_agent_no_mark_stays(scene: Scene) -> None:
    one, two = scene.hosts
    agents = [host.start(scene.section(MARKING)) for host in scene.hosts]
    a = Talk(scene, "a")
    scene.tell(a=MUCH, b=LITTLE)
    until(marks(a), one.log)
    assert one.client("rollback").returncode == 0
    assert a.tos() == [0, FIRST]
    assert guards(agents[0]) == []
    assert "job-mark" not in one.client("changes").stdout
    assert one.client("unfair", "mltcp").returncode == 0

    two.stop(agents[1], signal.SIGKILL)
    until(lambda: a.tos()[1] == 0, "the guard")

    # The guard too: the next agent finds the marks by the journal.
    again = two.start(scene.section(MARKING))
    until(lambda: a.tos()[1] == FIRST, two.log)
    guard = the_guard(again)
    again.send_signal(signal.SIGSTOP)
    os.kill(guard, signal.SIGKILL)
    two.stop(again, signal.SIGKILL)
    assert a.tos()[1] == FIRST
    last = two.start(scene.section())
    until(lambda: a.tos()[1] == 0, two.log)
    assert two.stop(last) == 0


def test_the_guard_is_replaced_and_rollback_works_without_one(scene: Scene) -> None:
    two = scene.two
    agent = two.start(scene.section(MARKING))
    lone = scene.job(two, "a")
    port = lone.ask("listen", name="l", address=ADDRESSES[1])
    lone.ask("connect", name="c", address=ADDRESSES[1], port=port)
    scene.tell(a=MUCH, b=LITTLE)
    until(lambda: lone.ask("tos", name="c") == FIRST, two.log)
    guard = the_guard(agent)
    os.kill(guard, signal.SIGKILL)
    until(lambda: guards(agent) not in ([], [guard]), two.log)
    agent.send_signal(signal.SIGSTOP)
    os.kill(guards(agent)[0], signal.SIGKILL)
    two.stop(agent, signal.SIGKILL)
    assert lone.ask("tos", name="c") == FIRST
    assert two.client("rollback").returncode == 0
    assert lone.ask("tos", name="c") == 0


def test_queues_come_and_go_and_others_stay(scene: Scene) -> None:
    one = scene.one
    before = one.inside("tc", "qdisc", "show", "dev", "eth0")
    agent = one.start(scene.section(QUEUES))
    until(one.queued, one.log)
    until(lambda: one.client("verify").returncode == 0, one.log)
    filters = one.inside("tc", "filter", "show", "dev", "eth0", "parent", "c1c:")
    assert filters.count("flowid c1c:") == 10  # five levels, IPv4 and IPv6
    assert one.client("verify").returncode == 0
    assert one.client("rollback").returncode == 0
    assert one.inside("tc", "qdisc", "show", "dev", "eth0") == before
    assert one.client("unfair", "mltcp").returncode == 0
    until(one.queued, one.log)

    theirs = ("handle", "7:", "pfifo", "limit", "9")
    one.inside("tc", "qdisc", "replace", "dev", "eth0", "root", *theirs)
    found = one.json("verify")["differences"]
    assert [(each["id"], each["found"]) for each in found] == [("egress-queues:eth0", "pfifo")]
    until(lambda: "somebody else replaced its queues" in one.client("status").stdout, one.log)
    assert one.stop(agent) == 0
    assert "pfifo 7:" in one.inside("tc", "qdisc", "show", "dev", "eth0")
    one.inside("tc", "qdisc", "del", "dev", "eth0", "root")

    agent = one.start(scene.section(QUEUES))
    until(one.queued, one.log)
    one.stop(agent, signal.SIGKILL)
    assert "c1c:" in one.inside("tc", "qdisc", "show", "dev", "eth0")
    done = subprocess.run(
        [*one.enter, *HOSTCC, "rollback", "--socket", str(one.socket)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert one.inside("tc", "qdisc", "show", "dev", "eth0") == before
