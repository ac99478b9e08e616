"""Jobs with the shim in PID namespaces of their own, as pods have them, seen from the host.

Absent hardware: a stand-in for libibverbs (native/fake_verbs.c) is plain memory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from hostcc.daemon.rdma.pairs import Sender, Senders
from hostcc.measure.discover.owners import Owners
from hostcc.verbs.build import SHIM, VERBS_HEADER
from hostcc.verbs.plan_region import PlanRegion, RdmaJob
from hostcc.verbs.process_counts import files_of, read_counts, sweep
from hostcc.verbs.queue_pair_bins import bin_files, open_bins
from tests import groups
from tests.patience import until
from tests.verbs.dialogue import Dialogue
from tests.verbs.test_shim_native import places, program
from tests.verbs.test_shim_odd import POSTS, SIZE, Places, odd

__all__ = ["odd", "places", "program"]
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
]
PORT, CLASS = 50000, 0x20
FREE_DESCRIPTORS = 256
"""Numbers below are left to the job."""


class Pod(Dialogue):
    """A job's process, number 1 of its PID namespace, in a cgroup that the host knows."""

    def __init__(self, odd: Path, places: Places, group: Path, job: str, before: str = ":") -> None:
        self.group, self.job = group, job
        group.mkdir(parents=True)
        plan, counts, semaphores = map(str, places)
        env = {
            "PATH": os.environ["PATH"], "HOSTCC_JOB": job, "HOSTCC_RDMA_PLAN": plan,
            "HOSTCC_RDMA_COUNTS": counts, "HOSTCC_PCIE_SEMAPHORES": semaphores,
        }  # fmt: skip
        apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--ipc")
        script = f"{before}; LD_PRELOAD={SHIM.target} exec {odd} errno"
        self.process = subprocess.Popen(
            [*groups.entering([group]), *apart, "sh", "-c", script],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.says() == "connected"
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        (self.pid,) = map(int, children.read_text().split())

    def go(self) -> None:
        super().go()
        assert self.says() == "good"

    def where(self) -> str:
        """Its cgroup, as the host names it."""
        text = Path(f"/proc/{self.pid}/cgroup").read_text()
        return next(line[3:] for line in text.splitlines() if line.startswith("0::"))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def region(places: Places) -> Iterator[PlanRegion]:
    """An agent that lives and has a plan for both jobs."""
    made = PlanRegion.create(places[0], jobs=2, stale_s=60.0)
    made.publish([RdmaJob(job, CLASS, (("198.18.0.1", (PORT,)),)) for job in ("a", "b")])
    yield made
    made.close()


@pytest.fixture
def root(cgroup2: Path) -> Iterator[Path]:
    made = cgroup2 / f"hcct-{uuid.uuid4().hex[:6]}"
    made.mkdir()
    yield made
    groups.remove(made)


@pytest.fixture
def pods(odd: Path, places: Places, root: Path, region: PlanRegion) -> Iterator[tuple[Pod, Pod]]:
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(closing(Pod(odd, places, root / job, job))) for job in ("a", "b")
        )
        yield one, two


def senders(places: Places, *pods: Pod) -> tuple[Sender, ...]:
    """Whom the agent believes, when these pods are jobs."""
    whose = {pod.where(): pod.job for pod in pods}
    return Senders(places[1], lambda: Owners(whose)).read()


def sent(places: Places) -> dict[int, int]:
    """Process -> bytes of its queue pair."""
    return {one.pid: sum(pair.bytes for pair in one.qps) for one in read_counts(places[1])}


def test_two_pods_with_equal_numbers(places: Places, pods: tuple[Pod, Pod]) -> None:
    for pod in pods:
        assert Path(f"/proc/{pod.pid}/status").read_text().split("NSpid:")[1].split()[1] == "1"
    pods[0].go()
    found = senders(places, *pods)
    assert [(one.job, one.pid) for one in found] == [(pod.job, pod.pid) for pod in pods]
    assert sent(places) == {pods[0].pid: POSTS * SIZE, pods[1].pid: 0}
    assert {(one.port, one.traffic_class) for count in read_counts(places[1])
            for one in count.qps} == {(PORT, CLASS)}  # fmt: skip
    opened = [open_bins(*one) for one in bin_files(places[1])]
    assert {one.pid: one.job for one in opened if one} == {pod.pid: pod.job for pod in pods}
    for one in opened:
        assert one is not None
        one.close()


def test_nobody_else_is_believed(places: Places, pods: tuple[Pod, Pod]) -> None:
    """A process of another cgroup, and one that says that it is of another job."""
    one, two = pods
    assert [found.pid for found in senders(places, one)] == [one.pid]
    two.job = "a"
    assert [found.pid for found in senders(places, two)] == []


def test_descriptors_are_out_of_the_way(places: Places, pods: tuple[Pod, Pod]) -> None:
    held = {
        int(fd.name): fd.readlink()
        for fd in Path(f"/proc/{pods[0].pid}/fd").iterdir()
        if fd.readlink().name.startswith(places[1].name)
    }
    assert len(held) == 2  # counters and bins
    assert min(held) >= FREE_DESCRIPTORS


def test_a_namespace_that_ends_leaves_nothing(places: Places, pods: tuple[Pod, Pod]) -> None:
    """Killed as a pod is; its number in another namespace is somebody else's."""
    files = {path for path, pid in files_of(places[1]) if pid == pods[0].pid}
    os.kill(pods[0].pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pods[0].pid}").exists(), "the end of its namespace")
    assert all(path.exists() for path in files)
    assert [pid for _, pid in files_of(places[1])] == [pods[1].pid]
    assert [one.pid for one in senders(places, pods[1])] == [pods[1].pid]
    for path in places[1].parent.glob(f"{places[1].name}*"):
        os.utime(path, (0, 0))
    assert sweep(places[1]) == 2
    assert not any(path.exists() for path in files)
    assert [pid for _, pid in files_of(places[1])] == [pods[1].pid]


def test_a_file_of_an_earlier_namespace_is_replaced(
    odd: Path, places: Places, root: Path, region: PlanRegion
) -> None:
    """Inodes of namespaces are used again, and so are numbers in them."""
    old = f"echo old >{places[1]}.$(stat -Lc %i /proc/self/ns/pid)-$$"
    with closing(Pod(odd, places, root / "a", "a", before=old)) as pod:
        pod.go()
        assert [one.pid for one in senders(places, pod)] == [pod.pid]
        assert sent(places) == {pod.pid: POSTS * SIZE}
