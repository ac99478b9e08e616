"""docs/quickstart.md as it is written: two hosts, from `cluster init` to `rollback`.

The hosts are network namespaces with a wire between them. Each has its own /etc and /run in a mount
namespace. `ssh` and `systemctl` are stand-ins: one enters the other host, the other starts the
agent, which runs before the page begins: the package starts it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.gossip.test_gossip_kernel import ADDRESSES, wired_hosts
from tests.docs_blocks import TOP, Block, blocks, quoted
from tests.patience import until
from tests.real import RealHost

pytestmark = pytest.mark.kernel

PAGE = TOP / "docs/quickstart.md"
NODES = ("node1", "node2")
WRITTEN = ("192.0.2.1", "192.0.2.2")
"""Addresses in the page."""
PATIENCE_S = 120.0


class Node:
    """One of the two hosts: a process that holds its mount namespace."""

    def __init__(self, name: str, host: RealHost, folder: Path) -> None:
        self.name, self.host, self.folder = name, host, folder
        for part in ("etc", "run"):
            (folder / part).mkdir(parents=True)
        shutil.copytree("/etc", folder / "etc", symlinks=True, dirs_exist_ok=True, ignore=_other)
        own = folder / "etc/hostcc/hostcc.d/99-test.toml"
        own.parent.mkdir(parents=True)
        shutil.copy(TOP / "packaging/hostcc.toml", folder / "etc/hostcc/hostcc.toml")
        own.write_text(
            f'[agent]\ninstance = "{host.name}"\ncgroup_root = "{host.root}"\n'
            'network_namespaces = "own"\n'
        )
        mounts = " && ".join(
            f"mount --bind {quoted(folder / part)} /{part}" for part in ("etc", "run")
        )
        self.holder = subprocess.Popen(
            [*host.enter, "unshare", "-m", "sh", "-c", f"{mounts} && echo up && exec sleep 100000"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "up\n"

    @property
    def enter(self) -> list[str]:
        return ["nsenter", "-t", str(self.holder.pid), "--net", "--mount"]

    def log(self) -> str:
        return (self.folder / "agent.log").read_text()

    def close(self) -> None:
        for path in self.folder.glob("agent.pid"):
            pid = int(path.read_text())
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), self.log, PATIENCE_S)  # type: ignore[misc]
        self.holder.kill()
        self.holder.wait()
        assert self.holder.stdout is not None
        self.holder.stdout.close()


def _other(_folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name == "hostcc"}


@pytest.fixture
def nodes(tmp_path: Path, cgroup2: Path) -> Iterator[dict[str, Node]]:
    with wired_hosts(tmp_path, cgroup2) as hosts, contextlib.ExitStack() as stack:
        made = {}
        for name, host in zip(NODES, hosts, strict=True):
            made[name] = Node(name, host, tmp_path / name)
            stack.callback(made[name].close)
        yield made


def stand_ins(folder: Path, nodes: dict[str, Node]) -> dict[str, str]:
    """An environment with hostcc, sleep, ssh and systemctl."""
    folder.mkdir()
    cases = "\n".join(
        f'root@{at}) exec {" ".join(nodes[name].enter)} sh -c "$2" ;;'
        for name, at in zip(NODES, ADDRESSES, strict=True)
    )
    scripts = {
        "hostcc": f'exec {sys.executable} -m hostcc "$@"',
        # A job that goes on until the block has ended that begins it, and the time that it has to
        # begin: as much as it needs.
        "sleep": """case "$1" in
10) while grep -qs "^State:.[RSDT]" "/proc/$PPID/status"; do /bin/sleep 0.2; done ;;
2) until hostcc jobs | grep -q first; do /bin/sleep 0.2; done ;;
*) exec /bin/sleep "$@" ;;
esac""",
        "ssh": f'case "$1" in\n{cases}\n*) exit 255 ;;\nesac',
        # `restart hostcc`: returns once the agent answers, as a unit of Type=notify does.
        "systemctl": f"""test "$*" = "restart hostcc" || exit 1
cd "$NODE_FOLDER"
if test -s agent.pid; then
  kill "$(cat agent.pid)"
  while kill -0 "$(cat agent.pid)" 2>/dev/null; do sleep 0.2; done
fi
{sys.executable} -m hostcc agent --config /etc/hostcc/hostcc.toml </dev/null >agent.log 2>&1 &
echo $! >agent.pid
while kill -0 "$(cat agent.pid)"; do
  test -S /run/hostcc/control.sock && hostcc status >/dev/null 2>&1 && exit 0
  sleep 0.2
done
exit 1""",
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(TOP)}


def run(text: str, env: dict[str, str], node: Node) -> str:
    """Run a block on a node and return what it prints; it must succeed."""
    script = f"set -eu\n{text}"
    done = subprocess.run(
        [*node.enter, "sh", "-c", script],
        env={**env, "NODE_FOLDER": str(node.folder)},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{node.name}: {text}\n{done.stdout}"
    return done.stdout


def states(env: dict[str, str], node: Node) -> list[str]:
    """Of the others; empty before the node takes part."""
    answer = json.loads(run("hostcc peers --json 2>/dev/null || true", env, node))
    return [one["state"] for one in answer.get("peers", ())]


def places(block: Block) -> tuple[str, ...]:
    return {"both": NODES, "admin": ("node1",)}.get(block.where, (block.where,))


def test_the_quick_start_as_it_is_written(nodes: dict[str, Node], tmp_path: Path) -> None:
    env = stand_ins(tmp_path / "bin", nodes)
    for node in nodes.values():
        run("systemctl restart hostcc", env, node)  # as the package has done
    cluster = tmp_path / "cluster"
    said: dict[str, str] = {}
    copies = ""
    for block in blocks(PAGE):
        text = block.text.replace("/root/cluster", str(cluster))
        for written, at in zip(WRITTEN, ADDRESSES, strict=True):
            text = text.replace(written, at)
        for name in places(block):
            if "hostcc peers" in text:  # "after some seconds"
                until(
                    lambda: states(env, nodes["node1"]) == ["alive"], nodes["node1"].log, PATIENCE_S
                )
            said[text] = run(text, env, nodes[name])
        if "cluster init" in text:
            copies = said[text]
    # The page has the very commands that `cluster init` prints.
    lines = [line for line in copies.splitlines() if line.startswith("tar ")]
    assert len(lines) == len(NODES)
    assert all(any(line in text for text in said) for line in lines)
    (peers,) = [shown for text, shown in said.items() if "hostcc peers" in text]
    assert "node2" in peers
    assert "alive" in peers
    (jobs,) = [shown for text, shown in said.items() if "hostcc jobs" in text]
    assert "first" in jobs
    until(lambda: states(env, nodes["node2"]) == ["alive"], nodes["node2"].log, PATIENCE_S)
    changes = json.loads(run("hostcc changes --json", env, nodes["node1"]))
    assert changes["in_force"] == []
