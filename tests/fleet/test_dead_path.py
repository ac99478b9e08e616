"""The path of an RDMA job dies under it, which no router notices.

Not in CI: Soft-RoCE loses a queue pair now and then when it has to send again.
"""

from __future__ import annotations

import pytest

from tests.vm.test_agent_rdma import report_of

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(3600)]


def test_a_dead_path_is_left_without_a_completion_that_fails() -> None:
    report = report_of("dies")
    classes = {cls for _, _, cls in report["before"]}
    assert {path for path, _, _ in report["after_failure"]} == {"p1"}, report
    assert {cls for _, _, cls in report["after_failure"]} == classes, report
    print("first packet on the other path after", report["failure_s"], "s of the guest")
    print(report["part"])
