"""The command line's changes obey the rules of the file."""

from __future__ import annotations

import pytest

from hostcc.cli.main import build_parser
from hostcc.errors import InputError
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.override import overridden, without_none
from hostcc.lab.scenario import find, load


def test_nothing_given_changes_nothing() -> None:
    scenario = load(find("toggle"))
    assert overridden(scenario, {"rate": None, "flows": None}) == scenario


def test_changes_reach_fabric_and_every_job() -> None:
    scenario = overridden(
        load(find("six-jobs")),
        {"rate": 100.0, "buffer": 60, "rtt_us": 500, "flows": 8, "iterations": 5, "alone": 0},
    )
    assert scenario.fabric.rate_mbit == 100
    assert scenario.fabric.buffer_packets == 60
    assert scenario.fabric.base_rtt_us == 500
    assert {job.flows for job in scenario.job} == {8}
    assert (scenario.iterations, scenario.alone_iterations) == (5, 0)


def test_work_is_kept_from_agents_where_there_is_any() -> None:
    words = ["lab", "run", "crux-20", "--no-flops"]
    args = vars(build_parser("lab").parse_args(words))
    given, told = load(find("crux-20")), overridden(load(find("crux-20")), args)
    assert isinstance(given, LeafSpineScenario)
    assert isinstance(told, LeafSpineScenario)
    assert [job.declare_flops for job in told.job] == [False] * 4
    assert [job.flops for job in told.job] == [job.flops for job in given.job]
    plain = load(find("two-jobs"))
    assert overridden(plain, {"declare_flops": False}) == plain


def test_bad_values_are_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"^command line: fabric.rate_mbit: expected"):
        overridden(load(find("two-jobs")), {"rate": -1.0})
    with pytest.raises(InputError, match=r"^command line: job\[0\].flows: expected"):
        overridden(load(find("two-jobs")), {"flows": 1000})


def test_without_none_keeps_everything_else() -> None:
    assert without_none({"a": None, "b": [{"c": None, "d": 0}], "e": False}) == {
        "b": [{"d": 0}],
        "e": False,
    }
