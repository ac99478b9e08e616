"""Hosts that are not all of one version, or one configuration: real agents, a wire between them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.gossip.test_gossip_kernel import (
    ADDRESSES,
    PORT,
    gossip,
    section,
    states,
    wired_hosts,
)
from tests.real import RealHost, until

pytestmark = pytest.mark.kernel
PATIENCE_S = 120.0
FETCH = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9471/').read().decode())"


@pytest.fixture
def hosts(tmp_path: Path, cgroup2: Path) -> Iterator[list[RealHost]]:
    with wired_hosts(tmp_path, cgroup2) as made:
        yield made


def as_version(host: RealHost, version: str) -> None:
    """Have its agents be of another version of the package: all code is the same."""
    info = host.folder / "installed" / f"hostcc-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hostcc\nVersion: {version}\n")
    paths = f"{info.parent}:{os.environ.get('PYTHONPATH', '')}"
    host.enter = (*host.enter, "env", f"PYTHONPATH={paths}")


def start(host: RealHost, other: RealHost, at: str, plan: str = "", **agent: Any) -> None:
    host.start(f"{section(f'{other.name}@{at}:{PORT}')}{plan}", observe_only=True, **agent)


def known(one: RealHost, two: RealHost) -> None:
    until(lambda: states(one) == {two.name: "alive"}, one.log, PATIENCE_S)
    until(lambda: states(two) == {one.name: "alive"}, two.log, PATIENCE_S)


def versions(host: RealHost) -> list[str]:
    """Of the others, by what they have told of themselves."""
    return [one["version"] for one in host.json("peers").get("peers", ())]


def test_two_versions_of_one_scheduler_agree(hosts: list[RealHost]) -> None:
    one, two = hosts
    as_version(one, "0.1.0")
    as_version(two, "0.1.1")
    start(one, two, ADDRESSES[1])
    start(two, one, ADDRESSES[0])
    known(one, two)
    until(lambda: versions(one) == ["0.1.1"], one.log, PATIENCE_S)
    until(lambda: versions(two) == ["0.1.0"], two.log, PATIENCE_S)
    until(
        lambda: (
            gossip(one)["active"] == gossip(two)["active"] != ""
            and gossip(one)["agreed"]
            and gossip(two)["agreed"]
        ),
        lambda: json.dumps([gossip(one), gossip(two)]),
        PATIENCE_S,
    )
    assert gossip(one)["disagreements"] == gossip(two)["disagreements"] == []


def test_an_option_that_differs_is_named(hosts: list[RealHost]) -> None:
    one, two = hosts
    start(one, two, ADDRESSES[1], "[plan]\nlevels = 9\n", metrics_listen="127.0.0.1:9471")
    start(two, one, ADDRESSES[0])
    known(one, two)
    expected = {
        "option": "plan.levels",
        "here": "9",
        "there": [{"value": "8 (the default)", "members": [two.name], "count": 1}],
    }
    until(lambda: one.json("peers").get("disagreements") == [expected], one.log, PATIENCE_S)
    until(lambda: bool(gossip(two)["disagreements"]), two.log, PATIENCE_S)
    assert one.json("plan")["state"]["disagreements"] == [expected]
    line = f"plan.levels differs: 9 here, 8 (the default) on {two.name}"
    for command in ("status", "peers", "plan"):
        assert line in one.client(command).stdout, command
    assert (
        f"plan.levels differs: 8 (the default) here, 9 on {one.name}" in two.client("peers").stdout
    )
    page = one.inside(sys.executable, "-c", FETCH)
    assert 'hostcc_gossip_members_unlike{option="plan.levels"} 1.0' in page
    rounds = one.json("status")["gossip"]["counters"]["sent"]
    until(lambda: gossip(one)["counters"]["sent"] > rounds + 20, one.log, PATIENCE_S)
    assert one.log().count("plans differ") == 1
