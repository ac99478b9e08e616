"""Queue pairs that come and go while the plan changes, with sanitizers (native/lives.c).

Absent hardware: a stand-in for libibverbs (native/fake_verbs.c) is plain memory.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hostcc.pcie.library import HERE as PCIE
from hostcc.verbs.build import HERE, SHIM, VERBS_HEADER
from hostcc.verbs.plan_region import BurstGate, PlanRegion, RdmaJob
from hostcc.verbs.ports import label_of
from hostcc.verbs.process_counts import address_of, read_counts
from hostcc.verbs.queue_pair_bins import bin_files, open_bins
from tests.verbs.test_shim_native import NATIVE, THERE, places, program
from tests.verbs.test_shim_odd import Odd, Places, odd, steered

__all__ = ["odd", "places", "program"]
pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
    pytest.mark.slow,
]
ROUNDS = 200
CHANGE_S = 0.005


@pytest.fixture(scope="module", params=["thread", "undefined,address"])
def lives(request: pytest.FixtureRequest, program: Path) -> Path:
    """The program with the shim's sources, beside the stand-in.

    Sanitizers ask for functions themselves before they can bear one of ours.
    """
    made = program.with_name("lives")
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread",
         "-Wno-tsan", "-D_GNU_SOURCE=", "-Ddlvsym=not_called", f"-fsanitize={request.param}",
         f"-I{HERE}", f"-I{PCIE}", "-o", str(made),
         str(NATIVE / "lives.c"), *map(str, SHIM.sources), "-ldl",
         str(program.with_name("libibverbs.so.1")), f"-Wl,-rpath,{program.parent}"],
        check=True,
    )  # fmt: skip
    return made


def test_connections_that_come_and_go_under_a_plan_that_changes(
    lives: Path, places: Places
) -> None:
    """Nothing is used that is gone, also at the end of the program, and no two threads race."""
    plan, counts, semaphores = map(str, places)
    region = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    region.publish([RdmaJob("job", 0x20, ((THERE, (50000,)),))])
    env = {
        **os.environ, "HOSTCC_JOB": "job", "HOSTCC_RDMA_PLAN": plan,
        "HOSTCC_RDMA_COUNTS": counts, "HOSTCC_PCIE_SEMAPHORES": semaphores,
        "ASAN_OPTIONS": "detect_leaks=0",
    }  # fmt: skip
    process = subprocess.Popen(
        [lives, str(ROUNDS)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    change, moves = 0, 0
    while process.poll() is None:
        change += 1
        region.publish([RdmaJob("job", 0x20, ((THERE, (50000 + change % 1000,)),))])
        region.set_gate("job", BurstGate(0, 10**9 * (change % 2), 10**6))
        moves = max([moves, *(qp.moves for one in read_counts(places[1]) for qp in one.qps)])
        try:
            process.wait(CHANGE_S)
        except subprocess.TimeoutExpired:
            continue
    said, complaints = process.communicate()
    assert (process.returncode, said, complaints) == (0, "connected\ngood\n", "")
    assert moves > 0
    assert read_counts(places[1]) == ()


def test_a_queue_pair_that_is_made_where_one_is_being_destroyed(odd: Path, places: Places) -> None:
    """Another thread gets memory and number before the first one is back in the shim."""
    plan = steered(places)
    one = Odd(odd, "reused", places)
    one.go()
    assert one.says() == "good"
    one.until(lambda count: [(qp.qpn, qp.port) for qp in count.qps] == [(17, 50000)])
    plan.publish([RdmaJob("job", 0x20, ((THERE, (50001,)),))])
    one.until(lambda count: [(qp.port, qp.moves) for qp in count.qps] == [(50001, 1)])
    one.end()
    plan.close()


def test_a_queue_pair_that_is_reset_and_connected_anew(odd: Path, places: Places) -> None:
    """What it had under way is gone without a completion; it goes somewhere else now."""
    plan = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    plan.publish([RdmaJob("job")])
    one = Odd(odd, "again", places)
    one.go()
    assert one.says() == "good"
    count = one.count()
    assert count is not None
    (pair,) = count.qps
    assert (pair.destination, pair.completed, pair.open_at) == ("198.18.0.2", 1, 0)
    (listed,) = bin_files(places[1])
    file = open_bins(*listed)
    assert file is not None
    assert {address_of(row["dgid"].tobytes()) for row in file.rows} == {"198.18.0.2"}
    file.close()
    one.end()
    plan.close()


@pytest.mark.parametrize("what", ["reset", "drained"])
def test_a_queue_pair_that_is_connected_anew_takes_its_planned_path(
    odd: Path, places: Places, what: str
) -> None:
    """Also where the job had drained it, after which it was not to be changed; and later moves."""
    plan = steered(places)
    one = Odd(odd, what, places)
    one.go()
    assert one.says() == f"{label_of(50000):#x} {0x20}"
    assert one.says() == "good"
    plan.publish([RdmaJob("job", 0x20, ((THERE, (50001,)),))])
    one.until(lambda count: [(qp.port, qp.moves) for qp in count.qps] == [(50001, 1)])
    one.end()
    plan.close()
