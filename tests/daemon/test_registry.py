"""What the parts of an agent load: nothing that takes megabytes and that they do not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
