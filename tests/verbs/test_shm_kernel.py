"""Shared memory where there is no room left, and among members of a group that mean harm."""

from __future__ import annotations

import grp
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostcc.pcie.keeper import Keeper
from hostcc.pcie.semaphore import Settings
from hostcc.verbs.build import SHIM, VERBS_HEADER
from hostcc.verbs.plan_region import PlanRegion, RdmaJob
from tests.patience import until
from tests.verbs.test_shim_native import places, program, start
from tests.verbs.test_shim_odd import odd

__all__ = ["odd", "places", "program"]
pytestmark = pytest.mark.kernel
REGIONS = """
import sys
from pathlib import Path
from hostcc.errors import HostccError
from hostcc.verbs.plan_region import PlanRegion
try:
    PlanRegion.create(Path(sys.argv[1]) / "region")
except HostccError as error:
    print(error.args[0].rpartition(": ")[2], *Path(sys.argv[1]).glob("region"))
"""


def in_full_memory(
    folder: Path, script: str, room_kib: int = 0, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run where `folder` has no more room than that."""
    mount = f"mount -t tmpfs -o size={16 + room_kib}k none {folder}"
    full = f"{mount} && head -c 16384 /dev/zero > {folder}/full"
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{full} && {script}"],
        env={**os.environ, **more}, input="\n\n", capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip


@pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it")
@pytest.mark.parametrize("room_kib", [0, 136, 268])
def test_a_job_goes_on_without_counters(
    odd: Path, places: tuple[Path, Path, Path], tmp_path: Path, room_kib: int
) -> None:
    """Nor with counters alone, nor with bins that have no room for a ring."""
    plan = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50000,)),))])
    done = in_full_memory(
        tmp_path, f"LD_PRELOAD={SHIM.target} exec {odd} errno", room_kib, HOSTCC_JOB="job",
        HOSTCC_RDMA_PLAN=str(places[0]), HOSTCC_RDMA_COUNTS=str(tmp_path / "counts"),
    )  # fmt: skip
    plan.close()
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["connected", "good"], "")


def test_an_agent_says_that_there_is_no_room(tmp_path: Path) -> None:
    done = in_full_memory(tmp_path, f"exec {sys.executable} -c '{REGIONS}' {tmp_path}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["No space left on device"]


HARM_S = 60.0
NOBODY = 65534
MEMBER = """
import ctypes, json, os, random, socket, sys, time
semaphores, plan, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
libc, draw = ctypes.CDLL(None), random.Random(7)
did = dict(cut=0, refused=0, punched=0, written=0)
try:
    fd = os.open(semaphores, os.O_RDWR)
except OSError:
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(semaphores)
        fd = socket.recv_fds(link, 1, 1)[1][0]
size = os.fstat(fd).st_size
def cut():
    for target in (fd, semaphores, plan):
        for wanted in (0, 1, 100, size // 2, 2 * size):
            try:
                os.truncate(target, wanted)
                did["cut"] += 1
            except OSError:
                did["refused"] += 1
    for path in (semaphores, plan):
        for act in (os.unlink, lambda path: os.rename(path, path + "x")):
            try:
                act(path)
                did["cut"] += 1
            except OSError:
                did["refused"] += 1
def punch():
    at = ctypes.c_long(draw.randrange(size))
    did["punched"] += libc.fallocate(fd, 3, at, ctypes.c_long(draw.choice((8, 4096, size)))) == 0
def write():
    for _ in range(50):
        length = draw.choice((8, 8, 64, 4096))
        raw = draw.choice((b"\\xff" * length, bytes(length), draw.randbytes(length)))
        did["written"] += os.pwrite(fd, raw, draw.randrange(size - length)) == length
def hold():
    os.pwrite(fd, (time.monotonic_ns() // 1000 << 8 | 1).to_bytes(8, "little"), draw.randrange(512))
until = time.monotonic() + seconds
while time.monotonic() < until:
    draw.choice((cut, punch, write, hold))()
    time.sleep(0.0005)
print(json.dumps(did))
"""


@pytest.mark.timeout(900)
@pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it")
def test_a_member_of_the_group_kills_nobody(program: Path, places: tuple[Path, Path, Path]) -> None:
    """It cuts short, punches holes and overwrites; another user's job in the same links goes on."""
    region = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    keeper = Keeper(places[2], 60.0, grp.getgrgid(NOBODY).gr_name)
    number = keeper.number("link", Settings(patience_s=0.01))
    assert number == 0
    region.publish([RdmaJob("job", level=1, gates=(("", number),))])
    job = start(program, places, HARM_S, 1)
    until(lambda: keeper.states()[0].pids or job.poll() is not None, "the job at its link")
    member = subprocess.Popen(
        [sys.executable, "-c", MEMBER, str(places[2]), str(places[0]), str(HARM_S)],
        user=NOBODY, group=NOBODY, extra_groups=[], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def beat() -> None:
        region.beat()
        keeper.beat(60.0)
        keeper.states()

    until(lambda: job.poll() is not None and member.poll() is not None, "the end", 600.0, beat)
    keeper.close()
    region.close()
    assert (member.returncode, job.returncode) == (0, 0)  # no signal
    did = json.loads(member.communicate()[0])
    report = json.loads(job.communicate()[0])
    assert report["posted"] == report["polled"] > 1000
    assert did["cut"] == 0
    assert min(did["refused"], did["punched"], did["written"]) > 100
