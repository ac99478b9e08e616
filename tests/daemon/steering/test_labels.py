"""Agents move IPv6 flows by flow label, where switches hash that and no ports."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from hostcc.lab.leafspine_plan import LeafSpineSpec
from hostcc.lab.topology import Ipv6Hash
from tests.daemon.steering.agents_stage import AgentsStage
from tests.daemon.steering.test_agents import HOW, OVER, dump, part, shares, wait

pytestmark = pytest.mark.kernel

SPEC = LeafSpineSpec(leaves=2, spines=2, hosts_per_leaf=2, ipv6_hash=Ipv6Hash.LABEL)
BY_LABEL = OVER.replace("[paths]\n", '[paths]\nipv6 = "label"\n', 1)
FIRST = 61_000


@pytest.fixture
def stage() -> Iterator[AgentsStage]:
    with AgentsStage(BY_LABEL, v6=True, spec=SPEC) as made:
        yield made


def rows(stage: AgentsStage, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(stage.client(name, "flows", "--json").stdout)["flows"]
    return found


def labelled(stage: AgentsStage, name: str) -> bool:
    return any(
        (x["flow_label"] or 0) >= FIRST and x["path_is"] == "wanted" for x in rows(stage, name)
    )


def test_flows_get_labels_of_different_spines(stage: AgentsStage) -> None:
    before = {name: dump(stage, name) for name in stage.names}
    stage.start()
    one = stage.stream("a", "h1", "h3", 5301, **HOW)
    two = stage.stream("b", "h2", "h4", 5302, **HOW)
    wait(stage, lambda: labelled(stage, "h1") and labelled(stage, "h2"))
    wait(stage, lambda: shares(stage)[0] > 0.25)
    assert part(stage, "h3", "steering")["translated"] == 0  # receivers have nothing to do
    (row,) = rows(stage, "h1")
    assert row["wire_port"] == one.sport
    stage.end("h2", signal.SIGKILL)
    stage.start("h2")
    wait(stage, lambda: labelled(stage, "h2"))
    assert min(one.finish(), two.finish()) > 0
    for name in list(stage.agents):
        assert stage.end(name) == 0
    for name, text in before.items():
        assert dump(stage, name) == text
