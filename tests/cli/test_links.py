"""`hostcc links`: what is asked, and what people read."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.answers.links import Utilisation
from hostcc.cli import links, plan_summary
from hostcc.errors import HostccError, InputError, NoAgentError
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
    monkeypatch.setattr(links, "ask", made)
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
    assert heading.split()[:6] == ["Link", "Capacity", "Load", "Full", "Fit", "Jobs"]
    assert row.split()[:1] == ["link"]
    assert "1.00" in row  # ten jobs that send a tenth of the time
    assert "j6 (5, 0.10)" in row
    assert "and 2 more" in row
    assert "1.00 (0.10)" in row  # each sends in a tenth of its own
    assert "j1 for a, j0; j2 for a, j0; each for the other: a, j0; 6 more jobs" in row


def test_options_and_json(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--job", "a", "--all", "--limit", "1", "--json") == 0
    assert agent.asked == {"op": "links", "job": "a", "limit": 1, "every": True}
    told = json.loads(capsys.readouterr().out)
    (row,) = told["links"]
    assert row.pop("compatibility")["score"] == pytest.approx(1.0)
    assert row.pop("waits")[0]["shares_with"] == ["j0"]
    assert told == ANSWER


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_circles_of_a_view(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "view.json", tmp_path / f"circles.{kind}"
    view = one_link([job("a<b", compute=3.0), job("b", compute=1.0)], [1.0, 1.0])
    file.write_bytes(msgspec.json.encode(view).replace(b"a<b", b"a-b"))
    assert call("--view", str(file), "--plot", str(out)) == 0
    assert capsys.readouterr().out.endswith(f"drawn: {out}\n")
    assert out.read_bytes().startswith(b"\x89PNG" if kind == "png" else b"<?xml")
    assert out.stat().st_size > 2000


def test_nothing_to_draw(agent: Agent, tmp_path: Path) -> None:
    agent.answer = {**ANSWER, "links": [{**ANSWER["links"][0], "jobs": 17}]}
    with pytest.raises(HostccError, match="nothing to draw: more than 16 jobs"):
        call("--plot", str(tmp_path / "x.svg"))
    with pytest.raises(InputError, match=r"--plot: expected a name that ends in .png or .svg"):
        call("--plot", "x.gif")


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
