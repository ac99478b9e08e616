"""Scenario files of leaf-spine fabrics: what is accepted, and what is refused in one line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostcc.errors import InputError
from hostcc.lab import override, results, runner
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.events import started_later
from hostcc.lab.leafspine_lab import LeafSpineLab
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.scenario import Scenario, from_document

pytestmark = pytest.mark.unit

FABRIC = {"kind": "leaf-spine", "hosts_per_leaf": 2}
JOB: dict[str, Any] = {"name": "a", "on": ["h1", "h3"], "compute_ms": 100, "comm_ms": 90}


def document(job: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"fabric": FABRIC, "job": [{**JOB, **(job or {})}], **more}


def event(run: str) -> dict[str, Any]:
    return document(action=[{"at_ms": 1, "run": run}])


def test_jobs_have_the_hosts_that_they_name() -> None:
    scenario = from_document(document({"on": ["h1", "h3", "h2"], "pattern": "allreduce"}), "x")
    assert isinstance(scenario, LeafSpineScenario)
    assert scenario.job[0].hosts == 3
    assert scenario.fabric.spines == 4
    with_changes = override.overridden(scenario, {"rate": 50.0, "flows": 2})
    assert isinstance(with_changes, LeafSpineScenario)
    assert with_changes.fabric.rate_mbit == 50
    assert with_changes.job[0].flows == 2


def test_the_kind_decides_the_network() -> None:
    assert isinstance(runner.network_of(from_document(document(), "x")), LeafSpineLab)
    plain = from_document({"job": [{"name": "a", "comm_ms": 1}]}, "x")
    assert type(plain) is Scenario
    assert isinstance(runner.network_of(plain), Dumbbell)


def test_results_come_back_as_they_were() -> None:
    scenario = from_document(document(), "x")
    made = results.Results("x", scenario, 3, [], results.this_machine())
    found = results.decode(results.encode(made))
    assert found.scenario == scenario
    plain = msgspec.structs.replace(
        made, scenario=from_document({"job": [{"name": "a", "bytes": 9}]}, "x")
    )
    assert type(results.decode(results.encode(plain)).scenario) is Scenario


def test_jobs_that_an_event_starts_wait_for_it() -> None:
    assert started_later(from_document(event("start-job a"), "x")) == {"a"}
    assert not started_later(from_document(event("stop-job a"), "x"))


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (document({"on": ["h1"]}), "job[0].on: expected"),
        (document({"on": ["h1", "h9"]}), "job[0].on: expected hosts from h1 to h4"),
        (document({"on": ["h1", "h1"]}), "job[0].on: expected every host once"),
        (document({"hosts": 4}), "job[0].hosts: expected no such key"),
        (document({"on": ["h1", "h2", "h3"]}), 'job[0].hosts: expected 2 with pattern = "push"'),
        ({"fabric": FABRIC, "job": [{"name": "a", "comm_ms": 9}]}, "job[0]"),
        ({"fabric": FABRIC}, "job: expected at least one"),
        ({"fabric": {**FABRIC, "kind": "ring"}, "job": [JOB]}, "fabric.kind: expected one of"),
        ({"fabric": {**FABRIC, "hosts_per_leaf": 50}, "job": [JOB]}, "fabric.hosts_per_leaf"),
        (
            {"fabric": {**FABRIC, "host_mbit": [9]}, "job": [JOB]},
            "fabric.host_mbit: expected a rate, or one of each of 4 hosts",
        ),
        ({"fabric": {**FABRIC, "host_mbit": -1}, "job": [JOB]}, "fabric.host_mbit: expected"),
        ({"fabric": {**FABRIC, "levels": [8, 8]}, "job": [JOB]}, "fabric.levels: expected every"),
        ({"fabric": {**FABRIC, "queues": "red"}, "job": [JOB]}, "fabric.queues: expected one of"),
        (
            {"fabric": {**FABRIC, "ecn_threshold_packets": 9}, "job": [JOB]},
            "fabric.ecn_threshold_packets: expected 0",
        ),
        (event("spine-down 9"), "action[0].run: expected a spine from 1 to 4"),
        (event("spine-down"), 'action[0].run: expected "spine-down" and 1'),
        (event("uplink leaf1 1 0"), "action[0].run: expected uplink LEAF SPINE MBIT"),
        (event("uplink leaf9 1 10"), "action[0].run: expected uplink LEAF SPINE MBIT"),
        (event("start-job z"), "action[0].run: expected one of a"),
        (event("cut-gossip h7"), "action[0].run: expected all, a job, or a host"),
        (event("kill-agent h7"), "action[0].run: expected all, a job, or a host"),
        (event("reboot h1"), "action[0].run: expected"),
        (event(" "), "action[0].run: expected"),
    ],
)
def test_refused(wrong: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        from_document(wrong, "x.toml")
    message = str(caught.value)
    assert message.startswith(f"x.toml: {expected}")
    assert "\n" not in message


def test_other_fabrics_have_no_spines_to_lose() -> None:
    wrong = {"job": [{"name": "a", "comm_ms": 1}], "action": [{"at_ms": 1, "run": "spine-down 1"}]}
    with pytest.raises(InputError, match="action"):
        from_document(wrong, "x")
