"""Churn of jobs under agents: arithmetic, and a short run of it whose hosts are as before."""

from __future__ import annotations

import os
import time

import pytest

from benchmarks import host_dump, paths_churn
from benchmarks.churn_stage import ChurnStage
from benchmarks.held import KernelResources, held, outliving
from benchmarks.paths_churn import Figures, at, entries, growth, judge, objects
from tests.patience import until


def holding(*, progs: tuple[int, ...] = (1,), entries: int = 0) -> KernelResources:
    return KernelResources(
        {"prog": progs, "map": (2,), "link": ()}, {"steer_out": entries}, 9, 2, 1
    )


def figures(**over: int) -> Figures:
    base = Figures(10, 1.0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, [1.0, 2.0], [], 4, [])
    return Figures(**{key: over.get(key, getattr(base, key)) for key in base.__struct_fields__})


@pytest.mark.unit
def test_what_has_grown() -> None:
    before = {"h1": holding()}
    assert entries(before, {"h1": holding()}) == {}
    assert entries(before, {"h1": holding(entries=3)}) == {"h1 steer_out": 3}
    assert objects(before, {"h1": holding(progs=(7, 8))}) == {"h1 prog": 1}
    assert growth([1.0, 2.0]) == 0.0
    assert growth([1.0, 1.0, 9.0, 3.0, 3.0, 3.0]) == 2.0


@pytest.mark.unit
def test_each_failure_is_one_goal() -> None:
    assert all(verdict.met for verdict in judge([figures(more_files=2)]))
    for key in ("broken", "leaked_entries", "leaked_objects", "unverified", "changed", "outlived"):
        assert [v.met for v in judge([figures(**{key: 1})])].count(False) == 1


@pytest.mark.unit
def test_percentiles_and_dumps() -> None:
    assert (at(0.5, [1.0, 2.0, 3.0]), at(0.99, [1.0, 2.0]), at(0.5, [])) == (2.0, 2.0, None)
    before = {"ip addr": "a\nb", "sysctl -a": "x = 1"}
    assert host_dump.differences(before, before) == []
    assert host_dump.differences(before, {"ip addr": "a\nb\nc", "sysctl -a": "x = 2"}) == [
        "ip addr: + c", "sysctl -a: - x = 1", "sysctl -a: + x = 2",
    ]  # fmt: skip


@pytest.mark.kernel
def test_a_process_without_bpf_holds_none() -> None:
    mine = held(os.getpid())
    assert mine.open_files > 2
    assert outliving(KernelResources({"prog": (), "map": (2**31,), "link": ()}, {}, 0, 0, 0)) == []


@pytest.mark.kernel
def test_jobs_come_and_go_and_hosts_are_as_before() -> None:
    with ChurnStage() as stage:

        def changed() -> str:
            return "\n".join(host_dump.differences(stage.before["h1"], stage.dump("h1")))

        def are_up() -> bool:
            answers = [stage.ask(name, "status") for name in stage.agents]
            parts = [part for answer in answers for part in answer["parts"]]
            return all((answer["gossip"] or {}).get("agreed") for answer in answers) and all(
                part["state"] == "running" or part.get("reason") for part in parts
            )

        def is_seen() -> bool:
            text = changed()
            words = ("htb c1c:", "ip_local_reserved_ports", "eth0 egress program", "+ hostcc")
            return all(word in text for word in words)

        until(are_up, stage.log)  # what a part takes later would be a leak
        until(is_seen, changed)  # the comparison sees what an agent does
        before = stage.held()
        stage.churn(3, paths_churn.LONG, paths_churn.PERIOD_S, paths_churn.BYTES)
        time.sleep(8.0)
        until(lambda: stage.came > 8, "jobs")
        stage.settle()
        after = paths_churn.quiet(stage, before)
        assert stage.troubles() == []
        assert entries(before, after) == {}
        assert objects(before, after) == {}
        for name in after:
            assert after[name].open_files - before[name].open_files <= paths_churn.MORE_FILES
            assert stage.ask(name, "verify")["differences"] == []
        assert paths_churn.end(stage, after) == ([], [])
