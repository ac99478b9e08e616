"""Real jobs seen by the meter: one small run from end to end."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchmarks import boundaries, period_real
from benchmarks.cases import Identity
from benchmarks.context import Context
from benchmarks.period_real import ALL, FIRST, LAST, DetectedPeriod, between
from hostcc.lab import scenario
from hostcc.measure.series import series
from hostcc.measure.series_file import load

RUNS = 12
"""On a machine that is busy with something else iterations are not alike."""


@pytest.mark.unit
def test_between() -> None:
    made = dataclasses.replace(series(np.arange(10), None, 100_000_000), start_ns=2 * 10**9)
    assert between(made, 2.2, 2.5).tx.tolist() == [2, 3, 4]


@pytest.mark.unit
def test_right_is_both() -> None:
    good = DetectedPeriod("a", ALL, 0.1, 0.102, 0.99, "")
    assert good.right
    for change in ({"found_s": 0.11}, {"sent": 0.9}, {"found_s": None}):
        assert not msgspec.structs.replace(good, **change).right


@pytest.mark.unit
@pytest.mark.parametrize(
    "identity",
    [lambda path: period_real._identity(path, "cubic", 40),
     lambda path: boundaries._identity(path, "hostcc", 100, 60)],
)  # fmt: skip
def test_another_scenario_in_the_same_file_is_another_case(
    identity: Callable[[str], Identity], tmp_path: Path
) -> None:
    path = tmp_path / "own.toml"
    found = []
    for compute_ms in (100, 200):
        path.write_text(f'[[job]]\nname = "a"\ncompute_ms = {compute_ms}\ncomm_ms = 50\n')
        found.append(identity(str(path)))
    assert found[0].definition != found[1].definition
    assert found[0].digest != found[1].digest


@pytest.mark.unit
def test_variants_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(_name: str, variant: str, _: int, number: int, _out: None) -> list[DetectedPeriod]:
        asked.append((number, variant))
        return [DetectedPeriod("a", one, 0.1, 0.1, 1.0, "") for one in (FIRST, LAST, ALL)]

    monkeypatch.setattr(period_real, "_measure_named", measure)
    args = argparse.Namespace(scenarios=("two-jobs",), variants=("cubic", "hostcc"), iterations=40)
    period_real.run(args, Context(2, None))
    assert asked == [(1, "cubic"), (1, "hostcc"), (2, "cubic"), (2, "hostcc")]


@pytest.mark.kernel
def test_a_job_alone(tmp_path: Path) -> None:
    wanted = scenario.load(scenario.find("two-jobs"))
    alone = msgspec.structs.replace(wanted, job=wanted.job[:1])
    found: list[DetectedPeriod] = []
    number = 0
    while number < RUNS and not (found and found[-1].right):
        number += 1
        found = period_real.measure(alone, "cubic", 12, number, tmp_path)
        assert [one.stretch for one in found] == [FIRST, LAST, ALL]
    assert found[-1].right, found
    kept = sorted(tmp_path.rglob("*-all.npz"))
    assert len(kept) == number
    assert load(kept[-1]).meta.job == "job-a"
