"""Shared memory where there is no room left: a mount of our own, for root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostcc.verbs.build import SHIM, VERBS_HEADER
from hostcc.verbs.plan import PlanRegion, RdmaJob
from tests.verbs.test_shim_native import places, program
from tests.verbs.test_shim_odd import odd

__all__ = ["odd", "places", "program"]
pytestmark = pytest.mark.kernel
REGIONS = """
import sys
from pathlib import Path
from hostcc.errors import HostccError
from hostcc.pcie.semaphore import Semaphores, Settings
from hostcc.verbs.plan import PlanRegion
for make in (PlanRegion.create, lambda path: Semaphores.create([("l", Settings())] * 9, path)):
    try:
        make(Path(sys.argv[1]) / "region")
    except HostccError as error:
        print(error.args[0].rpartition(": ")[2], *Path(sys.argv[1]).glob("region"))
"""


def in_full_memory(folder: Path, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run where `folder` has no room left."""
    full = f"mount -t tmpfs -o size=16k none {folder} && head -c 16384 /dev/zero > {folder}/full"
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{full} && {script}"],
        env={**os.environ, **more}, input="\n\n", capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip


@pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it")
def test_a_job_goes_on_without_counters(
    odd: Path, places: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    plan = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50000,)),))])
    done = in_full_memory(
        tmp_path, f"LD_PRELOAD={SHIM.target} exec {odd} errno", HOSTCC_JOB="job",
        HOSTCC_RDMA_PLAN=str(places[0]), HOSTCC_RDMA_COUNTS=str(tmp_path / "counts"),
    )  # fmt: skip
    plan.close()
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["connected", "good"], "")


def test_an_agent_says_that_there_is_no_room(tmp_path: Path) -> None:
    done = in_full_memory(tmp_path, f"exec {sys.executable} -c '{REGIONS}' {tmp_path}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["No space left on device"] * 2
