"""`hostcc rank --live`: candidates against the agent's view, or against one in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.cli import rank_live, view, viewfile
from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.view_export import exported
from hostcc.errors import InputError, NoAgentError
from tests.cli.test_rank import call
from tests.refusals import is_one_line
from tests.schedule.test_candidates import VIEW

pytestmark = pytest.mark.unit

JOB = {"job": "new", "compute_s": 0.1, "comm_start_s": 0.1, "work": 1.0, "gpus": 8.0}


def flow(src: str, dst: str, job: str = "new") -> dict[str, Any]:
    return {"job": job, "src": src, "dst": dst, "bytes": 1.0}


GIVEN: dict[str, Any] = {
    "jobs": [JOB],
    "candidates": [
        {"name": "shared", "flows": [flow("b", "x")]},
        {"name": "apart", "flows": [flow("b", "y")]},
        {"name": "nowhere", "flows": [flow("b", "z")]},
    ],
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Candidates; an agent holds the view."""
    answer = msgspec.to_builtins(exported(VIEW, PlanConfig(), in_force=True))
    monkeypatch.setattr(view, "ask", lambda *_: answer)
    made = tmp_path / "candidates.json"
    made.write_text(json.dumps(GIVEN))
    return made


def test_json_of_an_agent_and_of_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--live", str(file), "--json") == 0
    live = json.loads(capsys.readouterr().out)
    assert (live["schema"], live["digest"], live["in_force"]) == ("hostcc.rank-live/1", "d", True)
    assert (live["before"], live["jobs"]) == (1.0, 1)
    names = [one["name"] for one in live["placements"]]
    assert names == ["apart", "shared", "nowhere"]
    assert live["placements"][0]["utilisation"] == 1.0
    kept = file.with_name("view.json")
    kept.write_bytes(msgspec.json.encode(VIEW))
    assert call("--view", str(kept), str(file), "--json") == 0
    offline = json.loads(capsys.readouterr().out)
    assert (offline["placements"], offline["in_force"]) == (live["placements"], None)


def test_the_table(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--live", str(file)) == 0
    now, _, best, _, last = capsys.readouterr().out.splitlines()
    assert now == "now, by view d: 100.00% of 1 running jobs"
    assert best.split()[:6] == ["1", "apart", "100.00%", "100.00%", "new", "100.0%"]
    assert best.endswith("nobody")
    assert last.endswith("no path is known from b to z")


def test_paths_that_the_view_does_not_have_may_be_given(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = {"id": "p", "links": ["b>", "own", ">z"]}
    more = {"tables": [{"src": "b", "dst": "z", "paths": [path]}], "links": [["own", 1.0]]}
    file.write_text(json.dumps(GIVEN | more))
    assert call("--live", str(file), "--json") == 0
    told = json.loads(capsys.readouterr().out)["placements"]
    assert not any(one["rejected"] for one in told)
    file.write_text(json.dumps(GIVEN | {"tables": more["tables"]}))
    with pytest.raises(InputError, match="expected known links"):
        call("--live", str(file))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"jobs": [JOB, JOB]}, "jobs: expected each name once"),
        ({"candidates": GIVEN["candidates"] * 2}, "candidates: expected each name once"),
        ({"jobs": []}, "expected flows of the jobs in jobs, got new"),
        ({"jobs": [JOB, JOB | {"job": "old"}]}, "old: expected a new one"),
        ({"jobs": [JOB | {"work": -1}]}, "work"),
        ({"more": 1}, "unknown key"),
    ],
)
def test_wrong_files_are_refused(file: Path, change: dict[str, Any], words: str) -> None:
    file.write_text(json.dumps(GIVEN | change))
    with pytest.raises(InputError, match=words) as error:
        call("--live", str(file))
    assert is_one_line(str(error.value))
    assert str(file) in str(error.value)


def test_options_that_do_not_go_together(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="--tolerance: expected without --live"):
        call("--live", "--tolerance", "0.1", str(file))
    with pytest.raises(SystemExit):
        call("--live", "--view", "x", str(file))
    assert "not allowed with" in capsys.readouterr().err


def test_without_an_agent(tmp_path: Path) -> None:
    file = tmp_path / "candidates.json"
    file.write_text(json.dumps(GIVEN))
    with pytest.raises(NoAgentError):
        call("--live", str(file), "--socket", str(tmp_path / "none"))


def test_the_views_options_count() -> None:
    seen = viewfile.given(msgspec.json.encode({"options": {"order": "x"}}), "VIEW")
    given = msgspec.convert(GIVEN, rank_live.LiveInput)
    with pytest.raises(InputError, match="order: expected one of"):
        rank_live.ranked_against(seen, given)
