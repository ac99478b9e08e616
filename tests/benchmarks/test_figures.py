"""Aggregation of lab results."""

from __future__ import annotations

import pytest

from benchmarks.campaign import cells
from benchmarks.figures import combined, figures
from hostcc.lab import scenario_hosts
from tests.benchmarks.results import SCENARIO, results, run


def test_denominator_is_the_best_time_alone_of_all_variants() -> None:
    first = results("hostcc", [run({"a": [0.2] * 4, "b": [0.3] * 4})], {"a": [0.11], "b": [0.1]})
    second = results("cubic", [run({"a": [0.4] * 4, "b": [0.6] * 4})], {"a": [0.1], "b": [0.12]})
    both = combined([first, second])
    assert [variant.name for variant in both.variants] == ["hostcc", "cubic"]
    hostcc, cubic = (figures(variant.runs[0]) for variant in both.variants)
    assert hostcc.mean == pytest.approx((2 + 3) / 2)
    assert hostcc.slowest_job == pytest.approx(3)
    assert cubic.mean == pytest.approx((4 + 6) / 2)
    assert both.variants[0].runs[0].jobs[0].summary.own_alone_s == pytest.approx(0.11)


def test_later_runs_use_the_times_alone_of_the_first() -> None:
    first = results("hostcc", [run({"a": [0.2], "b": [0.2]})], {"a": [0.2], "b": [0.2]})
    second = results("hostcc", [run({"a": [0.4], "b": [0.4]})])
    (variant,) = combined([first, second]).variants
    assert [figures(entry).mean for entry in variant.runs] == pytest.approx([1.0, 2.0])


def test_without_times_alone_the_computed_ideal_counts() -> None:
    ideal = scenario_hosts.ideal_seconds(SCENARIO.job[0], SCENARIO.fabric)
    both = combined([results("cubic", [run({"a": [2 * ideal], "b": [3 * ideal]})])])
    assert figures(both.variants[0].runs[0]).mean == pytest.approx(2.5)


def test_rest_is_after_the_tenth_and_p99_of_the_worst_job() -> None:
    times = {"a": [0.2] * 10 + [0.1] * 10, "b": [0.2] * 10 + [0.1] * 9 + [0.3]}
    alone = {"a": [0.1], "b": [0.1]}
    (variant,) = combined([results("cubic", [run(times)], alone)]).variants
    found = figures(variant.runs[0])
    assert found.first == pytest.approx(2.0)
    assert found.rest == pytest.approx((1.0 + 1.2) / 2)
    assert found.p99_rest > 2.5
    assert found.converged_after == 10


def test_cells_are_spreads_over_the_runs() -> None:
    parts = [
        results(
            "cubic",
            [run({"a": [value], "b": [value]}, loss=value, background=10 * value)],
            {"a": [0.1], "b": [0.1]},
        )
        for value in (0.1, 0.3, 0.2)
    ]
    (cell,) = cells(combined(parts)).values()
    assert cell["mean"].values == pytest.approx((1.0, 3.0, 2.0))
    assert (cell["mean"].least, cell["mean"].median) == pytest.approx((1.0, 2.0))
    assert cell["loss_percent"].greatest == pytest.approx(0.3)
    assert cell["background_mbit"].median == pytest.approx(2.0)
