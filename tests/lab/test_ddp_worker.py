"""The DistributedDataParallel job, as a scenario runs it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(
    not TORCH, reason="not on this machine: PyTorch; tools/setup --with-torch installs it"
)

SCENARIO = """
iterations = 4
alone_iterations = 0
[[job]]
name = "ddp"
command = ["python3", "-m", "hostcc.lab.ddp_worker"]
barrier = true
compute_ms = 20
bytes = 400000
"""


@needs_torch
@given(st.integers(4000, 10**8), st.integers(2, 32))
def test_gradient_makes_the_ring_send_the_bytes(ring_bytes: int, ranks: int) -> None:
    from hostcc.lab.ddp_worker import parameters

    sent = 4 * parameters(ring_bytes, ranks) * 2 * (ranks - 1) / ranks
    assert sent == pytest.approx(ring_bytes, rel=0.01, abs=600)


@pytest.mark.kernel
@needs_torch
def test_trains_across_the_bottleneck(tmp_path: Path) -> None:
    path = tmp_path / "ddp.toml"
    path.write_text(SCENARIO)
    done = subprocess.run(
        [sys.executable, "-m", "hostcc", "lab", "run", str(path), "--compare", "cubic", "--json"],
        capture_output=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr.decode()
    (run,) = json.loads(done.stdout)["variants"][0]["runs"]
    assert len(run["jobs"][0]["seconds"]) == 4
    assert min(run["jobs"][0]["seconds"]) >= 0.02
    for direction in ("left", "right"):
        assert run["bottleneck"][direction]["bytes"] >= 4 * 400_000
