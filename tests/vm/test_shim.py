"""The transport shim in programs that know nothing of it, on the Soft-RoCE fabric."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from hostcc.system.cc import build
from hostcc.verbs.build import SHIM, VERBS_HEADER
from tests.vm import machine
from tests.vm.test_oldest_kernel import pytestmark as of_the_vm

pytestmark = [
    *of_the_vm,
    pytest.mark.skipif(
        importlib.util.find_spec("pyverbs") is None
        or not VERBS_HEADER.exists()
        or not shutil.which("ib_write_bw")
        or not shutil.which("ibv_rc_pingpong"),
        reason="no pyverbs, libibverbs-dev, perftest, ibverbs-utils; tools/setup gets them",
    ),
]
CLASS, OTHER_CLASS = 0x68, 0x28


class Guest:
    """Runs parts one after the other, in another machine after one in which a part failed."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._machine: machine.Machine | None = None

    def __call__(self, part: str) -> dict[str, Any]:
        if self._machine is None:
            build(SHIM)
            self._machine = machine.boot(self._command)
        try:
            return self._machine.ask(part)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._machine is not None:
            self._machine.close()
            self._machine = None


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    made = Guest([sys.executable, "-m", "tests.vm.shim_guest"])
    yield made
    made.close()


def test_steered_and_left_alone(guest: Guest) -> None:
    report = guest("quiet") | guest("steered")
    first, second = report["ports"]
    for name in ("none", "stale"):
        quiet = report["quiet"][name]
        assert quiet["status"] == [0, 0], quiet
        assert quiet["counts"] == []
        (row,) = quiet["wire"]
        assert row[2] == 0  # the class as the program left it
    for name in ("pingpong", "write_bw"):
        steered = report["steered"][name]
        assert steered["status"] == [0, 0], steered
        ((path, port, traffic_class, _),) = steered["wire"]
        assert (path, port, traffic_class) == ("p0", first, CLASS)
    for name in ("live", "old_post"):
        live = report["steered"][name]
        assert live["status"] == [0, 0], live
        assert live["before"][0][:3] == ["p0", first, CLASS]
        ((path, port, traffic_class, _),) = live["after"]
        assert (path, port, traffic_class) == ("p1", second, CLASS)
        moved = [qp for one in live["counts"] for qp in one["qps"]]
        assert sum(qp["moves"] for qp in moved) >= 1
        assert sum(qp["failed"] for qp in moved) == 0


def test_queue_pairs_that_connected_without_an_agent(guest: Guest) -> None:
    """They are as without the shim until there is one, and moved then."""
    report = guest("late")
    for late in report["late"].values():
        assert late["status"] == [0, 0], late
        assert late["unseen"] == []
        assert late["before"][0][2] == 0
        ((path, port, traffic_class, _),) = late["after"]
        assert (path, port, traffic_class) == ("p1", report["ports"][1], CLASS)
        pairs = [qp for one in late["counts"] for qp in one["qps"]]
        assert sum(qp["moves"] for qp in pairs) >= 1
        assert sum(qp["failed"] for qp in pairs) == 0
        assert sum(qp["bytes"] for qp in pairs) > 0


def test_short_messages_stay_where_they_are(guest: Guest) -> None:
    report = guest("lengths")
    for way in report["lengths"].values():
        short, long = way["short"], way["long"]
        assert short["status"] == long["status"] == [0, 0], way
        assert {row[2] for row in short["wire"]} == {0}
        assert report["ports"][1] not in {row[1] for row in short["wire"]}
        ((path, port, traffic_class, _),) = long["after"]
        assert (path, port, traffic_class) == ("p1", report["ports"][1], CLASS)
        pairs = [qp for one in long["counts"] for qp in one["qps"]]
        assert sum(qp["failed"] for qp in pairs) == 0
        assert max(qp["longest"] for qp in pairs) == 16384


def test_a_job_moved_gated_and_deserted(guest: Guest) -> None:
    report = guest("moved") | guest("gated")
    job = report["moved"]
    assert job["status"] == [0, 0], job
    sums = [json.loads(text.splitlines()[-1]) for text in job["output"]]
    assert all(one["good"] for one in sums)
    places = [[[f"p{change % 2}", report["ports"][change % 2], CLASS]] for change in range(7)]
    assert [[row[:3] for row in rows] for rows in job["seen"]] == places
    assert [row[:3] for row in job["deserted"]] == places[-1]  # where it was
    assert all(0 < qp["bytes"] <= sums[0]["bytes"] for one in job["counts"] for qp in one["qps"])
    gate = report["gated"]["semaphore"]
    assert gate["status"] == [0, 0], gate
    assert gate["participants"] == 2
    paced = report["gated"]["paced"]
    assert paced["status"] == [0, 0], paced
    assert paced["paced_s"] > 0


def test_two_jobs_on_one_path(guest: Guest) -> None:
    """One of them is moved to the other path while it trains; both keep their class."""
    report = guest("two_jobs")
    jobs, ports = report["two_jobs"], report["ports"]
    for run in jobs["runs"]:
        assert run["status"] == [0, 0], run
        assert all(json.loads(text.splitlines()[-1])["good"] for text in run["output"])
    before = {(path, port, traffic_class) for path, port, traffic_class, _ in jobs["before"]}
    after = {(path, port, traffic_class) for path, port, traffic_class, _ in jobs["after"]}
    assert before == {("p0", ports[0], CLASS), ("p0", ports[0], OTHER_CLASS)}
    assert after == {("p0", ports[0], CLASS), ("p1", ports[1], OTHER_CLASS)}


def test_garbage_in_the_plan_crashes_nobody(guest: Guest) -> None:
    report = guest("fuzzed=6")
    assert report["fuzzed"]["status"] == [[0, 0]] * 6
