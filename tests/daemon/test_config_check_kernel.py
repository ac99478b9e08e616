"""What `agent --dry-run` has nothing against, and a start then refuses, is told by `--check`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hostcc.coord.keys import files, identity
from hostcc.errors import Exit
from tests.coord.certified import Issuer, install, new_host
from tests.real import HOSTCC, RealHost, until

pytestmark = pytest.mark.kernel

OTHER = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.bind(("127.0.0.1", 7471))
    print("bound", flush=True)
    sys.stdin.read()
"""
"""Another program with the UDP port of the gossip."""
AWAY = "198.18.77.77"
"""An address of the benchmarking range that no host here has."""


def keyed(folder: Path) -> Path:
    """A directory of keys as `hostcc keys new` makes it."""
    files.write_host(folder / "keys", identity.HostKeys("node1", (identity.generate(1e9),)))
    return folder / "keys"


def readable(folder: Path) -> None:
    (keyed(folder) / "host.key").chmod(0o644)


def writable(folder: Path) -> None:
    keyed(folder).chmod(0o777)


def garbled(folder: Path) -> None:
    (keyed(folder) / "host.key").write_text("name = 'node1'\n")


def certified(folder: Path) -> None:
    host, issuer = new_host("node1"), Issuer()
    install(folder / "keys", host, issuer, issuer.sign(host))


def blocked(folder: Path) -> None:
    (folder / "taken").write_text("no socket, no directory")


@dataclass(frozen=True)
class Wrong:
    """A configuration; FOLDER in it is the test's own."""

    key: str
    """What is wrong with it."""
    text: str = ""
    agent: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[Path], object] = lambda _: None
    status: int | None = None
    """Of an agent that is started with it; None: it runs, and `part` says why it does not."""
    part: str = ""


GOSSIP = "[gossip]\nenabled = true\n"
WRONG = {
    "metrics-elsewhere": Wrong(
        "agent.metrics_listen", agent={"metrics_listen": f"{AWAY}:9464"}, status=Exit.FAILED
    ),
    "metrics-unknown": Wrong(
        "agent.metrics_listen", agent={"metrics_listen": "no.invalid:9464"}, status=Exit.FAILED
    ),
    "socket-nowhere": Wrong(
        "agent.socket", agent={"socket": "FOLDER/none/c.sock"}, status=Exit.CONFIGURATION
    ),
    "socket-taken": Wrong(
        "agent.socket",
        agent={"socket": "FOLDER/taken"},
        prepare=blocked,
        status=Exit.CONFIGURATION,
    ),
    "run-dir-below-a-file": Wrong(
        "agent.run_dir",
        agent={"run_dir": "FOLDER/taken/run"},
        prepare=blocked,
        status=Exit.CONFIGURATION,
    ),
    "no-cgroup2": Wrong(
        "agent.cgroup_root", agent={"cgroup_root": "FOLDER"}, status=Exit.CONFIGURATION
    ),
    "marks-nowhere": Wrong("marks.socket", '[marks]\nsocket = "FOLDER/none/m"\n', part="marks"),
    "marks-taken": Wrong(
        "marks.socket", '[marks]\nsocket = "FOLDER/taken"\n', prepare=blocked, part="marks"
    ),
    "gossip-elsewhere": Wrong(
        "gossip.listen", f'{GOSSIP}insecure = true\nlisten = "{AWAY}:7471"\n', part="gossip"
    ),
    "gossip-without-keys": Wrong(
        "gossip.listen", f'{GOSSIP}keys = "FOLDER/none"\nlisten = "0.0.0.0:7471"\n', part="gossip"
    ),
    "keys-readable": Wrong(
        "gossip.keys", f'{GOSSIP}keys = "FOLDER/keys"\n', prepare=readable, part="gossip"
    ),
    "keys-writable": Wrong(
        "gossip.keys", f'{GOSSIP}keys = "FOLDER/keys"\n', prepare=writable, part="gossip"
    ),
    "keys-garbled": Wrong(
        "gossip.keys", f'{GOSSIP}keys = "FOLDER/keys"\n', prepare=garbled, part="gossip"
    ),
    "keys-of-another": Wrong(
        "gossip.name",
        f'{GOSSIP}keys = "FOLDER/keys"\nname = "node2"\n',
        prepare=keyed,
        part="gossip",
    ),
    "telemetry-group": Wrong(
        "paths.socket_group",
        f'{GOSSIP}insecure = true\n[paths]\nenabled = true\nsource = "telemetry"\n'
        'socket = "FOLDER/t.sock"\nsocket_group = "hcc-nobody"\n',
        part="telemetry",
    ),
    "telemetry-taken": Wrong(
        "paths.socket",
        f'{GOSSIP}insecure = true\n[paths]\nenabled = true\nsource = "telemetry"\n'
        'socket = "FOLDER/taken"\n',
        prepare=blocked,
        part="telemetry",
    ),
    "paths-device": Wrong(
        "paths.devices",
        f"{GOSSIP}insecure = true\n"
        '[paths]\nenabled = true\ndevices = ["hcc-none"]\nsteer = false\n',
        part="paths",
    ),
    "egress-device": Wrong(
        "egress.devices",
        '[marking]\nenabled = true\n[egress]\nqueues = "prio"\ndevices = ["hcc-none"]\n',
        part="egress",
    ),
}


