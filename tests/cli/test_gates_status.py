"""Turns in the status: who waits for whom, for how long, and why others do not."""

from __future__ import annotations

import pytest

from hostcc.answers.parts import GatedJob, GatesPart, PathsPart
from hostcc.cli import gates_status
from hostcc.cli.main import main

pytestmark = pytest.mark.unit


def test_lines() -> None:
    rows = [
        GatedJob(job="a", rivals=["b"], turns_waited=28, held_s=1.0, held_per_iteration_s=0.01),
        GatedJob(job="b", rivals=[f"j{n}" for n in range(10)]),
        GatedJob(job="c", reason="it pauses"),
        GatedJob(job="d", reason="it pauses"),
    ]
    assert gates_status.lines([PathsPart(), GatesPart(gated=rows)]) == [
        "a takes turns with b: waited 28 times, 10.0 ms an iteration",
        "b takes turns with j0, j1, j2, j3, j4, j5, j6, j7 and 2 more: waited 0 times",
        "takes no turns, it pauses: c, d",
    ]
    assert gates_status.lines([]) == []


@pytest.mark.parametrize("words", [["shifts"], ["shifts", "sideways"]])
def test_a_wrong_word_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "hostcc shifts: " in capsys.readouterr().err
