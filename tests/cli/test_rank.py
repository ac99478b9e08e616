"""`hostcc rank`: a file in, the order out, one line for whatever is wrong."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostcc.cli import rank
from hostcc.errors import InputError
from tests.refusals import is_one_line

pytestmark = pytest.mark.unit

GIVEN: dict[str, Any] = {
    "jobs": [
        {"name": "a", "period_s": 1.0, "phases": [[0.0, 0.5, 100.0]]},
        {"name": "b", "period_s": 1.0, "phases": [[0.25, 0.75, 100.0]]},
        {"name": "c", "period_s": 1.0, "phases": [[0.0, 1.0, 100.0]]},
    ],
    "links": {"x": 100.0},
    "candidates": [
        {"name": "bad", "jobs_on": {"x": ["a", "c"]}},
        {"name": "good", "jobs_on": {"x": ["b", "a"]}},
    ],
}


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    rank.register(parser.add_subparsers())
    args = parser.parse_args(["rank", *words])
    status: int = args.func(args)
    return status


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "candidates.json"
    path.write_text(json.dumps(GIVEN))
    assert call(str(path), "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "hostcc.rank/1"
    good, bad = answer["candidates"]
    assert (good["name"], bad["name"]) == ("good", "bad")
    assert good["score"] == pytest.approx(1.0)
    assert good["shifts"] == pytest.approx({"a": 0.0, "b": 0.25})
    assert bad["links"] == pytest.approx({"x": 0.5})


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "candidates.json"
    path.write_text(json.dumps(GIVEN))
    assert call(str(path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:3] == ["1", "good", "1.0000"]
    assert any("time-shifts of good" in line for line in lines)
    assert lines[-1].split() == ["b", "250", "ms"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"jobs": GIVEN["jobs"] * 2}, "each name once"),
        ({"links": {"x": 0}}, "links"),
        ({"links": {}}, "known links"),
        ({"extra": 1}, "unknown key"),
        ({"jobs": [{"name": "a", "period_s": -1, "phases": []}]}, "period_s"),
        ({"jobs": [{"name": "a", "period_s": 1, "phases": [[1, 0, 1]]}]}, "phases"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "candidates.json"
    path.write_text(json.dumps(GIVEN | change))
    with pytest.raises(InputError, match=words) as error:
        call(str(path))
    assert is_one_line(str(error.value))
    assert str(path) in str(error.value)


def test_missing_files_and_wrong_options(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        call(str(tmp_path / "none"))
    with pytest.raises(InputError, match="--tolerance"):
        call("x", "--tolerance", "0.7")


@given(st.binary(max_size=100) | st.recursive(
    st.none() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
@example(b'{"jobs": "\xff"}')
def test_any_bytes_end_in_an_input_error(data: bytes) -> None:
    try:
        rank.rank_file(data, "FILE", 0.01)
    except InputError as error:
        assert is_one_line(str(error))
