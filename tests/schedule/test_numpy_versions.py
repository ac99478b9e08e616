"""Hosts with different versions of numpy find the same plans."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

OLDEST = Path(sys.prefix) / "numpy-oldest"
"""What tools/setup --with-numpy installs."""

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(
        not (OLDEST / "numpy").exists(),
        reason="not on this machine: a second numpy; tools/setup --with-numpy installs it",
    ),
    pytest.mark.slow,
]

SCRIPT = """
import sys, msgspec, numpy
from hostcc.schedule.plan import Options, plan, solve, solve_for_agents
from hostcc.schedule.plan_writer import write_plan
from hostcc.sim.small import small_case
from tests.schedule.test_plan import many

options = Options(simulations=0)
plans = [plan(small_case(1, 0)), plan(many(100, 600)), plan(many(40, 300), Options(fairness=1.0))]
before = solve(many(300, 900), options)
plans.append(write_plan("after", solve(many(301, 900), options, before)))
plans.append(write_plan("apart", solve_for_agents(many(60, 200), options)))
print(numpy.__version__, file=sys.stderr)
sys.stdout.buffer.write(b"".join(msgspec.json.encode(one) for one in plans))
"""


def test_the_same_bytes_with_the_oldest_numpy() -> None:
    found, versions = set(), []
    for path in ("", str(OLDEST)):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PATH": "", "PYTHONPATH": path},
            capture_output=True,
            check=True,
        )
        found.add(run.stdout)
        versions.append(run.stderr.decode().split()[-1])
    assert versions[0] == np.__version__ != versions[1]
    assert len(found) == 1
