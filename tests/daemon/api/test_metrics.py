"""Gauges of the plan that is followed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostcc.answers.status import Status
from hostcc.daemon.api.metrics import MetricsServer

pytestmark = pytest.mark.unit

LOOP = {"longest_stall_s": 0.5, "longest_busy_s": None, "failing": {"sweep": "x"}, "failures": 7}
AGENT = {
    "version": "0.1.0",
    "pid": 7,
    "instance": "host",
    "state": "active",
    "reason": None,
    "mode": "mltcp",
    "uptime_s": 2.0,
    "default_congestion_control": "bbr",
    "cpu_s": 1.0,
    "resident_bytes": 1,
    "loop": LOOP,
}
JOB = {"name": "a", "rank": 0, "level": 2, "dscp": None, "weight": 2.0, "factor": 2.0}
PLAN: dict[str, Any] = {
    "follows": "d",
    "reason": None,
    "held": "d",
    "active": "d",
    "agreed": True,
    "alone": False,
    "missing": [],
    "number": 3,
    "age_s": 0.5,
    "in_force_s": 0.5,
    "jobs": [JOB],
}
STATUS: dict[str, Any] = {"agent": AGENT, "jobs": [], "notes": []}


def page(**blocks: Any) -> str:
    status = msgspec.convert({**STATUS, **blocks}, Status)
    body: bytes = MetricsServer("127.0.0.1:0", lambda: status)._response()
    return body.decode()


def answered(request: str, **blocks: Any) -> tuple[str, str]:
    """Status line and body."""
    status = msgspec.convert({**STATUS, **blocks}, Status)
    raw = MetricsServer("127.0.0.1:0", lambda: status)._response(request.encode())
    head, _, body = raw.decode().partition("\r\n\r\n")
    return head, body


def parts(*states: str) -> list[dict[str, Any]]:
    names = ("gossip", "paths", "gpu")
    rows = zip(names, states, strict=False)
    return [{"name": name, "state": state, "reason": "no device"} for name, state in rows]


def test_parts_and_release() -> None:
    text = page(parts=parts("running", "failed", "off"))
    assert 'hostcc_part_up{part="gossip"} 1.0' in text
    assert 'hostcc_part_up{part="paths"} 0.0' in text
    assert 'part="gpu"' not in text
    assert 'hostcc_build_info{version="0.1.0"} 1.0' in text
    assert "hostcc_verify_differences 2.0" in page(agent={**AGENT, "differences": 2})
    assert "process_resident_memory_bytes " in text
    assert "hostcc_agent_held 0.0" in text
    assert "hostcc_agent_held 1.0" in page(agent={**AGENT, "held": "held since then by uid 0"})


def test_health() -> None:
    assert answered("GET /healthz HTTP/1.1\r\n\r\n") == (
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close",
        "ok",
    )
    beating = {**AGENT, "loop": {**LOOP, "failing": {"heartbeat": "no map"}}}
    for path in ("/healthz", "/readyz"):
        head, body = answered(f"GET {path} HTTP/1.1\r\n\r\n", agent=beating)
        assert head.startswith("HTTP/1.1 503 ")
        assert body == "the heartbeat cannot be written: no map"
    failed = parts("running", "failed")
    assert answered("GET /healthz?x=1 HTTP/1.1\r\n\r\n", parts=failed)[1] == "ok"
    assert answered("GET /readyz HTTP/1.1\r\n\r\n", parts=failed)[1] == (
        "part paths failed: no device"
    )
    assert answered("GET /readyz HTTP/1.1\r\n\r\n", parts=parts("running", "off"))[1] == "ok"


@pytest.mark.parametrize("accept", ["", "text/plain", "application/openmetrics-text; version=x"])
def test_text_format_unless_another_is_asked_for(accept: str) -> None:
    head, body = answered(f"GET /metrics HTTP/1.1\r\nAccept: {accept}\r\n\r\n")
    assert "Content-Type: text/plain; version=0.0.4" in head
    assert "# EOF" not in body


def test_open_metrics() -> None:
    accept = "application/openmetrics-text; version=1.0.0, text/plain; q=0.5"
    head, body = answered(f"GET / HTTP/1.1\r\naccept:{accept}\r\n\r\n", plan=PLAN)
    assert "Content-Type: application/openmetrics-text; version=1.0.0" in head
    assert body.endswith("# EOF\n")
    assert "hostcc_plan_activations_total 3.0" in body


@pytest.mark.parametrize("request_", ["", "\r\n", "GET", "\xff\xfe", "GET  /healthz"])
def test_other_requests_get_the_metrics(request_: str) -> None:
    assert "hostcc_agent_active 1.0" in answered(request_)[1]


def test_a_plan_that_holds() -> None:
    text = page(plan=PLAN)
    for line in (
        "hostcc_plan_followed 1.0",
        "hostcc_plan_agreed 1.0",
        "hostcc_plan_activations_total 3.0",
        "hostcc_plan_age_seconds 0.5",
        'hostcc_job_planned_level{training_job="a"} 2.0',
        'hostcc_job_planned_factor{training_job="a"} 2.0',
    ):
        assert line in text
    assert "hostcc_job_planned_dscp{" not in text


def test_hosts_of_a_job_with_another_plan() -> None:
    differing = [{"name": "a", "members": ["x"], "hosts": 1, "since_s": 12.0, "total_s": 20.0}]
    text = page(plan={**PLAN, "differing": differing})
    assert 'hostcc_plan_differing_hosts{training_job="a"} 1.0' in text
    assert 'hostcc_plan_differing_seconds{training_job="a"} 12.0' in text
    assert 'hostcc_plan_differing_recent_seconds{training_job="a"} 20.0' in text


def test_none_holds_or_plans_are_off() -> None:
    none: dict[str, Any] = {"follows": None, "agreed": None, "number": 0, "age_s": None, "jobs": []}
    plan = {**PLAN, **none}
    assert "hostcc_plan_followed 0.0" in page(plan=plan)
    assert "hostcc_plan_age_seconds" not in page(plan=plan)
    assert "hostcc_plan" not in page()


def test_how_the_cluster_fares() -> None:
    cluster = {
        "predicted": 0.9, "predicted_jobs": 3, "measured": None, "measured_jobs": 0,
        "by_work": True, "at_risk": 2, "relieved": 1, "age_s": 1.0,
        "links": [{"link": "a>b", "load": 1.5, "capacity": 8.0, "jobs": 2}],
        "turn": {"job": "a", "length_s": 9.0, "lost_s": 2.0},
    }  # fmt: skip
    text = page(plan={**PLAN, "cluster": cluster})
    for line in (
        "hostcc_cluster_utilisation_predicted 0.9",
        "hostcc_cluster_jobs_at_risk 2.0",
        "hostcc_cluster_jobs_relieved 1.0",
        'hostcc_link_load{link="a>b"} 1.5',
        'hostcc_link_jobs{link="a>b"} 2.0',
        "hostcc_profiling_turn_seconds 9.0",
        "hostcc_profiling_turn_lost_seconds 2.0",
    ):
        assert line in text
    assert "hostcc_cluster_utilisation_measured" not in text  # nobody has measured it
    assert "hostcc_cluster" not in page(plan=PLAN)


def test_how_the_loop_fares() -> None:
    text = page()
    for line in (
        "hostcc_agent_loop_longest_stall_seconds 0.5",
        "hostcc_agent_failing 1.0",
        "hostcc_agent_failures_total 7.0",
    ):
        assert line in text
    assert "hostcc_agent_loop_longest_busy" not in text  # nobody has measured it


def test_members_and_what_stands_between_them() -> None:
    there = [{"value": str(count), "members": ["b"], "count": count} for count in (1, 2)]
    gossip = {
        "name": "a",
        "listen": "0.0.0.0:7471",
        "insecure": False,
        "held": "",
        "active": "",
        "agreed": False,
        "missing": [],
        "unpublished": {},
        "members": {"alive": 3},
        "seeds": {"reached": 2, "missing": 1},
        "troubles": [{"reason": "unreachable", "who": "seed b@10.0.0.2:7471", "text": ""}],
        "disagreements": [{"option": "plan.levels", "here": "4", "there": there}],
        "process": {"pid": None, "restarts": 3, "reason": "was ended by SIGABRT"},
    }
    text = page(gossip=gossip)
    for line in (
        'hostcc_gossip_members{state="alive"} 3.0',
        'hostcc_gossip_members{state="dead"} 0.0',
        'hostcc_gossip_seeds{state="reached"} 2.0',
        'hostcc_gossip_seeds{state="missing"} 1.0',
        'hostcc_gossip_troubles{reason="unreachable"} 1.0',
        'hostcc_gossip_troubles{reason="refused"} 0.0',
        'hostcc_gossip_members_unlike{option="plan.levels"} 3.0',
        "hostcc_gossip_process_up 0.0",
        "hostcc_gossip_process_restarts_total 3.0",
    ):
        assert line in text
    assert "hostcc_gossip" not in page()


def test_what_is_taken_and_refused() -> None:
    slots = {"total": 10, "used": 7, "root": 2, "per_uid": 64, "for_root": 128}
    parts = [
        {"name": "discovery", "state": "running", "claims_refused": 5},
        {"name": "marks", "state": "running", "over_quota": 3},
    ]
    text = page(agent={**AGENT, "slots": slots}, parts=parts)
    for line in (
        'hostcc_agent_slots{who="root"} 2.0',
        'hostcc_agent_slots{who="others"} 5.0',
        'hostcc_agent_slots{who="free"} 3.0',
        "hostcc_claims_refused 5.0",
        "hostcc_marks_over_quota_total 3.0",
    ):
        assert line in text
    assert "hostcc_agent_slots" not in page()
