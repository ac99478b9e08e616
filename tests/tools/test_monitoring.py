"""Alert rules and dashboards: up to date, of metrics that agents export, and rules that fire."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.api.recorded import METRICS
from tools import monitoring
from tools.answers_page import PAGE

pytestmark = pytest.mark.unit

PROMTOOL = Path(sys.prefix) / "bin" / "promtool"
needs_promtool = pytest.mark.skipif(
    not PROMTOOL.exists(), reason="no promtool: tools/setup --with-prometheus gets it"
)
ELSEWHERE = {"up", "hostcc_job_iteration_seconds"}
"""Prometheus' own; and that of which an agent in memory has seen no iteration."""
CASES: dict[str, tuple[str, str, str]] = {
    "HostccAgentDown": ('up{job="hostcc",instance="h1"}', "0x60", "1x60"),
    "HostccHeartbeatFails": ('hostcc_agent_failing{instance="h1"}', "1x60", "0x60"),
    "HostccLoopStalls": (
        'hostcc_agent_loop_longest_stall_seconds{instance="h1"}', "0.1x50 2x10", "2x60",
    ),
    "HostccPartFailed": ('hostcc_part_up{instance="h1",part="paths"}', "0x60", "1x60"),
    "HostccEdited": ('hostcc_verify_differences{instance="h1"}', "2x60", "0x60"),
    "HostccMembersDead": ('hostcc_gossip_members{instance="h1",state="dead"}', "3x60", "0x60"),
    "HostccMembersNotReached": (
        'hostcc_gossip_troubles{instance="h1",reason="refused"}', "1x60", "0x60",
    ),
    "HostccOptionsDiffer": (
        'hostcc_gossip_members_unlike{instance="h1",option="plan.levels"}', "2x60", "2x30 0x30",
    ),
    "HostccGossipProcessDown": ('hostcc_gossip_process_up{instance="h1"}', "0x60", "1x60"),
    "HostccPlanNotAgreed": ('hostcc_plan_agreed{instance="h1"}', "0x60", "1x60"),
    "HostccHostsOfJobDiffer": (
        'hostcc_plan_differing_seconds{instance="h1",training_job="a"}', "90x60", "5x60",
    ),
    "HostccFlowsFallBack": ('hostcc_flows_fell_back_total{instance="h1"}', "0+3x60", "7x60"),
}  # fmt: skip
"""Alert -> a series, values by the minute with which it fires after an hour, others with which it
does not."""
BESIDE = {
    "HostccPlanNotAgreed": {"series": 'hostcc_plan_followed{instance="h1"}', "values": "1x60"}
}


def test_the_files_are_up_to_date() -> None:
    found = {one.name: one.read_text() for one in monitoring.FOLDER.iterdir()}
    assert found == monitoring.files()  # `python -m tools.monitoring` writes them


def test_every_metric_is_exported() -> None:
    exported = set(re.findall(r"(?m)^# TYPE (\S+) ", METRICS.read_text())) | ELSEWHERE
    exported |= set(re.findall(r"Metric `(\w+)`", PAGE.read_text()))
    expressions = [one.expr for one in monitoring.ALERTS] + [
        expr
        for panels in monitoring.DASHBOARDS.values()
        for panel in panels
        for expr, _ in panel.queries
    ]
    for expr in expressions:
        named = re.findall(r"\b(?:hostcc|process)_[a-z_]+\b|\bup\b", re.sub(r"\{[^}]*\}", "", expr))
        assert named
        for name in named:
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            assert {name, family} & exported, expr


@pytest.mark.parametrize("name", list(monitoring.DASHBOARDS))
def test_dashboards_can_be_imported(name: str) -> None:
    found = json.loads(monitoring.dashboard(name))
    variables = {one["name"] for one in found["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(found)))
    assert used == variables
    places = {(one["gridPos"]["x"], one["gridPos"]["y"]) for one in found["panels"]}
    assert len(places) == len(found["panels"])


@needs_promtool
@pytest.mark.slow
def test_metrics_are_as_prometheus_wants_them() -> None:
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=METRICS.read_text(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_promtool
@pytest.mark.slow
def test_each_rule_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    assert CASES.keys() == {one.name for one in monitoring.ALERTS}
    document = {
        "rule_files": [str(monitoring.FOLDER / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [case(alert, fires) for alert in monitoring.ALERTS for fires in (True, False)],
    }
    path = tmp_path / "cases.yml"  # JSON is YAML, too
    path.write_text(json.dumps(document))
    done = subprocess.run(
        [PROMTOOL, "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def case(alert: monitoring.Alert, fires: bool) -> dict[str, Any]:
    """A test of one rule, for promtool."""
    series, firing, quiet = CASES[alert.name]
    made = [{"series": series, "values": firing if fires else quiet}]
    expected: dict[str, Any] = {"alertname": alert.name, "eval_time": "59m", "exp_alerts": []}
    if alert.lasts == "1h":
        made[0]["values"] = made[0]["values"].replace("60", "130")
        expected["eval_time"] = "120m"
    if alert.name in BESIDE:
        made.append(BESIDE[alert.name])
    if fires:
        labels = dict(re.findall(r'(\w+)="([^"]*)"', series))
        if alert.name == "HostccMembersNotReached":
            del labels["reason"]  # it is summed over
        value = re.findall(r"([\d.]+)x", firing)[-1]
        expected["exp_alerts"] = [{
            "exp_labels": {**labels, "severity": alert.severity},
            "exp_annotations": {
                "summary": filled(alert.summary, labels, value), "runbook": alert.runbook,
            },
        }]  # fmt: skip
    return {"interval": "1m", "input_series": made, "alert_rule_test": [expected]}


def filled(text: str, labels: dict[str, str], value: str) -> str:
    """A template as Prometheus fills it in."""
    for name, content in labels.items():
        text = text.replace(f"{{{{ $labels.{name} }}}}", content)
    return text.replace("{{ $value }}", value)
