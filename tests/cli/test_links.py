"""`hostcc links`: what is asked, and what people read."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.answers.links import Utilisation
from hostcc.cli import common, links, plan_summary
from hostcc.errors import InputError, NoAgentError
from hostcc.schedule.link_rows import list_links
from hostcc.schedule.plan import solve
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit

NAMES = ["a", *(f"j{at}" for at in range(9))]
FOUND = solve(one_link([job(name, compute=9.0) for name in NAMES], [1.0] * len(NAMES)))
ANSWER = json.loads(msgspec.json.encode(list_links(FOUND, "abcdef" * 4, 10)))


class Agent:
    """Answers, and remembers what it was asked."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer, self.asked = answer, dict[str, Any]()

    def __call__(self, path: Path, op: str, **fields: Any) -> dict[str, Any]:
        self.asked = {"op": op, **fields}
        return self.answer


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    made = Agent(ANSWER)
    monkeypatch.setattr(common, "ask", made)
    return made


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    links.register(parser.add_subparsers())
    args = parser.parse_args(["links", *words])
    status: int = args.func(args)
    return status


def test_the_table(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    assert agent.asked == {"op": "links", "job": None, "limit": 100, "every": None}
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[:5] == ["Link", "Capacity", "Load", "Full", "Jobs"]
    assert row.split()[:1] == ["link"]
    assert "1.00" in row  # ten jobs that send a tenth of the time
    assert "j6 (5, 0.10)" in row
    assert row.endswith("and 2 more")


def test_options_and_json(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--job", "a", "--all", "--limit", "1", "--json") == 0
    assert agent.asked == {"op": "links", "job": "a", "limit": 1, "every": True}
    assert json.loads(capsys.readouterr().out) == ANSWER


def test_none_and_more_than_are_shown(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    agent.answer = {**ANSWER, "total": 7}
    call()
    assert capsys.readouterr().err == "1 of 7 links; see --limit\n"
    agent.answer = {**ANSWER, "total": 0, "links": []}
    call()
    assert capsys.readouterr().out == "no such links in the plan of view abcdefabcdef\n"


def test_a_link_with_escapes_does_nothing_to_a_terminal(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = ANSWER["links"]
    agent.answer = {**ANSWER, "links": [{**row, "link": "x\x1b[2J\nfake"}]}
    call()
    assert "\x1b" not in (out := capsys.readouterr().out)
    assert len(out.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "expected"), [(["--limit", "0"], "--limit: expected 1 to"), (["--job", "/"], "--job")]
)
def test_wrong_options(words: list[str], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        call(*words)


def test_without_an_agent(tmp_path: Path) -> None:
    with pytest.raises(NoAgentError):
        call("--socket", str(tmp_path / "none"))


def test_the_line_of_status() -> None:
    told = Utilisation(
        predicted=0.954, predicted_jobs=12, measured=None, measured_jobs=0, by_work=True,
        at_risk=5, relieved=4, links=(), age_s=1.0,
    )  # fmt: skip
    (line,) = plan_summary.cluster(told)
    assert line == (
        "GPU utilisation: 95.4% as planned (12 jobs), unknown as measured; "
        "5 jobs are at risk of contention, 4 of them relieved"
    )
    calm = msgspec.structs.replace(told, at_risk=0, relieved=0, measured=1.0, measured_jobs=3)
    assert plan_summary.cluster(calm)[0].endswith(
        "100.0% as measured (3 jobs); 0 jobs are at risk of contention"
    )
    assert plan_summary.cluster(None) == []
