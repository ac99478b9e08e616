"""The whole way: `hostcc run --rdma`, agents, their plan, the shim, the wire."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from hostcc.pcie.build import build
from hostcc.verbs.build import SHIM
from tests.vm.test_oldest_kernel import finished
from tests.vm.test_shim import pytestmark

__all__ = ["pytestmark"]


@pytest.fixture(scope="module")
def stories() -> dict[str, Any]:
    """Both in one guest."""
    build(SHIM)
    output = finished([sys.executable, "-m", "tests.vm.agent_guest", "together", "alone"])
    made: dict[str, Any] = json.loads(output.partition("REPORT ")[2].splitlines()[0])
    return made


def moved(story: dict[str, Any]) -> list[str]:
    """Jobs that the near end's capture saw change their path or port."""
    before, after = ({cls: (path, port) for path, port, cls in story[when]["wire"]}
                     for when in ("before", "after"))  # fmt: skip
    assert len(before) == 2, story
    assert set(after) == set(before), story  # both keep their class
    assert {path for path, _ in before.values()} == {"p0"}, story
    assert len({port for _, port in before.values()}) == 1, story  # of old they share all
    assert sorted(path for path, _ in after.values()) == ["p0", "p1"], story
    names = {row["told"]["class"]: job for job, row in story["after"]["told"][0].items()}
    assert set(names) == set(before), story
    return [names[cls] for cls in before if before[cls][1] != after[cls][1]]


def moves(story: dict[str, Any], when: str) -> dict[str, int]:
    """Job -> live changes of its queue pair at the near end."""
    return {
        name: sum(pair["moves"] for pair in row["largest"] if pair["device"] == "rxa")
        for name, row in story[when]["told"][0].items()
    }


def check(story: dict[str, Any]) -> None:
    """A job moved live and nobody noticed."""
    jobs = moved(story)
    assert jobs, story
    # While a path comes up the agents may know of it one after the other: maybe several moves.
    before, after = moves(story, "before"), moves(story, "after")
    assert all(after[job] > before[job] for job in jobs), story
    # A move for which the emulator was too slow counts as failed, and is made again.
    assert story["verify"] == [], story
    assert story["status"] == [0] * 4, story
    assert story["good"] == [True] * 4, story  # every sum
    assert {cls for _, _, cls in story["after_death"]} == {
        cls for _, _, cls in story["before"]["wire"]
    }


def test_two_hosts_agree_and_one_of_two_jobs_moves_live(stories: dict[str, Any]) -> None:
    """Agents at both ends gossip; the plan that both follow says who goes where."""
    story = stories["together"]
    check(story)
    for when in ("before", "after"):
        states = [plan["state"] for plan in story[when]["plans"]]
        assert all(state["agreed"] for state in states), story
        assert states[0]["follows"] == states[1]["follows"] == states[1]["active"], story
    rows, (plan, _) = story["after"]["told"], story["after"]["plans"]
    wanted = {flow["flow"]: flow["path"] for flow in plan["flows"]}
    for end, told in zip(("near", "far"), rows, strict=True):
        ways = {flow: path for flow, path in wanted.items() if flow.startswith(f"{end}/roce-")}
        assert len(set(ways.values())) == 2, story  # a path for each job
        taken = {job: row["largest"][0]["path"] for job, row in told.items()}
        assert sorted(taken.values()) == sorted(ways.values()), story


def test_a_host_alone_moves_one_of_two_jobs_live(stories: dict[str, Any]) -> None:
    """By a plan of its own."""
    story = stories["alone"]
    check(story)
    assert all(row["processes"] == 2 for row in story["after"]["told"][0].values()), story
