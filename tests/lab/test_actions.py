"""When actions are due, and whom they concern."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostcc.errors import InputError
from hostcc.lab import actions
from hostcc.lab.agents import Agent
from hostcc.lab.scenario import ActionSpec
from hostcc.lab.scenario_hosts import Host


def agent(index: int, job: str) -> Agent:
    process: Any = SimpleNamespace(poll=lambda: None)
    return Agent(Host(index, job, 0, True), process, Path("s"), Path("l"), frozenset({job}))


AGENTS = [agent(1, "a"), agent(2, "a"), agent(3, "b")]


def test_actions_come_due_once_by_time_or_iteration() -> None:
    late, early = ActionSpec(run="unfair off", at_ms=2000), ActionSpec(run="unfair off", at_ms=500)
    fifth = ActionSpec(run="kill-agent all", at_iteration=5)
    pending = actions.Pending([late, early, fifth])
    assert pending.next_in(0.1) == pytest.approx(0.4)
    assert pending.due(0.6, 1) == [early]
    assert pending.due(0.7, 5) == [fifth]
    assert pending.due(0.8, 6) == []
    assert pending.due(3.0, 6) == [late]
    assert pending.next_in(3.0) is None


@pytest.mark.parametrize(
    ("targets", "hosts"), [(["all"], [1, 2, 3]), (["a"], [1, 2]), (["h3"], [3])]
)
def test_agents_are_named_by_host_job_or_all(targets: list[str], hosts: list[int]) -> None:
    found = [entry.host.name for entry in actions.select(targets, AGENTS)]
    assert found == [f"h{index}" for index in hosts]


def test_an_unknown_target_is_refused_but_no_agents_are_fine() -> None:
    with pytest.raises(InputError, match="h1, h2, h3"):
        actions.select(["h9"], AGENTS)
    assert actions.select(["h9"], []) == []


def test_commands_report_their_failure() -> None:
    ok = ActionSpec(run=("true",), at_ms=0)
    bad = ActionSpec(run=("sh", "-c", "echo why >&2; exit 1"), at_ms=0)
    absent = ActionSpec(run=("/no/such/program",), at_ms=0)
    assert actions.perform(ok, []) == ""
    assert actions.perform(bad, []) == "why"
    assert "No such file" in actions.perform(absent, [])
    assert actions.label(bad).startswith("sh -c")


def test_without_agents_unfair_does_nothing() -> None:
    assert actions.perform(ActionSpec(run="unfair off", at_ms=0), []) == ""
