"""The whole way: `hostcc run --rdma`, the agent, its plan, the shim, the wire."""

from __future__ import annotations

import json
import sys
from typing import Any

from hostcc.system.cc import build
from hostcc.verbs.build import SHIM
from tests.vm.test_oldest_kernel import finished
from tests.vm.test_shim import pytestmark

__all__ = ["pytestmark"]


def report_of(*words: str) -> dict[str, Any]:
    """What the guest has seen, if both jobs were moved and ended well."""
    build(SHIM)
    output = finished([sys.executable, "-m", "tests.vm.agent_guest", *words])
    report: dict[str, Any] = json.loads(output.partition("REPORT ")[2].splitlines()[0])
    assert len(report["before"]) == len(report["after"]) == 2, report["before"] + report["after"]
    before = {cls: path for path, _, cls in report["before"]}
    after = {cls: path for path, _, cls in report["after"]}
    assert len(before) == 2, report
    assert set(before.values()) == {"p0"}, report
    assert set(after) == set(before), report  # both keep their class
    assert sorted(after.values()) == ["p0", "p1"], report
    for job, row in report["told"][1].items():
        assert row["processes"] == 2, report
        assert row["failed"] == 0, report
        assert row["told"]["class"] in before, (job, report)
    assert sum(row["moves"] for row in report["told"][1].values()) > 0
    assert report["verify"] == []
    assert report["status"] == [0] * 4, report
    assert report["good"] == [True] * 4, report
    assert {cls for _, _, cls in report["after_death"]} == set(before), report
    return report


def test_the_agent_moves_one_of_two_jobs_live() -> None:
    """Both are on the one path there is; when another comes up, one goes there."""
    report_of()
