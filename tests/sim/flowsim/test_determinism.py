"""The same numbers in another process, with another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.unit, pytest.mark.slow]

SCRIPT = """
import hashlib
from benchmarks import engine_cases
from hostcc.sim.flowsim.run import simulate
from hostcc.sim.flowsim.workload import Fabric, pack

digest = hashlib.sha256()
for case in (engine_cases.steady(8, 4, 4, 50.0, 0.0), engine_cases.trace(0.05, 40, 20, 3)):
    fabric, work = Fabric.of(case.capacity), pack(case.jobs)
    found = simulate(fabric, work, case.seconds, engine_cases.controller)
    for array in (found.compute_seconds, found.iterations, found.sent, found.carried):
        digest.update(array.tobytes())
    print(found.events, found.refills, found.iterations.sum())
print(digest.hexdigest())
"""


def test_processes_and_hash_seeds() -> None:
    answers = set()
    for seed in ("0", "1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.add(done.stdout)
    assert len(answers) == 1
