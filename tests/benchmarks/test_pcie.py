"""The PCIe benchmark's parts, small."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import pcie
from hostcc.pcie import exercise
from hostcc.pcie.library import PCIE
from hostcc.system.cc import build

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def test_every_figure_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(PCIE)
    build(exercise.EXERCISE)
    monkeypatch.setattr(pcie, "START_NS", 1_000_000_000)
    figures = pcie.pair(tmp_path, 1 << 20, 0.3)
    assert len(figures) == 5
    assert all(value > 0 for value in figures.values())
    cost = pcie.cost(tmp_path)
    assert all(value > 0 for value in cost.values())
    table = {("messages of 1", name): [value] for name, value in figures.items()}
    table |= {("cost", name): [value] for name, value in cost.items()}
    table["hand-over", "p99, us"] = [50.0]
    goals = pcie.judge(table)
    assert [goal.scope for goal in goals] == ["cost", "hand-over", *["messages of 1"] * 2]
    assert goals[1].met


def test_goals_can_fail() -> None:
    bad = {
        ("cost", "enter and leave, ns"): [1e4],
        ("hand-over", "p99, us"): [1e4, 10.0],
        ("messages", "intensive: part of its rate alone, with"): [0.5],
        ("messages", "other: part of the link, with"): [0.01],
    }
    goals = pcie.judge(bad)
    assert not any(goal.met for goal in goals)
    assert goals[1].passing == 1
