"""The stored cases are all met, and a folder that is none is refused."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import golden, record
from benchmarks.context import Context
from hostcc.errors import InputError

pytestmark = [pytest.mark.unit, pytest.mark.slow]

STORED = Path(__file__).parents[1] / "schedule" / "golden"


def bench(folder: Path) -> record.Record:
    return golden.run(argparse.Namespace(folder=folder), Context(1, None))


def test_every_stored_case() -> None:
    found = bench(STORED)
    assert [row["case"] for row in found.rows if row["verdict"] != "optimal"] == []
    assert len(found.rows) == 59
    assert found.met
    assert record.decode(record.encode(found)).rows == found.rows


def test_a_wrong_optimum_is_noticed(tmp_path: Path) -> None:
    case = json.loads((STORED / "kcut.json").read_text())["cases"][0]
    case["optimal_cut"] += 1
    (tmp_path / "one.json").write_text(json.dumps({"cases": [case]}))
    assert not bench(tmp_path).met


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cases: expected"),
        ("{}", "cases: expected a list of cases, got none"),
        ("[" * 100_000, "cases: expected"),
        ('{"cases": [{"edges": ' + "[" * 100_000, "cases: expected"),
        (
            '{"cases":[{"name":"x","n":9,"K":2,"edges":[[0,1'
            + "0" * 400
            + ',1]],"optimal_cut":1}]}',
            r"cases\[0\]: ",
        ),
        ('{"cases": 3}', "cases: expected"),
        ('{"cases": [{"name": "x"}]}', "expected flows, edges or commodities"),
        ('{"cases": [{"edges": 1}]}', r"cases\[0\]: Expected"),
        (
            '{"cases":[{"name":"x","n":1,"K":2,"edges":[[0,5,1]],"optimal_cut":1}]}',
            "expected known",
        ),
        (
            '{"cases":[{"name":"","tors":1,"spines":2,"commodities":[[0,5,1]],"optimal_max_load":1}]}',
            "expected known",
        ),
    ],
)
def test_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "one.json").write_text(text)
    with pytest.raises(InputError, match=words):
        bench(tmp_path)
    with pytest.raises(InputError, match="expected a folder"):
        bench(tmp_path / "none")
