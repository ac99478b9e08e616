"""Scenario files: what is accepted, and that everything else is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.errors import InputError
from hostcc.lab.scenario import Scenario, builtins, find, from_document, load

JOB = {"name": "a", "compute_ms": 100, "comm_ms": 90}
KEYS = ["fabric", "job", "name", "hosts", "flows", "comm_ms", "background", "kind", "action", "run"]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def refused(document: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        from_document(document, "x.toml")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("x.toml: ")
    return message


def test_defaults() -> None:
    scenario = from_document({"job": [JOB]}, "x")
    assert scenario.fabric.rate_mbit == 200
    assert scenario.fabric.buffer_packets == 60
    assert scenario.job[0].hosts == 2
    assert scenario.job[0].pattern == "push"


@pytest.mark.parametrize("name", builtins())
def test_every_builtin_is_valid(name: str) -> None:
    scenario = load(find(name))
    assert scenario.title
    assert scenario.compare


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, "job: expected at least one"),
        ({"job": [JOB], "fabrik": {}}, "fabrik: expected one of the keys"),
        ({"job": [JOB], "fabric": {"rate_mbit": 0}}, "fabric.rate_mbit: expected a number from 1"),
        ({"job": [JOB], "fabric": {"mtu": "big"}}, "fabric.mtu: expected a whole number"),
        ({"job": [JOB], "fabric": {"kind": "ring"}}, "fabric.kind: expected one of"),
        ({"job": [{**JOB, "flows": 0}]}, "job[0].flows: expected a whole number from 1 to 64"),
        ({"job": [{**JOB, "name": "a/b"}]}, "job[0].name: expected 1 to 64 characters"),
        ({"job": [JOB, JOB]}, "job[1].name: expected a name used once"),
        ({"job": [{**JOB, "bytes": 9}]}, "job[0].comm_ms: expected either comm_ms or bytes"),
        ({"job": [{"name": "a"}]}, "job[0].comm_ms: expected either comm_ms or bytes"),
        ({"job": [{**JOB, "hosts": 4}]}, "job[0].hosts: expected 2"),
        ({"job": [{**JOB, "hosts": 3, "pattern": "allreduce"}]}, "job[0].hosts: expected an even"),
        (
            {"job": [{**JOB, "hosts": 4, "pattern": "allreduce", "bytes_jitter_percent": 9}]},
            'job[0].bytes_jitter_percent: expected 0, or pattern = "push"',
        ),
        (
            {"job": [{**JOB, "hosts": 4, "pattern": "allreduce", "bursts": 2}]},
            'job[0].bursts: expected 1, or pattern = "push"',
        ),
        (
            {"job": [{**JOB, "bursts": 3, "burst_pause_ms": 1000}]},
            "job[0].burst_pause_ms: expected all pauses together within compute_ms",
        ),
        (
            {
                "job": [
                    {**JOB, "name": f"j{n}", "hosts": 32, "pattern": "allreduce"} for n in range(3)
                ]
            },
            "job: expected at most 64 hosts",
        ),
        ({"background": [{"kind": "udp"}]}, "background[0].rate_mbit: expected a rate above 0"),
        (
            {"background": [{"kind": "bulk", "start_ms": 5, "stop_ms": 4}]},
            "background[0].stop_ms: expected 0 or more",
        ),
        ({"job": [JOB], "action": [{"run": "unfair off"}]}, "action[0].at_ms: expected either"),
        ({"job": [JOB], "action": [{"run": "reboot", "at_ms": 1}]}, "action[0].run: expected"),
        ({"job": [JOB], "action": [{"run": [], "at_ms": 1}]}, "action[0].run: expected"),
        ({"job": [JOB], "iterations": float("nan")}, "iterations: expected a finite number"),
    ],
)
def test_refusals_name_key_and_expectation(document: dict[str, Any], expected: str) -> None:
    assert expected in refused(document)


@given(st.dictionaries(st.sampled_from([*KEYS, "iterations", "agent"]), values, max_size=5))
def test_any_document_is_understood_or_refused_in_one_line(document: dict[str, Any]) -> None:
    try:
        assert isinstance(from_document(document, "x.toml"), Scenario)
    except InputError as error:
        assert "\n" not in str(error)
        assert str(error).startswith("x.toml: ")


@given(st.dictionaries(st.text(max_size=6), values, max_size=3))
def test_any_job_is_understood_or_refused(extra: dict[str, Any]) -> None:
    try:
        from_document({"job": [{**JOB, **extra}]}, "x.toml")
    except InputError as error:
        assert str(error).startswith("x.toml: job[0]")


@given(st.binary(max_size=200))
def test_any_file_is_understood_or_refused(tmp_path_factory: Any, data: bytes) -> None:
    path = tmp_path_factory.mktemp("scenario") / "x.toml"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_missing_file_and_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable file"):
        load(tmp_path / "none.toml")
    with pytest.raises(InputError, match="two-jobs"):
        find("no-such-scenario")
    assert find("dir/x") == Path("dir/x")
