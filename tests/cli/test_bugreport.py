"""`hostcc bugreport`: what is in the archive, what is not, and whatever cannot be had."""

from __future__ import annotations

import argparse
import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.cli import bugreport, plan, view
from hostcc.cli.findings import Finding, State
from hostcc.client import RefusedError
from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.planner import Planner
from hostcc.daemon.planning.view_export import exported
from hostcc.errors import Exit, HostccError, InputError, NoAgentError
from tests.cli.full_disk import full_disk
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit

VIEW = one_link([job("a", work=2.0), job("b", weight=2.0)], [2.0, 2.0])
CONFIG = """\
[agent]
metrics_listen = "127.0.0.1:9464"
api_token = "hunter2"
[gossip]
keys = "/etc/hostcc/keys"
  "smtp-Password" = 'hunter2'
private_note = "hunter2"
"""
DROP_IN = """\
[agent]
log_level = "debug"
metrics_password = "hunter2"
"""


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What an agent answers by request; without a request it refuses."""
    config = tmp_path / "hostcc.toml"
    config.write_text(CONFIG)
    drop_in = tmp_path / "hostcc.d" / "10-own.toml"
    drop_in.parent.mkdir()
    drop_in.write_text(DROP_IN)
    monkeypatch.setattr("hostcc.cli.agent.SYSTEM_CONFIG", config)
    answers: dict[str, Any] = {name: {"asked": name} for name in bugreport.ASKED}
    answers["status"] = {"agent": {"config": str(config)}}
    answers["view"] = msgspec.to_builtins(exported(VIEW, PlanConfig(), in_force=True))

    def ask(path: Path, op: str, **fields: Any) -> Any:
        if not answers:
            raise NoAgentError("no agent at /run/x")
        if op not in answers:
            raise RefusedError("failed", f"no {op} \x1b[2J")
        return answers[op]

    monkeypatch.setattr(bugreport, "ask", ask)
    monkeypatch.setattr(view, "ask", ask)
    monkeypatch.setattr(bugreport, "_log", lambda: b"line\n")
    findings = [Finding("kernel", State.OK, "6.1", "all")]
    monkeypatch.setattr("hostcc.cli.diagnosis.examine", lambda _: findings)
    return answers


def call(tmp_path: Path, *words: str) -> tuple[Path, dict[str, bytes]]:
    parser = argparse.ArgumentParser()
    bugreport.register(parser.add_subparsers())
    out = tmp_path / "report.tar.gz"
    args = parser.parse_args(["bugreport", "--out", str(out), *words])
    assert args.func(args) == 0
    with tarfile.open(out) as archive:
        files = {
            entry.name.partition("/")[2]: archive.extractfile(entry).read()  # type: ignore[union-attr]
            for entry in archive
        }
    return out, files


def test_all_is_there_and_nothing_secret(
    agent: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, files = call(tmp_path)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    asked = {f"{name}.json" for name in bugreport.ASKED}
    others = {
        "versions.json",
        "view.json",
        "doctor.json",
        "hostcc.toml",
        "agent.log",
        "missing.json",
    }
    assert files.keys() == asked | others
    assert json.loads(files["missing.json"]) == {}
    assert json.loads(files["peers.json"]) == {"asked": "peers"}
    assert json.loads(files["versions.json"])["libraries"]["msgspec"]
    assert b"hunter2" not in b"".join(files.values())
    assert b'metrics_listen = "127.0.0.1:9464"' in files["hostcc.toml"]
    assert b'keys = "/etc/hostcc/keys"' in files["hostcc.toml"]
    assert b'log_level = "debug"' in files["hostcc.toml"]
    names = [line for line in files["hostcc.toml"].decode().splitlines() if line.startswith("# ")]
    assert names == [f"# {tmp_path}/hostcc.toml", f"# {tmp_path}/hostcc.d/10-own.toml"]
    assert "look through it before you publish it" in capsys.readouterr().out


def test_a_plan_of_its_view_is_the_agents_plan(
    agent: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, files = call(tmp_path, "--json")
    assert json.loads(capsys.readouterr().out)["missing"] == {}
    file = tmp_path / "view.json"
    file.write_bytes(files["view.json"])
    parser = argparse.ArgumentParser()
    plan.register(parser.add_subparsers())
    args = parser.parse_args(["plan", str(file), "--json"])
    assert args.func(args) == 0
    told = json.loads(capsys.readouterr().out)
    made = Planner(PlanConfig())(VIEW)
    assert told["digest"] == made.digest == VIEW.digest
    assert [one["job"] for one in told["jobs"]] == [one.job for one in made.jobs]


def test_without_an_agent_the_rest_is_there(
    agent: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent.clear()
    _, files = call(tmp_path)
    own = {"versions.json", "doctor.json", "hostcc.toml", "agent.log", "missing.json"}
    assert files.keys() == own
    assert b'log_level = "debug"' in files["hostcc.toml"]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2  # what no agent answers, the archive
    assert lines[0].endswith(": no agent at /run/x")


def test_what_the_agent_refuses_is_named(
    agent: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del agent["links"]
    agent["status"] = {"agent": {"config": "/etc/passwd"}}
    _, files = call(tmp_path)
    missing = json.loads(files["missing.json"])
    assert missing.keys() == {"links.json", "hostcc.toml"}
    assert "\x1b" not in capsys.readouterr().out


def test_no_file_is_replaced(agent: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "report.tar.gz").write_text("mine")
    with pytest.raises(InputError, match="expected a file that does not exist yet"):
        call(tmp_path)
    assert (tmp_path / "report.tar.gz").read_text() == "mine"


def test_a_full_disk_leaves_no_part_of_an_archive(agent: dict[str, Any], tmp_path: Path) -> None:
    """It would be in the way of the next one."""
    before = list(tmp_path.iterdir())
    with full_disk(), pytest.raises(HostccError, match="cannot be written: File too") as caught:
        call(tmp_path)
    assert caught.value.exit_status is Exit.FAILED
    assert list(tmp_path.iterdir()) == before
