"""Writes the alert rules and dashboards in packaging/monitoring: `python -m tools.monitoring`.

Rules and panels are declared here once; tests fire each rule, and look for each metric in what an
agent exports.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "packaging" / "monitoring"


@dataclass(frozen=True)
class Alert:
    """A rule for Prometheus."""

    name: str
    expr: str
    lasts: str
    """For how long it has to be so; empty: it fires at once."""
    severity: str
    summary: str
    runbook: str
    """What to do, in one line."""


@dataclass(frozen=True)
class Panel:
    """A graph of a dashboard."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    """(Expression, legend)."""


ALERTS = (
    Alert(
        "HostccAgentDown",
        'up{job="hostcc"} == 0',
        "5m",
        "warning",
        "no agent answers on {{ $labels.instance }}",
        "systemctl status hostcc; jobs run the host's default congestion control meanwhile",
    ),
    Alert(
        "HostccHeartbeatFails",
        "hostcc_agent_failing > 0",
        "2m",
        "warning",
        "pieces of the agent's tick fail on {{ $labels.instance }}",
        "hostcc status names them; hostcc doctor says what the host lacks",
    ),
    Alert(
        "HostccLoopStalls",
        "hostcc_agent_loop_longest_stall_seconds > 1"
        " and delta(hostcc_agent_loop_longest_stall_seconds[15m]) > 0",
        "",
        "info",
        "the agent of {{ $labels.instance }} stood still for {{ $value }} s",
        "jobs were plain for that time; look for a machine that swaps or has no processor left",
    ),
    Alert(
        "HostccPartFailed",
        "hostcc_part_up == 0",
        "10m",
        "warning",
        "part {{ $labels.part }} fails on {{ $labels.instance }}",
        "hostcc status says why; the other parts go on",
    ),
    Alert(
        "HostccEdited",
        "hostcc_verify_differences > 0",
        "10m",
        "info",
        "somebody edited what hostcc had set on {{ $labels.instance }}",
        "hostcc verify names the edits; hostcc stands aside until they are undone",
    ),
    Alert(
        "HostccMembersDead",
        'hostcc_gossip_members{state="dead"} > 0',
        "15m",
        "info",
        "{{ $value }} members are dead as seen from {{ $labels.instance }}",
        "hostcc peers names them",
    ),
    Alert(
        "HostccMembersNotReached",
        "sum without (reason) (hostcc_gossip_troubles) > 0",
        "10m",
        "warning",
        "{{ $labels.instance }} does not reach all members, or does not let them in",
        "hostcc peers gives the reason of each, hostcc doctor the remedy",
    ),
    Alert(
        "HostccOptionsDiffer",
        "hostcc_gossip_members_unlike > 0",
        "1h",
        "info",
        "{{ $labels.option }} differs between {{ $labels.instance }} and {{ $value }} members",
        "expected during an upgrade; else make the configurations equal",
    ),
    Alert(
        "HostccGossipProcessDown",
        "hostcc_gossip_process_up == 0",
        "2m",
        "warning",
        "the gossip's process is away on {{ $labels.instance }}",
        "it is started again by itself; hostcc status says why it ended",
    ),
    Alert(
        "HostccPlanNotAgreed",
        "hostcc_plan_followed == 1 and hostcc_plan_agreed == 0",
        "10m",
        "info",
        "{{ $labels.instance }} follows a plan that its neighbours have not agreed on",
        "hostcc plan names whom it waits for",
    ),
    Alert(
        "HostccHostsOfJobDiffer",
        "hostcc_plan_differing_seconds > 60",
        "",
        "warning",
        "hosts of job {{ $labels.training_job }} follow different plans, for {{ $value }} s",
        "hostcc status names the hosts; defaults apply to the job after plan.max_age_s",
    ),
    Alert(
        "HostccFlowsFallBack",
        "increase(hostcc_flows_fell_back_total[10m]) > 10"
        " or increase(hostcc_queue_pairs_fell_back_total[10m]) > 10",
        "",
        "info",
        "flows or queue pairs of {{ $labels.instance }} go back to ECMP because they got slower",
        "hostcc flows and hostcc status name them; a link may have a fault that its switch misses",
    ),
)

_ITERATIONS = 'rate(hostcc_job_iteration_seconds_{0}{{training_job=~"$job"}}[5m])'
_MEAN = f"{_ITERATIONS.format('sum')} / {_ITERATIONS.format('count')}"


def _quantile(share: float) -> str:
    bucket = f"sum by (le, training_job) ({_ITERATIONS.format('bucket')})"
    return f"histogram_quantile({share}, {bucket})"


DASHBOARDS: dict[str, tuple[Panel, ...]] = {
    "fleet": (
        Panel("Agents", "short", (("count(up{job=\"hostcc\"} == 1)", "answer"),
                                  ("sum(hostcc_agent_active)", "act"))),
        Panel("Parts that fail", "short", (("count by (part) (hostcc_part_up == 0)", "{{part}}"),)),
        Panel("GPU utilisation", "percentunit",
              (("avg(hostcc_cluster_utilisation_predicted)", "predicted"),
               ("avg(hostcc_cluster_utilisation_measured)", "measured"))),
        Panel("Jobs at risk of contention", "short",
              (("max(hostcc_cluster_jobs_at_risk)", "at risk"),
               ("max(hostcc_cluster_jobs_relieved)", "relieved"))),
        Panel("Load of shared links", "percentunit",
              (("topk(10, max by (link) (hostcc_link_load))", "{{link}}"),)),
        Panel("Flows moved and fallen back, per minute", "short",
              (("60 * sum(rate(hostcc_flows_moved_total[5m]))", "moved"),
               ("60 * sum(rate(hostcc_flows_fell_back_total[5m]))", "fell back"),
               ("60 * sum(rate(hostcc_queue_pairs_moved_total[5m]))", "queue pairs moved"),
               ("60 * sum(rate(hostcc_queue_pairs_fell_back_total[5m]))", "routes of these back"))),
        Panel("Members that are not alive", "short",
              (("max by (state) (hostcc_gossip_members{state!=\"alive\"})", "{{state}}"),)),
        Panel("Hosts whose plan is not agreed", "short",
              (("count(hostcc_plan_followed == 1 and hostcc_plan_agreed == 0)", "hosts"),)),
        Panel("Processor time of agents, most", "percentunit",
              (("topk(5, rate(process_cpu_seconds_total{job=\"hostcc\"}[5m]))", "{{instance}}"),)),
        Panel("Memory of agents, most", "bytes",
              (("topk(5, process_resident_memory_bytes{job=\"hostcc\"})", "{{instance}}"),)),
    ),
    "job": (
        Panel("Iteration time", "s", ((_MEAN, "mean, {{instance}}"),
                                      (_quantile(0.5), "median"), (_quantile(0.99), "p99"))),
        Panel("Iterations per minute", "short",
              ((f"60 * {_ITERATIONS.format('count')}", "{{instance}}"),)),
        Panel("Communication in an iteration", "s",
              (("hostcc_job_communication_seconds{training_job=~\"$job\"}", "{{instance}}"),)),
        Panel("Bytes acknowledged", "Bps",
              (("rate(hostcc_job_bytes_acked_total{training_job=~\"$job\"}[1m])",
                "{{instance}}"),)),
        Panel("Level by the plan, 0 the highest", "short",
              (("hostcc_job_planned_level{training_job=~\"$job\"}", "{{instance}}"),)),
        Panel("Weight, and what the plan makes of it", "short",
              (("hostcc_job_weight{training_job=~\"$job\"}", "weight, {{instance}}"),
               ("hostcc_job_planned_factor{training_job=~\"$job\"}", "factor, {{instance}}"))),
        Panel("Confidence of the profile", "percentunit",
              (("hostcc_profile_confidence{training_job=~\"$job\"}", "{{instance}}"),)),
        Panel("Overlap of communication and computing", "percentunit",
              (("hostcc_profile_overlap_ratio{training_job=~\"$job\"}", "{{instance}}"),)),
    ),
}  # fmt: skip


def rules() -> str:
    """The rule file, YAML."""
    lines = [
        "# Made by `python -m tools.monitoring`; docs/monitoring.md says how to use it.",
        "groups:",
        "  - name: hostcc",
        "    rules:",
    ]
    for one in ALERTS:
        lines += [f"      - alert: {one.name}", f"        expr: {json.dumps(one.expr)}"]
        if one.lasts:
            lines.append(f"        for: {one.lasts}")
        lines += [
            f"        labels: {{severity: {one.severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(one.summary)}",
            f"          runbook: {json.dumps(one.runbook)}",
        ]
    return "\n".join([*lines, ""])


def dashboard(name: str) -> str:
    """A dashboard for Grafana, JSON: its data source is chosen when it is imported."""
    panels = [_panel(at, one) for at, one in enumerate(DASHBOARDS[name])]
    variables: list[dict[str, Any]] = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    ]
    if name == "job":
        variables.append({
            "name": "job", "label": "Job", "type": "query", "datasource": _SOURCE,
            "query": "label_values(hostcc_job_weight, training_job)", "refresh": 2,
        })  # fmt: skip
    document = {
        "uid": f"hostcc-{name}",
        "title": f"hostcc: {name}",
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": variables},
        "panels": panels,
    }
    return json.dumps(document, indent=2) + "\n"


_SOURCE: Any = {"type": "prometheus", "uid": "${source}"}


def _panel(at: int, one: Panel) -> dict[str, Any]:
    return {
        "id": at + 1,
        "type": "timeseries",
        "title": one.title,
        "datasource": _SOURCE,
        "gridPos": {"h": 8, "w": 12, "x": 12 * (at % 2), "y": 8 * (at // 2)},
        "fieldConfig": {"defaults": {"unit": one.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expr, "legendFormat": legend}
            for number, (expr, legend) in enumerate(one.queries)
        ],
    }


def files() -> dict[str, str]:
    """Name -> what it has to contain."""
    made = {f"{name}-dashboard.json": dashboard(name) for name in DASHBOARDS}
    return {"alerts.yml": rules(), **made}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text)
