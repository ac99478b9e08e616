"""Agents in namespaces with a wire between them, seen through their command lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostcc.client import ask
from hostcc.lab import netns
from tests.daemon.profiling.wired import QUIET
from tests.real import RealHost, until

pytestmark = pytest.mark.kernel

PORT = 7471
ADDRESSES = ("198.18.11.1", "198.18.11.2")


@contextmanager
def wired_hosts(tmp_path: Path, cgroup2: Path) -> Iterator[list[RealHost]]:
    """Two, with a wire between them."""
    made: list[RealHost] = []
    try:
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            made.append(RealHost(folder, cgroup2))
        ends = [host.name for host in made]
        netns.batch("ip", [f"link add eth0 type veth peer name eth0 netns {ends[1]}"], ends[0])
        for name, address in zip(ends, ADDRESSES, strict=True):
            netns.batch("ip", [f"addr add {address}/24 dev eth0", "link set eth0 up"], name)
        yield made
    finally:
        for host in made:
            host.close()


@pytest.fixture
def hosts(tmp_path: Path, cgroup2: Path) -> Iterator[list[RealHost]]:
    with wired_hosts(tmp_path, cgroup2) as made:
        yield made


def section(*seeds: str) -> str:
    """Without keys; `seeds` as in the configuration."""
    shown = ", ".join(f'"{seed}"' for seed in seeds)
    return f"{QUIET}[gossip]\nenabled = true\nkeys = ''\ninsecure = true\nseeds = [{shown}]\n"


def states(host: RealHost) -> dict[str, str]:
    """Of the others; empty before this host takes part."""
    return {one["name"]: one["state"] for one in host.json("peers").get("peers", ())}


def gossip(host: RealHost) -> dict[str, Any]:
    return host.json("status")["gossip"] or {}


def test_two_hosts_see_each_other_and_agree(hosts: list[RealHost]) -> None:
    one, two = hosts
    one.start(section(f"{two.name}@{ADDRESSES[1]}:{PORT}"))
    leaving = two.start(
        section(f"{one.name}@{ADDRESSES[0]}:{PORT}", f"{two.name}@{ADDRESSES[1]}:{PORT}"),
        observe_only=True,
    )
    until(lambda: states(one) == {two.name: "alive"}, one.log)
    until(lambda: states(two) == {one.name: "alive"}, two.log)

    def agree() -> bool:
        mine, theirs = gossip(one), gossip(two)
        return bool(mine["agreed"] and theirs["agreed"]) and (
            mine["active"] == theirs["active"] != ""
        )

    until(agree, one.log)
    peer: dict[str, Any] = {}

    def heard() -> bool:
        (found,) = one.json("peers")["peers"]
        peer.update(found)
        return found["rtt_s"] is not None and found["heard_s"] < 30

    until(heard, one.log)
    assert peer["address"] == f"{ADDRESSES[1]}:{PORT}"
    assert (peer["version"], peer["shut_out"]) == (one.json("status")["agent"]["version"], False)
    until(lambda: f"{two.name}  alive" in one.client("peers").stdout, one.log)

    def shown() -> bool:
        """The view may be another one a moment later."""
        text = one.client("status").stdout
        follows = f"gossip as {one.name}: 1 alive; follows view {gossip(one)['active'][:12]}"
        return (
            follows in text and "gossip is INSECURE: no keys, whoever reaches 0.0.0.0:7471" in text
        )

    until(shown, one.log)
    assert two.stop(leaving) == 0
    until(lambda: states(one).get(two.name) in ("suspect", "dead"), one.log)


def test_a_comparison_switches_both_hosts_without_any_paths(hosts: list[RealHost]) -> None:
    one, two = hosts
    for host, at, peer in ((one, 1, two), (two, 0, one)):
        host.start(section(f"{peer.name}@{ADDRESSES[at]}:{PORT}"))
    talker = two.talker("train", 7101)

    def ours() -> bool:
        return all(name.startswith("hcc_") for name in talker.controls())

    until(lambda: states(one) == {two.name: "alive"}, one.log)
    until(ours, two.log)

    def lent() -> bool:
        """As `hostcc compare` does, it asks again before the loan ends."""
        told = int(ask(one.socket, "borrow", 30.0, mode="off")["hosts_told"])
        return told == 1 and not ours()

    until(lent, two.log)
    ask(one.socket, "borrow", 30.0)
    until(ours, two.log)


def test_without_keys_others_are_not_let_in(hosts: list[RealHost]) -> None:
    one, _ = hosts
    one.start(f"{QUIET}[gossip]\nenabled = true\nkeys = ''\n")
    until(lambda: gossip(one) != {}, one.log)
    assert gossip(one)["listen"] == f"127.0.0.1:{PORT}"
    assert "198.18.11.1" not in one.inside("ss", "-ltnH")
    assert f"127.0.0.1:{PORT}" in one.inside("ss", "-ltnH")


def test_without_the_section_nothing_listens(hosts: list[RealHost]) -> None:
    one, _ = hosts
    one.start(QUIET)
    assert one.inside("ss", "-ltnH") == ""
    done = one.client("peers")
    assert (done.returncode, done.stderr.strip()) == (
        1,
        "hostcc peers: no gossip: gossip.enabled is false",
    )
