"""Agents restarted in mid-run: the scenario, and the judgement."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks import mltcp_restart
from benchmarks.mltcp_restart import CASES, Outcome
from hostcc.lab import scenario

pytestmark = pytest.mark.unit
GOOD = Outcome(back_s=1.5, before=1.1, settling=1.3, after=1.11, ratio=1.11 / 1.1)


@pytest.mark.parametrize("name", CASES)
def test_what_happens_and_when_it_is_over(name: str) -> None:
    base = scenario.load(scenario.find("two-jobs"))
    wanted = mltcp_restart.interrupted(base, CASES[name], 15)
    assert [one.run for one in wanted.action] == [*CASES[name], ("sleep", "20")]
    assert {one.at_iteration for one in wanted.action} == {base.iterations}
    assert list(scenario.check(wanted)) == []


@pytest.mark.parametrize("worse", [{"back_s": 2.1}, {"ratio": 1.03}])
def test_goals(worse: dict[str, float]) -> None:
    assert all(one.met for one in mltcp_restart.judge("one restarted", [GOOD, GOOD]))
    bad = msgspec.structs.replace(GOOD, **worse)
    assert [one.met for one in mltcp_restart.judge("one restarted", [bad])].count(False) == 1
    assert [one.met for one in mltcp_restart.judge("all restarted", [bad])] == [
        "ratio" not in worse
    ]
