"""Who hears nothing of whom when the gossip is cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hostcc.lab import netns
from hostcc.lab.leafspine_lab import LeafSpineLab
from hostcc.lab.leafspine_scenario import LeafSpineFabric

pytestmark = pytest.mark.unit


def test_a_second_cut_adds_what_is_not_cut_yet_and_healing_undoes_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules: set[tuple[str, str]] = set()

    def batch(tool: str, lines: Sequence[str], namespace: str) -> None:
        for line in lines:
            verb, rule = line.split(" ", 2)[1], line.split(" ", 2)[2]
            if verb == "add":
                assert (namespace, rule) not in rules
                rules.add((namespace, rule))
            else:
                rules.remove((namespace, rule))

    monkeypatch.setattr(netns, "batch", batch)
    lab = LeafSpineLab(LeafSpineFabric(hosts_per_leaf=2))
    lab.cut_gossip(["h1", "h3"], 7471)
    assert len(rules) == 4 * 2 * 2  # each host and two others, to their port and from it
    lab.cut_gossip([host.name for host in lab.hosts], 7471)
    assert len(rules) == 4 * 3 * 2
    lab.heal_gossip()
    assert not rules
