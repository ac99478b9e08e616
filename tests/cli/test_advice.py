"""What would help on a host, from its agent's status."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.answers.status import Status
from hostcc.cli import advise, status
from hostcc.cli.advice import Kind, advice
from tests.daemon.api.test_metrics import AGENT, PLAN
from tests.daemon.jobs.test_iteration_times import ROW

pytestmark = pytest.mark.unit

OFF = {
    "discovery": "discover.enabled is false",
    "gossip": "gossip.enabled is false",
    "paths": "paths.enabled is false",
    "steering": "paths.steer is false",
    "marking": "marking.enabled is false",
}
"""Part -> why it is off, as agents say."""
RING = msgspec.to_builtins(msgspec.structs.replace(ROW, mode="mltcp", direction="two-way"))
GOSSIP: dict[str, Any] = {
    "name": "a", "listen": "0.0.0.0:7471", "insecure": False, "held": "", "active": "",
    "agreed": False, "missing": [], "unpublished": {}, "members": {"alive": 3}, "troubles": [],
    "disagreements": [],
}  # fmt: skip
CLUSTER: dict[str, Any] = {
    "predicted": 0.9, "predicted_jobs": 3, "measured": None, "measured_jobs": 0, "by_work": True,
    "at_risk": 4, "relieved": 1, "age_s": 1.0, "links": [],
}  # fmt: skip


def document(*off: str, agent: dict[str, Any] | None = None, **blocks: Any) -> dict[str, Any]:
    """A status in which these parts are off and the others run."""
    parts = [
        {"name": name, "state": "off", "reason": OFF[name]}
        if name in off
        else {"name": name, "state": "running", "reason": None}
        for name in OFF
    ]
    made = {"agent": {**AGENT, **(agent or {})}, "jobs": [RING], "notes": [], "parts": parts}
    if "gossip" not in off:
        made |= {"gossip": GOSSIP, "plan": {**PLAN, "cluster": CLUSTER}}
    return {**made, **blocks}


def ids(*off: str, **blocks: Any) -> list[str]:
    return [one.id for one in advice(msgspec.convert(document(*off, **blocks), Status))]


def test_nothing_where_all_that_helps_is_on() -> None:
    assert ids() == []


@pytest.mark.parametrize(
    ("off", "expected"),
    [
        (("paths", "steering", "marking"), ["paths-off", "two-way-jobs"]),
        (("gossip", "paths", "steering", "marking"), ["gossip-off", "two-way-jobs"]),
        (("marking",), ["marking-off"]),
        (("steering",), ["steering-off"]),
        (("marking", "steering"), ["marking-off", "steering-off"]),
    ],
)
def test_parts_that_are_off(off: tuple[str, ...], expected: list[str]) -> None:
    assert ids(*off) == expected


def test_no_more_than_is_known_of_gains() -> None:
    (one,) = advice(msgspec.convert(document("marking"), Status))
    assert (
        "4 jobs at risk of contention, 1 relieved by the plan, GPU utilisation 90% as" in one.brings
    )
    assert "measured" not in one.brings
    calm = {**PLAN, "cluster": {**CLUSTER, "at_risk": 0}}
    assert ids("marking", "steering", plan=calm) == []


def test_agents_that_do_not_act() -> None:
    assert ids(agent={"state": "observing", "reason": "observe_only is set"}) == ["observing"]
    assert ids(agent={"mode": "off"}) == ["mode-off"]
    kept = [{"name": name, "state": "off", "reason": "the agent only observes"} for name in OFF]
    observing = {"state": "observing", "reason": "observe_only is set"}
    found = ids(
        agent=observing, parts=[one for one in kept if one["name"] in {"paths", "steering"}]
    )
    assert found == ["observing"]  # paths are on, as far as the configuration goes


def test_problems_come_first() -> None:
    parts = [{"name": "discovery", "state": "off"}, {"name": "paths", "state": "failed"}]
    found = advice(
        msgspec.convert(
            document(agent={"mode": "off", "differences": 2}, parts=parts, jobs=[],
                     gossip={**GOSSIP, "members": {}}),
            Status,
        )
    )  # fmt: skip
    assert [one.id for one in found] == [
        "gossip-alone", "part-failed-paths", "edited", "mode-off", "no-jobs",
    ]  # fmt: skip
    assert [one.kind for one in found].count(Kind.PROBLEM) == 3


def test_assumed_work_names_some_jobs() -> None:
    rows = [{**PLAN["jobs"][0], "name": f"j{n}", "work_assumed": "equal"} for n in range(5)]
    plan = {**PLAN, "cluster": CLUSTER, "jobs": rows}
    (one,) = advice(msgspec.convert(document(plan=plan), Status))
    assert one.id == "work-assumed"
    assert "j0, j1, j2 and 2 more" in one.found


def call(answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(advise, "ask", lambda *_: answer)
    parser = argparse.ArgumentParser()
    advise.register(parser.add_subparsers())
    args = parser.parse_args(["advise", *words])
    found: int = args.func(args)
    return found


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(document("paths"), monkeypatch) == 0
    assert "paths-off" in capsys.readouterr().out
    assert call(document("paths"), monkeypatch, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "hostcc.advice/1"
    assert told["advice"][0]["id"] == "paths-off"
    assert call(document(), monkeypatch) == 0
    assert capsys.readouterr().out == "nothing to advise: what could help here is on\n"


def test_status_warns_of_what_has_no_effect() -> None:
    for off, expected in ((("paths",), True), ((), False), (("marking",), False)):
        alarms, _, _ = status.sections(msgspec.convert(document(*off), Status))
        assert any("(paths-off)" in line.plain for line in alarms) is expected


def test_every_identifier_is_in_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "control.md").read_text()
    source = (Path(__file__).parents[2] / "hostcc" / "cli" / "advice.py").read_text()
    named = [line.split('"')[1] for line in source.splitlines() if line.strip().startswith("id=")]
    for name in named:
        assert f"`{name.replace('{part.name}', 'NAME')}`" in page, name
