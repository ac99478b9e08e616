"""Records as tables."""

from __future__ import annotations

import io

from rich.console import Console

from benchmarks import show
from benchmarks.record import Column, Record, Verdict, spread

RECORD = Record(
    benchmark="x",
    title="what [it] is",
    parameters={},
    columns=[
        Column("name", "name"),
        Column("size", "MB", digits=1, scale=1e-6),
        Column("mean", "mean"),
        Column("more", "more"),
    ],
    rows=[
        {"name": "[one]", "size": 2_500_000, "mean": spread([1.0, 1.5, 1.25])},
        {"name": "two", "size": spread([1e6]), "mean": spread([None, None])},
    ],
    goals=[
        Verdict("one", "mean <= 1", spread([1.0, 2.0, 3.0]), 1, False),
        Verdict("two", "mean <= 9", spread([1.0]), 1, True),
    ],
    failures=["case 3: too slow"],
    notes=["a note"],
)


def test_median_range_goals_and_failures() -> None:
    out = io.StringIO()
    show.show(RECORD, Console(file=out, width=120))
    text = out.getvalue()
    for words in (
        "what [it] is",
        "[one]",
        "1.250 (1.000..1.500)",
        "2.5",
        "never",
        "2.000 (1.000..3.000)",
        "1/3",
        "FAIL",
        "PASS",
        "not measured: case 3: too slow",
        "a note",
    ):
        assert words in text