def agent(host: RealHost, path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*host.enter, *HOSTCC, "agent", "--config", str(path), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_what_a_start_refuses_is_told_before(host: RealHost, wrong: Wrong) -> None:
    wrong.prepare(host.folder)
    folder = str(host.folder)
    own: dict[str, Any] = {
        name: value.replace("FOLDER", folder) for name, value in wrong.agent.items()
    }
    text = wrong.text.replace("FOLDER", folder)
    path = host.configure(text, **own)
    assert agent(host, path, "--dry-run").returncode == Exit.OK
    before = sorted(host.folder.rglob("*"))
    told = agent(host, path, "--check")
    assert told.returncode == Exit.CONFIGURATION, told
    lines = told.stdout.splitlines()
    assert any(line.startswith(f"{path}: {wrong.key}: expected ") for line in lines)
    assert all(line.startswith(f"{path}: ") and ", got " in line for line in lines)
    assert told.stderr == ""
    assert sorted(host.folder.rglob("*")) == before
    if wrong.status is not None:
        refused = agent(host, path)
        assert refused.returncode == wrong.status, refused.stderr
        assert len(refused.stderr.splitlines()) == 1
        if wrong.status == Exit.CONFIGURATION:
            assert f"{path}: {wrong.key}: expected " in refused.stderr
        return
    host.start(text, **own)
    until(lambda: bool(reason(host, wrong.part)), f"why {wrong.part} does not run")


def reason(host: RealHost, part: str) -> str:
    status = host.json("status")
    rows = {row["name"]: row for row in status["parts"]}
    return str(rows[part]["reason"] or "")


def test_what_fits_is_said_to_also_beside_the_agent_that_has_it_all(host: RealHost) -> None:
    """Its own ports and sockets are in its way least of all."""
    keyed(host.folder)
    text = f'{GOSSIP}keys = "{host.folder}/keys"\nlisten = "127.0.0.1:7471"\n'
    path = host.configure(text, metrics_listen="127.0.0.1:9464")
    for _ in range(2):
        told = agent(host, path, "--check")
        assert (told.returncode, told.stdout) == (Exit.OK, f"{path}: fits this host\n")
        if not host.agents:
            host.start(text, metrics_listen="127.0.0.1:9464")
            until(lambda: host.json("status")["gossip"] is not None, "gossip")


def test_what_others_listen_on_is_taken(host: RealHost) -> None:
    host.talker("", 9464)
    path = host.configure(metrics_listen="127.0.0.1:9464")
    told = agent(host, path, "--check")
    assert told.returncode == Exit.CONFIGURATION
    assert "agent.metrics_listen: expected an address of this host that nobody" in told.stdout


def test_certificates_need_the_udp_port_as_well(host: RealHost) -> None:
    certified(host.folder)
    taken = subprocess.Popen(
        [*host.enter, sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert taken.stdout is not None
        assert taken.stdout.readline() == b"bound\n"
        text = f'{GOSSIP}keys = "{host.folder}/keys"\nlisten = "127.0.0.1:7471"\n'
        told = agent(host, host.configure(text), "--check")
        assert told.returncode == Exit.CONFIGURATION
        assert "gossip.listen: expected an address of this host that nobody" in told.stdout
        assert "127.0.0.1:7471 (UDP): Address already in use" in told.stdout
        host.start(text)
        until(lambda: "UDP" in reason(host, "gossip"), "why gossip does not run")
    finally:
        taken.communicate()


def test_the_cgroup_root_of_another_agent(host: RealHost) -> None:
    other = host.start()
    path = host.configure(run_dir=str(host.folder / "another"))
    told = agent(host, path, "--check")
    assert told.returncode == Exit.CONFIGURATION
    words = f"agent.cgroup_root: expected one that no other agent manages, got {host.root}"
    assert f"{path}: {words}, managed by process {other.pid}" in told.stdout
    refused = agent(host, path)
    assert refused.returncode == Exit.FAILED
    assert f"another agent (pid {other.pid}) manages cgroup_root" in refused.stderr


def test_ports_that_cannot_be_reserved(host: RealHost) -> None:
    """As in a container, whose /proc/sys is read-only."""
    text = f"{GOSSIP}insecure = true\n[paths]\nenabled = true\n"
    enter, read_only = host.enter, "mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro"
    script = f'{read_only} /proc/sys && exec "$@"'
    host.enter = (*enter, "unshare", "--mount", "sh", "-c", script, "sh")
    path = host.configure(text)
    told = agent(host, path, "--check")
    assert told.returncode == Exit.CONFIGURATION
    words = "paths.steer: expected false where net.ipv4.ip_local_reserved_ports cannot be written"
    assert f"{path}: {words}, got true without ports 61000-65535 in it" in told.stdout
    host.inside("sysctl", "-qw", "net.ipv4.ip_local_reserved_ports=61000-65535")
    assert agent(host, path, "--check").returncode == Exit.OK


def test_a_wrong_key_is_one_line_of_both(host: RealHost) -> None:
    """The status tells systemd that starting again does not help."""
    path = host.configure("[mltcp]\nslop = 1\n")
    refused, told = agent(host, path), agent(host, path, "--check")
    assert (refused.returncode, told.returncode) == (Exit.CONFIGURATION, Exit.CONFIGURATION)
    assert f"{path}: mltcp.slop: expected one of the keys" in refused.stderr
    assert told.stdout.startswith(f"{path}: mltcp.slop: expected one of the keys")
    several = host.configure("[paths]\nfirst_port = 5000\nlast_port = 4000\n[mltcp]\nslope = -1\n")
    lines = agent(host, several, "--check").stdout.splitlines()
    assert len(lines) == 2
    shown = json.loads(agent(host, several, "--check", "--json").stdout)
    assert shown == {"schema": "hostcc.check/1", "problems": lines, "ignored": []}
