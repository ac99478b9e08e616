"""`hostcc view`: the document as `hostcc plan` reads it, whatever an agent sends."""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.cli import plan, view, viewfile
from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.planner import Planner
from hostcc.daemon.planning.view_export import exported
from hostcc.errors import Exit, HostccError, InputError
from hostcc.model import ClusterView
from tests.cli.full_disk import full_disk
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit

VIEW = one_link([job("a", work=2.0), job("b", weight=2.0)], [2.0, 2.0])
CONFIG = PlanConfig(levels=5, reserved=(0,))


def call(*words: str, of: Any = view) -> int:
    parser = argparse.ArgumentParser()
    of.register(parser.add_subparsers())
    args = parser.parse_args([of.__name__.rpartition(".")[2], *words])
    status: int = args.func(args)
    return status


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the agent answers; may be changed."""
    told: dict[str, Any] = msgspec.to_builtins(exported(VIEW, CONFIG, in_force=True))
    monkeypatch.setattr(view, "ask", lambda *_: told)
    return told


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_what_is_printed_is_the_view(
    answer: dict[str, Any], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words) == 0
    assert viewfile.view_of(capsys.readouterr().out.encode(), "OUT") == VIEW


def test_a_plan_of_the_file_is_the_agents_plan(
    answer: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "view.json"
    assert call("--out", str(file)) == 0
    assert capsys.readouterr().out == f"view d written to {file}\n"
    assert call(str(file), "--json", of=plan) == 0
    told = json.loads(capsys.readouterr().out)
    agents = json.loads(msgspec.json.encode(Planner(CONFIG)(VIEW)))
    assert {key: told[key] for key in agents} == agents
    assert call(str(file), "--json", "--levels", "2", "--reserved", "0", of=plan) == 0
    told = json.loads(capsys.readouterr().out)  # the command line goes before the file
    assert {one["level"] for one in told["jobs"]} == {1}


def test_a_method_that_is_unknown_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "view.json"
    file.write_text(json.dumps({"options": {"order": "x"}}))
    with pytest.raises(InputError, match=r"view.json: options.order: expected one of"):
        call(str(file), of=plan)
    with pytest.raises(InputError, match="--order: expected one of"):
        call(str(file), "--order", "y", of=plan)


LATIN = """
import argparse, pathlib
from hostcc.answers.view import View
from hostcc.cli import view
answer = View(digest="d", in_force=True, document="")
view.fetch = lambda _: (answer, '{"members": ["\\u00fcber\\u2192"]}'.encode())
view.run(argparse.Namespace(socket=None, out=pathlib.Path("view.json")))
"""


def test_the_file_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    root = str(Path(view.__file__).parents[2])
    environment = {**os.environ, **plain, "PYTHONPATH": root}
    subprocess.run([sys.executable, "-c", LATIN], cwd=tmp_path, env=environment, check=True)
    found = viewfile.view_of((tmp_path / "view.json").read_bytes(), "OUT")
    assert found.members == ("\N{LATIN SMALL LETTER U WITH DIAERESIS}ber\N{RIGHTWARDS ARROW}",)


def test_a_file_that_cannot_be_written(answer: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a file that can be written, got: No such file"):
        call("--out", str(tmp_path / "none" / "view.json"))


@pytest.mark.parametrize("document", ["?", "AAAA", base64.b64encode(zlib.compress(b"\xff"))])
def test_whatever_is_no_view_is_refused(answer: dict[str, Any], document: str | bytes) -> None:
    answer["document"] = document if isinstance(document, str) else document.decode()
    with pytest.raises(HostccError, match="sent no view"):
        call()


def test_a_view_that_never_ends_is_refused(
    answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "MAX_BYTES", 100)
    with pytest.raises(HostccError, match="more than 100 bytes"):
        call()


def test_an_empty_view_is_one(answer: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    empty = exported(ClusterView(digest="e"), PlanConfig(), in_force=False)
    answer |= msgspec.to_builtins(empty)
    assert call() == 0
    assert viewfile.view_of(capsys.readouterr().out.encode(), "OUT") == ClusterView(digest="e")


def test_a_full_disk_is_no_wrong_input(answer: dict[str, Any], tmp_path: Path) -> None:
    with full_disk(), pytest.raises(HostccError, match="cannot be written: File too") as caught:
        call("--out", str(tmp_path / "view.json"))
    assert caught.value.exit_status is Exit.FAILED
