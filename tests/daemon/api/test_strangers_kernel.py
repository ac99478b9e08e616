"""Users without rights against a running agent: none holds up its heartbeat, or keeps root out."""

from __future__ import annotations

import grp
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.patience import until
from tests.real import RealHost

pytestmark = pytest.mark.kernel

STRANGER = Path(__file__).with_name("stranger.py")
NOBODY = 65534
GROUP = grp.getgrgid(NOBODY).gr_name
HEARTBEAT_S = 1.0
HELD_UP_S = 5.0
"""Who waits for a stranger's descriptor waits for 20 s or for ever (stranger.py); a processor that
others have is given back before."""
MESSAGES = 100
OWN_DESCRIPTORS = 40
"""That parts of the agent may open meanwhile, which begin one after the other."""


@pytest.fixture
def host(cgroup2: Path) -> Iterator[RealHost]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        made = RealHost(Path(folder), cgroup2)
        yield made
        made.close()
        assert made.ours() == set()


@contextmanager
def strangers(deed: str, path: Path, count: int, users: int = 1) -> Iterator[int]:
    """So many processes of another user at it; how often it went through, of the first ones."""
    script = path.parent.parent / "stranger.py"
    script.write_text(STRANGER.read_text())
    python = Path(sys.executable).resolve()
    with ExitStack() as stack:
        children = [
            stack.enter_context(
                subprocess.Popen(
                    [python, str(script), deed, str(path), str(count)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
                    user=NOBODY, group=NOBODY, extra_groups=[NOBODY],
                )
            )
            for _ in range(users)
        ]  # fmt: skip
        try:
            yield sum(int(child.stdout.readline()) for child in children if child.stdout)
        finally:
            for child in children:
                child.kill()


def longest_s(host: RealHost) -> float:
    return float(host.json("status")["agent"]["loop"]["longest_stall_s"])


@pytest.mark.parametrize("deed", ["linger", "fuse", "pipes"])
@pytest.mark.parametrize("name", ["control.sock", "marks.sock"])
def test_descriptors_of_strangers_hold_nothing_up(host: RealHost, name: str, deed: str) -> None:
    agent = host.start(socket_group=GROUP, heartbeat_s=HEARTBEAT_S, heartbeat_stale_s=30.0)
    host.socket.parent.chmod(0o755)
    path = host.socket.with_name(name)
    before = len(list(Path(f"/proc/{agent.pid}/fd").iterdir()))
    with strangers(deed, path, MESSAGES) as went:
        began = time.monotonic()
        until(lambda: time.monotonic() - began > 3 * HEARTBEAT_S, "three heartbeats")
        assert longest_s(host) < HELD_UP_S
    if name == "marks.sock":
        assert went > 0
    until(
        lambda: len(list(Path(f"/proc/{agent.pid}/fd").iterdir())) <= before + OWN_DESCRIPTORS,
        "descriptors closed",
    )  # fmt: skip
    assert host.stop(agent) == 0


def test_a_crowd_of_readers_does_not_keep_root_out(host: RealHost) -> None:
    agent = host.start(socket_group=GROUP, heartbeat_s=HEARTBEAT_S, heartbeat_stale_s=30.0)
    host.socket.parent.chmod(0o755)
    with (
        strangers("ask", host.socket, 16, users=3),
        strangers("connect", host.socket, 2000, users=2),
    ):
        done = [host.client("status", "--json").returncode for _ in range(20)]
        assert done == [0] * 20
        assert longest_s(host) < HELD_UP_S
    assert host.stop(agent) == 0


@pytest.mark.parametrize("descriptors", [256, 1024])
def test_idle_connections_leave_enough_descriptors(host: RealHost, descriptors: int) -> None:
    host.enter = ("prlimit", f"--nofile={descriptors}", *host.enter)
    agent = host.start(socket_group=GROUP, heartbeat_s=HEARTBEAT_S, heartbeat_stale_s=30.0)
    host.socket.parent.chmod(0o755)
    with strangers("idle", host.socket, 960, users=5):
        assert host.json("verify")["differences"] == []
        assert host.client("unfair", "off").returncode == 0
        assert host.client("unfair", "mltcp").returncode == 0
        assert longest_s(host) < HELD_UP_S
    assert host.stop(agent) == 0
