"""Names of a comparison."""

from __future__ import annotations

import pytest

from hostcc.errors import InputError
from hostcc.lab.scenario import from_document
from hostcc.lab.variants import by_socket, merge, resolve

JOB = {"name": "a", "compute_ms": 1, "comm_ms": 1}


def test_kernel_controls_need_no_agent() -> None:
    (cubic,) = resolve(["cubic"], from_document({"job": [JOB]}, "x"))
    assert cubic.agent is None
    assert cubic.default_control == "cubic"
    assert by_socket("reno").socket_control == "reno"


def test_scenario_table_is_laid_under_the_variant() -> None:
    document = {
        "job": [JOB],
        "agent": {"mltcp": {"slope": 2.0, "variant": "cubic"}, "agent": {"heartbeat_s": 1.0}},
        "variant": [
            {"name": "mine", "agent": {"mltcp": {"shape": "exponential"}}},
            {"name": "plain", "congestion_control": "reno"},
        ],
    }
    scenario = from_document(document, "x")
    hostcc, mine, plain = resolve(["hostcc", "mine", "plain"], scenario)
    assert hostcc.agent is not None
    assert mine.agent is not None
    assert hostcc.agent["mltcp"]["slope"] == 2.0
    assert hostcc.agent["mltcp"]["variant"] == "hostcc"
    assert hostcc.agent["agent"] == {"heartbeat_s": 1.0}
    assert mine.agent["mltcp"] == {"slope": 2.0, "variant": "cubic", "shape": "exponential"}
    assert (plain.agent, plain.default_control) == (None, "reno")


def test_unknown_names_are_refused_with_what_is_known() -> None:
    with pytest.raises(InputError, match=r"variants: expected one of .*hostcc.*got \"nope\""):
        resolve(["nope"], from_document({"job": [JOB]}, "x"))


@pytest.mark.parametrize("control", ["nosuch", "", "x" * 40])
def test_only_controls_that_the_kernel_has(control: str) -> None:
    with pytest.raises(InputError, match="--cc: expected a congestion control that this kernel"):
        by_socket(control)


def test_merge_leaves_its_arguments_alone() -> None:
    base = {"a": {"b": 1}}
    assert merge(base, {"a": {"c": 2}, "d": 3}) == {"a": {"b": 1, "c": 2}, "d": 3}
    assert base == {"a": {"b": 1}}
