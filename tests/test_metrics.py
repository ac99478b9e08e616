"""Gauges of the plan that is followed."""

from __future__ import annotations

from typing import Any

import pytest

from hostcc.metrics import MetricsServer

pytestmark = pytest.mark.unit

AGENT = {"state": "active", "cpu_s": 1.0, "resident_bytes": 1}
JOB = {"name": "a", "rank": 0, "level": 2, "dscp": None, "factor": 2.0}


def page(plan: dict[str, Any] | None) -> str:
    status: dict[str, Any] = {"agent": AGENT, "jobs": [], "parts": [], "plan": plan}
    body: bytes = MetricsServer("127.0.0.1:0", lambda: status)._response()
    return body.decode()


def test_a_plan_that_holds() -> None:
    plan = {"follows": "d", "agreed": True, "number": 3, "age_s": 0.5, "jobs": [JOB]}
    text = page(plan)
    for line in (
        "hostcc_plan_followed 1.0",
        "hostcc_plan_agreed 1.0",
        "hostcc_plan_activations_total 3.0",
        "hostcc_plan_age_seconds 0.5",
        'hostcc_job_planned_level{job="a"} 2.0',
        'hostcc_job_planned_factor{job="a"} 2.0',
    ):
        assert line in text
    assert "hostcc_job_planned_dscp{" not in text


def test_none_holds_or_plans_are_off() -> None:
    plan: dict[str, Any] = {"follows": None, "agreed": None, "number": 0, "age_s": None, "jobs": []}
    assert "hostcc_plan_followed 0.0" in page(plan)
    assert "hostcc_plan_age_seconds" not in page(plan)
    assert "hostcc_plan" not in page(None)
