"""Moves by real agents: the table that turns, and a few of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import repath_agents
from benchmarks.context import Context
from hostcc.paths.packets import TCP, Target
from hostcc.paths.sources import StaticSource

ENDS = ("198.18.0.2", "198.18.1.2")


@pytest.mark.unit
def test_every_turn_ports_change_places(tmp_path: Path) -> None:
    file, found = tmp_path / "paths.toml", []
    for turn in range(3):
        file.write_text(repath_agents.table(ENDS, turn))
        table = StaticSource.read(file).table(Target(*ENDS, TCP, 5310))
        assert table is not None
        found.append({path.id: path.ports for path in table.paths})
    assert found[0] == found[2]
    assert found[0].keys() == found[1].keys()
    assert all(not set(found[0][path]) & set(found[1][path]) for path in found[0])


@pytest.mark.kernel
def test_agents_move_flows_and_nothing_breaks() -> None:
    figures = repath_agents.measure(16, 8, Context(1, None))
    assert figures.moves >= 16
    assert (figures.broken, figures.unverified, figures.changed) == (0, 0, 0), figures.what
    assert figures.gbytes > 0
    assert 0 < figures.p50_s <= figures.p99_s
