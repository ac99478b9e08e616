"""Two agents and one plan for jobs over RDMA and TCP: moved, killed, undone."""

from __future__ import annotations

import json
import sys
from typing import Any

from hostcc.system.cc import build
from hostcc.verbs.build import SHIM
from tests.vm.test_oldest_kernel import finished
from tests.vm.test_shim import pytestmark

__all__ = ["pytestmark"]


def test_two_agents_move_jobs_by_one_plan() -> None:
    """Both agents move their end of both RDMA jobs when a faster path comes up.  A job and an agent
    are killed, and all is undone, while what is left of the jobs goes on where it is."""
    build(SHIM)
    output = finished([sys.executable, "-m", "tests.vm.two_agents_guest"])
    found = json.loads(output.partition("REPORT ")[2].splitlines()[0])
    print("took", found["seconds"], "s of the guest")

    assert {one["job"] for one in found["plan"]["jobs"]} == {"heavy", "light", "stream"}, found
    old, new = ([{path} for path in ends] for ends in found["paths"])
    assert [paths(rows) for rows in found["before"]] == old, found
    assert [paths(rows) for rows in found["after"]] == new, found
    for rows in (*found["before"], *found["after"]):  # of both ends
        assert len(classes(rows)) == 2, found
    assert not ports(found["before"]) & ports(found["after"]), found
    for told in found["told"]:
        for row in (told["heavy"], told["light"]):
            assert (row["processes"], row["failed"]) == (1, 0), found
            assert row["moves"] > 0, found

    assert {one["job"] for one in found["less"]["jobs"]} == {"heavy", "stream"}, found
    assert found["verify"] == [[], []], found
    for moment in ("after_a_job", "after_an_agent", "after_all"):
        assert [paths(rows) for rows in found[moment]] == new, (moment, found)

    assert found["undone"]["problems"] == [], found
    assert "rdma-plan:/dev/shm/plan-b" in found["undone"]["undone"], found
    assert found["agent_status"] == 0, found
    first, working, last = found["traces"]
    assert last == first, found
    assert working["plans"] == ["/dev/shm/plan-a", "/dev/shm/plan-b"], found
    assert len(working["in_cgroups"]) == 6, found  # three jobs on each of both
    assert len(working["controls"]) > len(first["controls"]), found

    assert found["jobs"]["stream"] == [[0], [0]], found
    for status, line in found["jobs"]["heavy"]:
        assert (status, json.loads(line)["good"]) == (0, True), found


def paths(rows: list[list[Any]]) -> set[str]:
    return {path for path, _, _ in rows}


def ports(ends: list[list[list[Any]]]) -> set[int]:
    return {port for rows in ends for _, port, _ in rows}


def classes(rows: list[list[Any]]) -> set[int]:
    return {cls for _, _, cls in rows}
