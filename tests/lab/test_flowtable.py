"""Tables of a leaf-spine fabric."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostcc.lab import flowtable
from hostcc.lab.flowreport import SettledResult
from tests.benchmarks.results import results, run

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ([0.5, 2.0], "0.5..2.0"),
        ([0.5, None, 2.0], "0.5..2.0, 1 not seen"),
        ([None, None], "not seen"),
    ],
)
def test_runs_in_which_a_flow_stood_still_are_told(seconds: list[Any], words: str) -> None:
    runs = [
        msgspec.structs.replace(
            run({"a": [0.1], "b": [0.1]}), settled=[SettledResult("spine-down 1", 3.0, one)]
        )
        for one in seconds
    ]
    (table,) = flowtable.tables(results("hostcc", runs, {}))
    assert list(table.columns[2].cells) == [words]
