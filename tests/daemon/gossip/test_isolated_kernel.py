"""Nothing that ends the gossip's process, and no peer, ends the agent: real agents with keys."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.coord.members import make_keys
from tests.daemon.gossip.test_gossip_kernel import ADDRESSES, PORT, gossip, wired_hosts
from tests.daemon.gossip.test_rolling_kernel import FETCH, PATIENCE_S
from tests.daemon.profiling.wired import QUIET
from tests.real import RealHost, until

pytestmark = pytest.mark.kernel


@pytest.fixture
def hosts(tmp_path: Path, cgroup2: Path) -> Iterator[list[RealHost]]:
    with wired_hosts(tmp_path, cgroup2) as made:
        make_keys(tmp_path / "keys", ("one", "two"))
        for host, name, other, at in zip(
            made, ("one", "two"), ("two", "one"), reversed(ADDRESSES), strict=True
        ):
            keys = tmp_path / "keys" / name
            host.start(
                f"{QUIET}[gossip]\nenabled = true\nkeys = '{keys}'\n"
                f"seeds = ['{other}@{at}:{PORT}']\n",
                metrics_listen="127.0.0.1:9471",
            )
        for host in made:
            until(lambda host=host: together(host), host.log, PATIENCE_S)  # type: ignore[misc]
        yield made


def together(host: RealHost) -> bool:
    found = gossip(host)
    return bool(found) and found["members"] == {"alive": 1} and found["agreed"]


def process(host: RealHost) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def there() -> bool:
        found.update(gossip(host).get("process") or {})
        return bool(found)

    until(there, host.log)
    return found


def managed(host: RealHost) -> bool:
    """The agent is the one that was started, and has its programs in the kernel."""
    (agent,) = host.agents
    return agent.poll() is None and host.answers(agent.pid) and bool(host.ours())


def test_the_process_is_ended_and_the_agent_is_not(hosts: list[RealHost]) -> None:
    one, two = hosts
    talker = one.talker("job", 5001)
    until(lambda: talker.controls()[0] in one.ours(), one.log)
    for restarts, number in enumerate((signal.SIGABRT, signal.SIGKILL, signal.SIGSTOP), 1):
        os.kill(process(one)["pid"], number)
        until(lambda n=restarts: process(one)["restarts"] == n, one.log, PATIENCE_S)  # type: ignore[misc]
        assert managed(one)
        assert talker.controls()[0] in one.ours()
        assert talker.ask("send 100000") == "sent"
        until(lambda: together(one) and together(two), one.log, PATIENCE_S)
    assert process(one)["reason"] == "said nothing for 10 s"
    said = "its process was started again 3 times; the last one said nothing for 10 s"
    assert said in one.client("status").stdout
    assert said in one.client("peers").stdout
    (row,) = [row for row in one.json("doctor")["findings"] if row["name"] == "gossip process"]
    assert "said nothing for 10 s" in row["detail"]
    page = one.inside(sys.executable, "-c", FETCH)
    assert "hostcc_gossip_process_restarts_total 3.0" in page
    assert "hostcc_gossip_process_up 1.0" in page
    assert "was ended by SIGABRT" in one.log()
    child = process(one)["pid"]
    one.stop(one.agents[0], signal.SIGKILL)
    until(lambda: not Path(f"/proc/{child}").exists(), "the process to end with the agent")


def test_no_pause_and_no_peer_ends_the_agent(hosts: list[RealHost]) -> None:
    """The same as `hostcc bench gossip-abuse`, in small."""
    one, two = hosts
    rng = random.Random(1)
    top = one.folder.parent / "keys"

    def abused(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.gossip_abusers", f"{ADDRESSES[0]}:{PORT}"]
        return subprocess.Popen([*two.enter, *command, *words])

    with (
        abused("connections", "300") as connections,
        abused("floods", "60", "--keys", str(top / "two"), "--server", "one") as floods,
    ):
        for _ in range(12):  # while they go on
            agent, carrier = one.agents[0].pid, process(one)["pid"]
            pids = [agent, *([carrier] if carrier is not None else [])]
            signalled(pids, signal.SIGSTOP)
            time.sleep(rng.uniform(0.3, 3.0))
            signalled(pids, signal.SIGCONT)
            assert managed(one)
        assert (connections.wait(), floods.wait()) == (0, 0)
    assert managed(one)
    until(lambda: gossip(one)["counters"]["refused"] > 100, one.log, PATIENCE_S)
    # Who flooded with keys of `two` had it shut out, for a minute.
    until(lambda: together(one) and together(two), one.log, 2 * PATIENCE_S + 60)
    assert managed(one)


def signalled(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # what carried gossip has been replaced
            continue
