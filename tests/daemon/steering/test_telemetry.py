"""An agent takes records of telemetry at its socket, from those who may send them."""

from __future__ import annotations

import grp
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.steering.agents_stage import AgentsStage
from tests.daemon.steering.test_agents import HOW, OVER, part, wait

pytestmark = pytest.mark.kernel

STRANGER = 65_534
GROUP = next(one for one in grp.getgrall() if one.gr_gid not in {0, STRANGER})
FLOOD = """\
import socket, sys
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
while True:
    sock.sendto(b"x\\n" * 30000, sys.argv[1])
"""
SEND = """\
import socket, sys
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
try:
    sock.sendto(sys.argv[2].encode(), sys.argv[1])
except PermissionError:
    sys.exit(9)
"""


@pytest.fixture
def stage() -> Iterator[AgentsStage]:
    with AgentsStage() as made:
        made.folder.chmod(0o755)
        yield made


def over(path: Path, group: str = "") -> str:
    keys = f'source = "telemetry"\nsocket = "{path}"\nsocket_group = "{group}"\n'
    return OVER.replace("[paths]\n", f"[paths]\n{keys}", 1)


def records(stage: AgentsStage, port: int) -> str:
    """That a flow from h1 to h3 takes the first spine, and by another port the second."""
    fields = {
        "src": stage.address("h1"), "dst": stage.address("h3"), "protocol": "tcp",
        "dst_port": 5301, "at": time.time(),
    }  # fmt: skip
    ways = ((port, "spine1"), (61_000, "spine2"))
    return "\n".join(
        json.dumps({**fields, "src_port": one, "hops": ["leaf1", spine, "leaf2"]})
        for one, spine in ways
    )


def send(path: Path, text: str, group: int) -> int:
    """As somebody who is not root."""
    done = subprocess.run(
        [sys.executable, "-c", SEND, str(path), text],
        user=STRANGER, group=group, extra_groups=[], cwd="/", timeout=60, check=False,
    )  # fmt: skip
    return done.returncode


def destinations(stage: AgentsStage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (stage.status("h1").get("routing") or {}).get("destinations", [])
    return found


def said(stage: AgentsStage, what: str) -> list[Any]:
    """Of the destination, if there is one now."""
    return [one[what] for one in destinations(stage)[:1]]


def test_paths_come_from_records_at_the_socket(stage: AgentsStage) -> None:
    path = stage.folder / "h1" / "int.sock"
    stage.start("h1", over=over(path))
    stage.start("h3", over=OVER)
    stream = stage.stream("a", "h1", "h3", 5301, **HOW)
    wait(stage, lambda: said(stage, "reason") == ["the source knows nothing of it"])
    text = records(stage, stream.sport)
    assert send(path, text, STRANGER) == 9
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(text.encode(), str(path))
    wait(stage, lambda: said(stage, "paths") == [2])
    assert part(stage, "h1", "telemetry")["records"] == 2
    assert stage.client("h1", "verify").returncode == 0
    path.chmod(0o666)
    assert "mode 0666" in stage.client("h1", "verify").stdout
    assert stream.finish() > 0
    assert stage.end("h1") == 0
    assert not path.exists()


def test_a_group_may_send_and_a_flood_of_it_stops_nothing(stage: AgentsStage) -> None:
    path = stage.folder / "h1" / "int.sock"
    stage.start("h1", over=over(path, GROUP.gr_name))
    assert send(path, "no record", STRANGER) == 9
    assert send(path, "no record", GROUP.gr_gid) == 0
    flood = subprocess.Popen(
        [sys.executable, "-c", FLOOD, str(path)],
        user=STRANGER, group=GROUP.gr_gid, extra_groups=[], cwd="/",
    )  # fmt: skip
    try:
        before = part(stage, "h1", "telemetry")["refused"]
        wait(stage, lambda: part(stage, "h1", "telemetry")["refused"] > before + 100_000)
        assert stage.client("h1", "verify").returncode == 0
        assert memory(stage.agents["h1"].pid) < 1 << 30
    finally:
        flood.kill()
        flood.wait()
    assert stage.end("h1") == 0


def memory(process: int) -> int:
    """Bytes of it that are in memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
