"""Toggles: the scenario, the parts, the judgement."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks import mltcp_toggle
from hostcc.errors import InputError
from hostcc.lab import scenario
from tests.benchmarks.results import results, run


def test_switch_and_collide_at_each_third() -> None:
    base = scenario.load(scenario.find("two-jobs"))
    actions = mltcp_toggle.toggled(base).action
    assert [action.at_iteration for action in actions] == [20, 24, 24, 40, 44, 44]
    tiny = msgspec.structs.replace(base, iterations=3)
    moments = [action.at_iteration or 0 for action in mltcp_toggle.toggled(tiny).action]
    assert moments == sorted(moments)
    assert [action.run for action in actions[::3]] == ["unfair off", "unfair mltcp"]
    with pytest.raises(InputError, match="expected at least 3, got 2"):
        mltcp_toggle.toggled(msgspec.structs.replace(base, iterations=2))


def test_parts_against_goals() -> None:
    moments = [3.05, 3.1, 3.15, 6.55, 6.6, 6.65]
    switched = [0.1] * 31 + [0.15] * 23 + [0.1] * 40
    plain = [0.15] * 70
    alone = {"a": [0.1], "b": [0.1]}
    both = [
        results("hostcc", [run({"a": switched, "b": switched}, events=moments)], alone),
        results("cubic", [run({"a": plain, "b": plain}, events=moments)], alone),
    ]
    found: dict[str, dict[str, mltcp_toggle.PartFigures]] = {}
    for part in both:
        found |= mltcp_toggle.parts_of(part)
    assert found["hostcc"]["off"].settled.median == pytest.approx(1.5)
    assert found["hostcc"]["mltcp again"].settled.median == pytest.approx(1.0)
    assert all(entry.met for entry in mltcp_toggle.judge("x", found))
    assert mltcp_toggle.judge("x", {"cubic": found["cubic"]}) == []
    swapped = {"hostcc": found["cubic"], "cubic": found["hostcc"]}
    assert [entry.met for entry in mltcp_toggle.judge("x", swapped)] == [True, False]
