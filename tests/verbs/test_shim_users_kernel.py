"""The shim in a user's job: with the user's rights, in that job only.

Absent hardware: a stand-in for libibverbs (native/fake_verbs.c) is plain memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.daemon.rdma.pairs import Senders
from hostcc.measure.discover.owners import Owners
from hostcc.pcie.keeper import Keeper
from hostcc.pcie.semaphore import Settings
from hostcc.verbs.build import SHIM, VERBS_HEADER
from hostcc.verbs.plan_region import PlanRegion, RdmaJob
from hostcc.verbs.process_counts import ProcessCount, read_counts
from tests.daemon.jobs.test_users_kernel import ANN, BOB, GROUP_NAME, Host, host
from tests.patience import until
from tests.verbs.test_shim_native import places, program
from tests.verbs.test_shim_odd import Places
from tests.verbs.test_shim_ways_kernel import public

__all__ = ["host", "places", "program", "public"]
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
]
JOB, PORT, CLASS = f"uid{ANN}:train", 50000, 0x20


@pytest.fixture
def region(places: Places) -> Iterator[PlanRegion]:
    """What an agent with an RDMA device publishes."""
    made = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    made.publish([RdmaJob(JOB, CLASS, (("198.18.0.1", (PORT,)),))])
    yield made
    made.close()


def test_a_users_job_is_steered_and_a_stranger_is_not_believed(
    host: Host, public: Path, places: Places, region: PlanRegion
) -> None:
    host.start()
    region.beat()
    plan, counts, semaphores = map(str, places)
    told = [
        f"LD_PRELOAD={public / SHIM.target.name}", f"HOSTCC_RDMA_PLAN={plan}",
        f"HOSTCC_RDMA_COUNTS={counts}", f"HOSTCC_PCIE_SEMAPHORES={semaphores}",
    ]  # fmt: skip
    odd = [str(public / "odd"), "errno"]
    anns = host.program(ANN, "train", "env", *told, *odd)
    bobs = host.program(BOB, "train", "env", *told, f"HOSTCC_JOB={JOB}", *odd)
    assert anns.stdout is not None
    assert bobs.stdout is not None
    assert [anns.stdout.readline(), bobs.stdout.readline()] == ["connected\n"] * 2

    known: dict[int, ProcessCount] = {one.pid: one for one in read_counts(places[1])}
    assert {one.uid for one in known.values()} == {ANN, BOB}
    mine = known[anns.pid]
    assert (mine.job, mine.uid) == (JOB, ANN)
    (pair,) = mine.qps
    assert (pair.port, pair.traffic_class) == (PORT, CLASS)
    base = f"/{host.name}/hostcc"
    groups = {f"{base}/{name}": name for name in (JOB, f"uid{BOB}:train")}
    senders = Senders(places[1], lambda: Owners(groups)).read()
    assert [(one.job, one.pid) for one in senders] == [(JOB, anns.pid)]
    for process in (anns, bobs):
        printed, _ = process.communicate("\n\n", timeout=120)
        assert (process.returncode, printed) == (0, "good\n")


@pytest.mark.parametrize("group", [GROUP_NAME, ""])
def test_turns_at_a_pcie_link_are_for_members_of_a_group(
    host: Host, public: Path, places: Places, group: str
) -> None:
    """`pcie.group`; other users' jobs run as without turns."""
    host.start()
    keeper = Keeper(places[2], 60.0, group)
    number = keeper.number("link", Settings())
    assert number is not None
    made = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    made.publish([RdmaJob(JOB, level=1, gates=(("", number),))])
    try:
        plan, counts, semaphores = map(str, places)
        told = [
            f"LD_PRELOAD={public / SHIM.target.name}", f"HOSTCC_RDMA_PLAN={plan}",
            f"HOSTCC_RDMA_COUNTS={counts}", f"HOSTCC_PCIE_SEMAPHORES={semaphores}",
        ]  # fmt: skip
        anns = host.program(ANN, "train", "env", *told, str(public / "odd"), "errno")
        assert anns.stdout is not None
        assert anns.stdin is not None
        assert anns.stdout.readline() == "connected\n"
        maps = Path(f"/proc/{anns.pid}/maps")
        if group:
            until(lambda: "/memfd:" in maps.read_text(), "the memory of the semaphores")
        anns.stdin.write("\n")
        anns.stdin.flush()
        assert anns.stdout.readline() == "good\n"
        assert keeper.states()[0].pids == ((anns.pid,) if group else ())
        assert ("/memfd:" in maps.read_text()) == bool(group)
    finally:
        made.close()
        keeper.close()


def test_what_the_administrator_does_not_give(host: Host) -> None:
    host.start("[users]\nrdma = false\nmarks = false\n")
    options = ("--rdma", "--mark")
    shown = host.program(ANN, "train", "sh", "-c", "echo $HOSTCC_JOB $HOSTCC_MARK $LD_PRELOAD",
                         options=options)  # fmt: skip
    printed, errors = shown.communicate(timeout=120)
    assert printed == f"{JOB}\n"
    assert "without --rdma: users.rdma is false" in errors
    assert "without --mark: users.marks is false" in errors
