"""Whose sockets: what the agent says, what a person says, and what is refused."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from hostcc.errors import HostccError, InputError, NoAgentError
from tools.tracing import socket_jobs as module
from tools.tracing.script import Output, Until
from tools.tracing.socket_jobs import (
    REMOTE,
    Jobs,
    TracedJob,
    add_job_options,
    cgroup_ids,
    decode_jobs,
    given_jobs,
    job_of,
    port_keys,
)

pytestmark = pytest.mark.unit

AGENT = {
    "name": "train",
    "slot": 3,
    "cgroup": None,
    "pids": [1],
    "local_ports": [7000],
    "remote_ports": ["8000-8001"],
    "parameters": {
        "variant": "cubic",
        "mode": "mltcp",
        "ratio_scope": "job",
        "shape": "linear",
        "slope": 1.75,
        "intercept": 0.25,
        "table": [],
        "weight": 1.0,
        "static_weight": 1.0,
        "silence_us": None,
        "something_new": 1,
    },
}


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_job_options(parser)
    return parser.parse_args(words)


def output() -> Output:
    return Output("trace-x", False, Until())


def test_what_the_agent_says() -> None:
    (job,) = decode_jobs({"jobs": [AGENT]})
    assert (job.name, job.slot) == ("train", 3)
    assert job.parameters is not None
    assert job.parameters.slope == 1.75
    assert port_keys([job]) == {
        7000: "train",
        8000 + REMOTE: "train",
        8001 + REMOTE: "train",
    }


@pytest.mark.parametrize("answer", [{}, {"jobs": 3}, {"jobs": [{"name": 7}]}])
def test_what_no_agent_says(answer: dict[str, Any]) -> None:
    with pytest.raises(HostccError, match=r"hostcc\.jobs/1"):
        decode_jobs(answer)


def test_what_a_person_says(tmp_path: Path) -> None:
    group = tmp_path / "group"
    (group / "nested").mkdir(parents=True)
    (group / "cgroup.procs").write_text("")
    ports, grouped = given_jobs(["a=7000-7001"], [f"b={group}"])
    assert set(port_keys([ports])) == {7000, 7001, 7000 + REMOTE, 7001 + REMOTE}
    assert cgroup_ids([ports, grouped]) == {
        group.stat().st_ino: "b",
        (group / "nested").stat().st_ino: "b",
    }


@pytest.mark.parametrize(
    ("ports", "cgroups"),
    [
        (["7000"], []),
        (["a=0"], []),
        (["a=9-8"], []),
        (["a=70000"], []),
        (["a=x"], []),
        (["a/b=7000"], []),
        (["=7000"], []),
        ([], ["a=/nowhere"]),
        ([], ["a"]),
    ],
)
def test_what_is_refused(ports: list[str], cgroups: list[str]) -> None:
    with pytest.raises(InputError, match=r"^--(port|cgroup): expected "):
        given_jobs(ports, cgroups)


def test_a_cgroup_decides_before_ports() -> None:
    ids = {5: "grouped"}
    ports = {7000: "local", 8000 + REMOTE: "remote"}
    assert job_of(5, 7000, 8000, ids, ports) == "grouped"
    assert job_of(6, 7000, 8000, ids, ports) == "local"
    assert job_of(6, 7001, 8000, ids, ports) == "remote"
    assert job_of(6, 8000, 7000, ids, ports) is None


def test_numbers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [["b"], ["a", "b"], ["a", "c"]]

    def ask(*_: object, **__: object) -> dict[str, Any]:
        names = answers.pop(0) if answers else ["c"]
        return {"jobs": [{**AGENT, "name": name} for name in names]}

    monkeypatch.setattr(module, "ask", ask)
    jobs = Jobs(options("--job", "b", "--job", "c"), output())
    assert {n: j.name for n, j in jobs.by_number().items()} == {1: "b"}
    assert jobs.refresh(now=True)
    assert not jobs.refresh()
    assert [job.name for job in jobs.wanted()] == ["b"]
    assert jobs.refresh(now=True)
    assert {n: j.name for n, j in jobs.by_number().items()} == {2: "c"}
    assert jobs.is_wanted("b")
    assert not jobs.is_wanted("a")
    assert not jobs.is_wanted(None)
    assert {job.name for job in jobs.all} == {"a", "c"}


def test_an_agent_that_goes_away_is_mentioned_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "ask", lambda *_, **__: {"jobs": [AGENT]})
    jobs = Jobs(options(), output())

    def gone(*_: object, **__: object) -> dict[str, Any]:
        raise NoAgentError("no agent at X")

    monkeypatch.setattr(module, "ask", gone)
    jobs.refresh(now=True)
    assert not jobs.refresh(now=True)  # nobody to be pressed
    monkeypatch.setattr(module, "REFRESH_S", 0.0)
    jobs.refresh()
    assert [job.name for job in jobs.all] == ["train"]
    assert capsys.readouterr().err == (
        "trace-x: no agent at X; going on with the jobs known so far\n"
    )


def test_given_jobs_need_no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ask", lambda *_, **__: pytest.fail("nobody is to be asked"))
    jobs = Jobs(options("--port", "a=7000"), output())
    assert not jobs.from_agent
    assert not jobs.refresh(now=True)
    assert jobs.all == [TracedJob("a", local_ports=("7000-7000",), remote_ports=("7000-7000",))]


def test_names_are_checked() -> None:
    with pytest.raises(InputError, match="--job"):
        Jobs(options("--job", "a/b"), output())
