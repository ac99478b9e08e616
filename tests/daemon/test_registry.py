"""What the parts of an agent load, and what they answer together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hostcc.daemon.api.credentials import Peer
from hostcc.daemon.api.messages import Jobs
from hostcc.daemon.registry import Registry
from hostcc.system.processes import FoundJob, Kind
from tests.daemon.profiling.hosts import ToyHost

pytestmark = pytest.mark.unit

HEAVY = {
    "benchmarks", "hostcc.cli", "hostcc.lab", "hostcc.sim", "matplotlib", "multiprocessing",
    "numpy.random", "pynvml", "pyroute2", "rich", "scipy", "sqlite3", "torch", "unittest",
}  # fmt: skip
SCRIPT = """
import sys
import hostcc.daemon.agent, hostcc.paths.steer_kernel, hostcc.daemon.gossip.member
from hostcc.daemon.steering.nics import nics
nics()
print(*sys.modules)
"""


def test_an_agent_that_gossips_and_steers_loads_nothing_heavy() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, text=True)
    loaded = set(run.stdout.split())
    assert "hostcc.daemon.planning.planner" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("detail", [False, True])
def test_jobs_that_are_only_measured_are_listed(tmp_path: Path, detail: bool) -> None:
    """An agent that observes knows no others."""
    (tmp_path / "job_7").mkdir()
    (tmp_path / "job_7" / "cgroup.procs").write_text("4712\n4711\n")
    made = Registry(ToyHost(tmp_path))
    seen = made.measurement.discovery._seen
    seen.found, seen.mount = (FoundJob("slurm:7", Kind.SLURM, ("/job_7",)),), tmp_path
    answer = made.handlers[Jobs](Jobs(detail=detail), Peer(1, 0, frozenset()))
    (row,) = answer.jobs
    assert (row.name, row.slot, row.parameters) == ("slurm:7", None, None)
    assert (row.cgroup, row.pids) == (str(tmp_path / "job_7"), [4711, 4712])


def test_jobs_that_will_be_managed_are_listed_once_they_are(tmp_path: Path) -> None:
    host = ToyHost(tmp_path)
    host.act()
    made = Registry(host)
    seen = made.measurement.discovery._seen
    seen.found, seen.mount = (FoundJob("slurm:7", Kind.SLURM, ("/job_7",)),), tmp_path
    assert made.handlers[Jobs](Jobs(), Peer(1, 0, frozenset())).jobs == []
    seen.unmanaged = {"slurm:7": "no slot is free"}
    (row,) = made.handlers[Jobs](Jobs(), Peer(1, 0, frozenset())).jobs
    assert row.name == "slurm:7"
