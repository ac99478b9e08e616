"""`hostcc plan`: a view in, the plan or an explanation out, one line for whatever is wrong."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostcc.cli import plan
from hostcc.cli.viewfile import view_of
from hostcc.errors import InputError, NoAgentError, NoJobError
from hostcc.model import ClusterView
from hostcc.sim.small import small_case
from tests.refusals import is_one_line
from tests.schedule.paths import problems
from tests.schedule.paths.test_free_paths import fabric
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit

VIEW = one_link([job("a", work=2.0), job("b", weight=2.0)], [1.0, 1.0])


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    plan.register(parser.add_subparsers())
    args = parser.parse_args(["plan", *words])
    status: int = args.func(args)
    return status


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "view.json"
    file.write_bytes(msgspec.json.encode(VIEW))
    return str(file)


def test_json(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(path, "--json", "--levels", "4", "--reserved", "0,1") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "hostcc.plan/1"
    assert answer["digest"] == "d"
    assert [one["level"] for one in answer["jobs"]] == [2, 3]
    assert [one["path"] for one in answer["flows"]] == ["p0", "p0"]


def test_work_that_a_view_lacks_is_assumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "view.json"
    profiles = [job("a", compute=0.4, work=0.0), job("b", compute=0.4, work=0.0, weight=3.0)]
    file.write_bytes(msgspec.json.encode(one_link(profiles, [1.0, 1.0])))
    assert call(str(file), "--json") == 0
    a, b = json.loads(capsys.readouterr().out)["jobs"]
    assert b["level"] < a["level"]
    assert call(str(file), "--explain", "b") == 0
    assert "W is assumed: equal for each host" in capsys.readouterr().out


def test_a_start_is_put_off_only_where_it_is_known_when_iterations_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "view.json"
    for told, expected in ({"phase_s": 0.0}, True), ({}, False):
        profiles = [job(name, compute=0.6, period_s=1.0, **told) for name in "ab"]
        file.write_bytes(msgspec.json.encode(one_link(profiles, [0.4, 0.4])))
        assert call(str(file)) == 0
        text = capsys.readouterr().out
        assert ("Start later by" in text) is expected
        assert ("when iterations begin is not known here" in text) is not expected


def test_table_and_explanation(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:3] == ["0", "a", "0"]
    assert "simulated" in lines[-1]
    assert call(path, "--explain", "b") == 0
    text = capsys.readouterr().out
    for words in ("Rank", "I = W / t", "Level", "weight 1", "time-shift", "f-b", "only path"):
        assert words in text
    assert call(path, "--explain", "b", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["schema"], answer["job"]) == ("hostcc.explanation/1", "b")
    assert answer["contenders"][0]["job"] == "a"


def test_flows_are_kept_apart_as_by_agents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = {flow.id: f"p{flow.id[-1]}" for flow in fabric({}).flows} | {"h2/f1": "p0"}
    file = tmp_path / "view.json"
    file.write_bytes(msgspec.json.encode(fabric(where)))
    assert call(str(file), "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    (moved,) = [one for one in answer["flows"] if one["path"] != where[one["flow"]]]
    assert moved["flow"] == "h2/f1"
    assert "1 move for a gain" in answer["reason"]
    assert call(str(file), "--explain", "j1") == 0
    assert "moves: predicted gain" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--levels", "4"], ["--reserved", "1"], ["--order", "crux"], ["--fairness", "1"]]
)
def test_the_agent_has_options_of_its_own(words: list[str]) -> None:
    with pytest.raises(InputError, match=f"{words[0]}: expected together with VIEW"):
        call(*words)


@pytest.mark.parametrize(
    "words",
    [
        ("--most-loss", "nan"),
        ("--fairness", "-1"),
        ("--levels", "0"),
        ("--reserved", "9"),
        ("--paths", "none"),
        ("--order", "none"),
        ("--compression", "none"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, words: tuple[str, str]) -> None:
    path = tmp_path / "view.json"
    path.write_bytes(msgspec.json.encode(VIEW))
    with pytest.raises(InputError, match=f"^{words[0]}: expected "):
        call(str(path), *words)


def test_a_job_that_is_not_planned(path: str) -> None:
    with pytest.raises(NoJobError, match="no job 'nobody' among the 2"):
        call(path, "--explain", "nobody")


def test_a_loss_of_all_is_no_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "view.json"
    path.write_bytes(msgspec.json.encode(VIEW))
    shown = []
    for words in ((), ("--most-loss", "1")):
        assert call(str(path), *words) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_without_an_agent_there_is_no_plan(tmp_path: Path) -> None:
    with pytest.raises(NoAgentError):
        call("--socket", str(tmp_path / "none"))


@given(problems.views())
def test_an_encoded_view_reads_back_as_it_was(view: ClusterView) -> None:
    assert view_of(msgspec.json.encode(view), "FILE") == view


def test_generated_views_read_back() -> None:
    for index in range(3):
        view = small_case(0, index)
        assert view_of(msgspec.json.encode(view), "FILE") == view


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"jobs": 3}, "jobs: expected"),
        ({"extra": 1}, "unknown key"),
        ({"links": [["link", -1]]}, r"links\[0\]\[1\]|links"),
        ({"links": []}, "expected known links"),
        ({"jobs": [{"job": "a", "compute": 1}]}, "unknown key"),
        (
            {"jobs": [{"job": "a/b", "compute_s": 1, "comm_start_s": 1, "work": 1, "gpus": 1}]},
            "job",
        ),
        (
            {
                "jobs": [
                    {"job": job, "compute_s": 1, "comm_start_s": 1, "work": 1, "gpus": 1}
                    | {"weight": 0}
                    for job in "ab"
                ]
            },
            r"jobs\[0\].weight: expected",
        ),
    ],
)
def test_wrong_files_are_refused(path: str, change: dict[str, Any], words: str) -> None:
    given_ = json.loads(Path(path).read_text())
    Path(path).write_text(json.dumps(given_ | change))
    with pytest.raises(InputError, match=words) as error:
        call(path, "--explain", "a")
    assert is_one_line(str(error.value))
    assert path in str(error.value)


@pytest.mark.parametrize(
    "words",
    [
        ["--levels", "0"],
        ["--reserved", "x"],
        ["--reserved", "9"],
        ["--fairness", "nan"],
        ["--most-loss", "2"],
        ["--most-loss", "nan"],
        ["--paths", "nowhere"],
    ],
)
def test_wrong_options_are_refused(path: str, words: list[str]) -> None:
    with pytest.raises(InputError, match="expected") as error:
        call(path, *words)
    assert is_one_line(str(error.value))


@given(st.binary(max_size=100) | st.recursive(
    st.none() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["jobs", "flows", "tables", "links", "x"]), inner),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
@example(b'{"jobs": "\xff"}')
def test_any_bytes_end_in_an_input_error_or_a_view(data: bytes) -> None:
    try:
        view_of(data, "FILE")
    except InputError as error:
        assert is_one_line(str(error))
