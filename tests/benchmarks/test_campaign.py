"""Many lab cases: order, resuming, failures; the lab itself is replaced."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import campaign
from benchmarks.campaign import Group
from benchmarks.context import Context
from benchmarks.shift_cases import scenario_of
from hostcc.lab import runner
from hostcc.lab.errors import LabError
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.results import LeafSpineResults, Results, convert
from tests.benchmarks.results import SCENARIO, results, run

GROUPS = (Group("one", SCENARIO, ("cubic", "reno")), Group("two", SCENARIO, ("cubic",)))


class Lab:
    """Notes what it is asked for; fails where told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str, int]] = []
        self.seeds: list[int] = []
        self.broken: set[str] = set()
        monkeypatch.setattr(runner, "run", self.run)

    def run(self, comparison: runner.Comparison, report: runner.Report) -> Results:
        (variant,) = comparison.variants
        self.seeds.append(comparison.seed)
        self.asked.append((comparison.name, variant.name, comparison.scenario.alone_iterations))
        if variant.name in self.broken:
            raise LabError("too slow to be useful")
        report("x", 1, 1)
        seconds = [0.1 * len(self.asked)] * 3
        return results(variant.name, [run({"a": seconds, "b": seconds})], {"a": [0.1], "b": [0.1]})


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(monkeypatch)


def test_runs_are_interleaved_and_alone_is_measured_once(lab: Lab) -> None:
    told: list[float] = []
    found = campaign.run(GROUPS, Context(2, None, tell=lambda _, done, of: told.append(done / of)))
    assert lab.asked == [
        ("one", "cubic", 8),
        ("one", "reno", 8),
        ("two", "cubic", 8),
        ("one", "cubic", 0),
        ("one", "reno", 0),
        ("two", "cubic", 0),
    ]
    assert found.failures == []
    assert found.cells("one")["cubic"]["mean"].values == pytest.approx((1.0, 4.0))
    assert found.cells("two")["cubic"]["mean"].values == pytest.approx((3.0, 6.0))
    assert told == sorted(told)
    assert told[-1] <= 1


def test_each_run_draws_anew(lab: Lab) -> None:
    campaign.run(GROUPS[1:], Context(3, None))
    assert lab.seeds == [1, 2, 3]


def test_goes_on_where_it_was_stopped(lab: Lab, tmp_path: Path) -> None:
    def stop(line: str) -> None:
        if line.startswith("2/"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.run(GROUPS, Context(1, tmp_path, say=stop))
    assert len(lab.asked) == 2
    shown = campaign.run(GROUPS, Context(1, tmp_path, report_only=True))
    assert set(shown.parts) == {"one"}
    assert len(lab.asked) == 2
    whole = campaign.run(GROUPS, Context(1, tmp_path))
    assert lab.asked[2:] == [("two", "cubic", 8)]
    assert set(whole.parts) == {"one", "two"}
    campaign.run(GROUPS, Context(1, tmp_path, fresh=True))
    assert len(lab.asked) == 6


def test_cases_on_every_kind_of_fabric_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []

    def measure(comparison: runner.Comparison, _: runner.Report) -> Results:
        asked.append(comparison.name)
        (variant,) = comparison.variants
        found = results(variant.name, [run({"a": [0.1] * 3, "b": [0.1] * 3})], {})
        assert isinstance(comparison.scenario, LeafSpineScenario)
        return convert({**msgspec.to_builtins(found), "scenario": placed})

    groups = [Group("ring", scenario_of("rings-1"), ("cubic",))]
    placed = msgspec.to_builtins(groups[0].scenario)
    monkeypatch.setattr(runner, "run", measure)
    first = campaign.run(groups, Context(1, tmp_path))
    again = campaign.run(groups, Context(1, tmp_path))
    assert asked == ["ring"]
    assert again.parts == first.parts
    assert isinstance(again.parts["ring"][0], LeafSpineResults)


def test_another_scenario_is_another_case(lab: Lab, tmp_path: Path) -> None:
    campaign.run(GROUPS[1:], Context(1, tmp_path))
    other = msgspec.structs.replace(SCENARIO, iterations=7)
    campaign.run([Group("two", other, ("cubic",))], Context(1, tmp_path))
    assert len(lab.asked) == 2


def test_a_failing_case_does_not_end_the_others(lab: Lab) -> None:
    lab.broken.add("reno")
    found = campaign.run(GROUPS, Context(1, None))
    assert found.failures == ["one, reno-1: too slow to be useful"]
    assert set(found.cells("one")) == {"cubic"}
    assert found.cells("two")
    assert found.cells("three") == {}


def test_results_and_plots_are_kept(lab: Lab, tmp_path: Path) -> None:
    found = campaign.run(GROUPS, Context(1, tmp_path))
    written = campaign.keep(found, tmp_path)
    assert {path.name for path in written} == {"results.json", "cdf.png", "iterations.png"}
    assert all(path.stat().st_size for path in written)
