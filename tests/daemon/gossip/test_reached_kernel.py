"""Agents that do not reach each other say why: real agents with keys, a wire between them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostcc.coord.keys import files
from tests.coord.members import make_keys
from tests.daemon.gossip.test_gossip_kernel import ADDRESSES, PORT, gossip, wired_hosts
from tests.daemon.gossip.test_rolling_kernel import FETCH, PATIENCE_S
from tests.daemon.profiling.wired import QUIET
from tests.real import HOSTCC, RealHost, until

pytestmark = pytest.mark.kernel


@pytest.fixture
def hosts(tmp_path: Path, cgroup2: Path) -> Iterator[list[RealHost]]:
    with wired_hosts(tmp_path, cgroup2) as made:
        make_keys(tmp_path / "keys", ("one", "two"))
        yield made


def start(host: RealHost, name: str, other: str, at: str) -> None:
    folder = host.folder.parent / "keys" / name
    host.start(
        f"{QUIET}[gossip]\nenabled = true\nkeys = '{folder}'\nseeds = ['{other}@{at}:{PORT}']\n",
        observe_only=True,
        metrics_listen="127.0.0.1:9471",
    )


def troubles(host: RealHost) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = gossip(host).get("troubles", [])
    return found


def members(host: RealHost) -> dict[str, int]:
    """How many there are of each state; empty before this host takes part."""
    found: dict[str, int] = gossip(host).get("members", {})
    return found


def said_everywhere(host: RealHost, reason: str, who: str, text: str) -> None:
    """By every command that an operator may look at, and by the metric."""
    found: dict[str, Any] = {}

    def said() -> bool:
        """What an attempt met may be another error for a moment, where the machine is slow."""
        told = troubles(host)
        found.update(told[0] if told else {})
        return [one["reason"] for one in told] == [reason] and text in found["text"]

    until(said, lambda: f"{text}: {found}\n{host.log()}", PATIENCE_S)
    assert found["who"] == who
    for command in ("status", "peers"):
        assert f"{who}: {found['text']}" in host.client(command).stdout
    (doctor,) = [row for row in host.json("doctor")["findings"] if row["name"] == who]
    assert (doctor["state"], doctor["detail"]) == ("missing", found["text"])
    page = host.inside(sys.executable, "-c", FETCH)
    assert f'hostcc_gossip_troubles{{reason="{reason}"}} 1.0' in page
    assert 'hostcc_gossip_members{state="alive"} 0.0' in page


def more_tries(host: RealHost) -> None:
    """It goes on trying for a while."""

    def tries() -> int:
        counters = gossip(host)["counters"]
        return sum(count for key, count in counters.items() if not key.startswith("bytes"))

    before = tries()
    until(lambda: tries() > before + 5, host.log, PATIENCE_S)


def test_a_seed_that_does_not_run(hosts: list[RealHost]) -> None:
    one, _ = hosts
    start(one, "one", "two", ADDRESSES[1])
    who = f"seed two@{ADDRESSES[1]}:{PORT}"
    said_everywhere(one, "unreachable", who, "no answer (connection refused)")
    assert "nobody else; follows view" in one.client("status").stdout
    assert ", agreed with nobody" in one.client("status").stdout
    assert gossip(one)["seeds"] == {"reached": 0, "missing": 1}
    more_tries(one)
    assert one.log().count(who) == 1


def test_a_key_that_only_one_side_allows(hosts: list[RealHost]) -> None:
    one, two = hosts
    top = one.folder.parent / "keys"
    files.revoke(top / "two", "one")
    start(one, "one", "two", ADDRESSES[1])
    start(two, "two", "one", ADDRESSES[0])
    until(lambda: gossip(one) != {}, one.log)
    done = subprocess.run(
        [*HOSTCC, "keys", "list", "--json", "--dir", str(top / "one")],
        capture_output=True, check=True,
    )  # fmt: skip
    listed = json.loads(done.stdout)["keys"]
    key = next(row["fingerprint"] for row in listed if row["member"] == "one")
    assert gossip(one)["key"] == key
    who = f"seed two@{ADDRESSES[1]}:{PORT}"
    said_everywhere(
        one, "not_accepted", who, f"does not accept this host's key {key}: run `hostcc keys allow`"
    )
    refused = [
        f"{ADDRESSES[0]}: its key {key} is not on this host's allow-list",
        f"seed one@{ADDRESSES[0]}:{PORT}: its key is not on this host's allow-list",
    ]

    def both_said() -> bool:
        """Whoever was refused is shown for a while."""
        shown, found = two.client("peers").stdout, troubles(two)
        reasons = sorted(one_of["reason"] for one_of in found)
        return reasons == ["not_allowed", "refused"] and all(words in shown for words in refused)

    until(both_said, two.log, PATIENCE_S)
    more_tries(one)
    more_tries(two)
    assert one.log().count(who) == 1
    assert two.log().count(f"key {key}") == 1
    # What the text says to do helps, without a restart.
    files.allow(top / "two", files.read_secret(top / "one").member)
    until(lambda: all(members(h) == {"alive": 1} for h in hosts), one.log, PATIENCE_S)
    until(lambda: not any(map(troubles, hosts)), one.log, PATIENCE_S)
    nobody = ", agreed with nobody"
    until(lambda: nobody not in one.client("status").stdout, one.log, PATIENCE_S)


def test_a_member_that_dies_and_comes_back(hosts: list[RealHost]) -> None:
    one, two = hosts
    start(one, "one", "two", ADDRESSES[1])
    start(two, "two", "one", ADDRESSES[0])
    until(lambda: members(one) == {"alive": 1}, one.log, PATIENCE_S)
    two.agents[0].kill()
    two.agents[0].wait()
    until(lambda: members(one) == {"dead": 1}, one.log, PATIENCE_S)
    until(lambda: one.log().count("dead: it has not answered for too long") == 1, one.log)
    start(two, "two", "one", ADDRESSES[0])
    until(lambda: members(one) == {"alive": 1}, one.log, PATIENCE_S)
    until(lambda: one.log().count("alive again") == 1, one.log)
    assert one.log().count("dead: it has not answered for too long") == 1
