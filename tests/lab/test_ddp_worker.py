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

pytestmark = pytest.mark.slow

TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(
    not TORCH, reason="not on this machine: PyTorch; tools/setup --with-torch installs it"
)

SCENARIO = """
iterations = 4
alone_iterations = 0
[[job]]
name = "ddp"
command = ["python3", "-m", "hostcc.lab.ddp_worker"%s]
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


@needs_torch
@given(st.integers(1 << 16, 1 << 22), st.integers(1, 16))
def test_layers_have_the_parameters_of_one(size: int, count: int) -> None:
    from hostcc.lab.ddp_worker import INPUTS, Layers

    made = [one.numel() for one in Layers(size, count, 0.0).parameters()]
    assert len(made) == count
    assert size - INPUTS * count < sum(made) <= size


@needs_torch
def test_the_backward_pass_computes_between_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from hostcc.lab import ddp_worker

    done: list[str] = []
    monkeypatch.setattr("time.sleep", lambda _: done.append("compute"))
    model = ddp_worker.Layers(1 << 12, 3, 0.3)
    for number, layer in enumerate(model.linear):
        layer.weight.register_hook(lambda _, number=number: done.append(f"bucket {number}"))
    model(torch.randn(2, ddp_worker.INPUTS, requires_grad=True)).backward()
    assert done == ["bucket 2", "compute", "bucket 1", "compute", "bucket 0", "compute"]


@pytest.mark.kernel
@needs_torch
@pytest.mark.parametrize("options", ["", ', "--layers", "3", "--overlap"'])
def test_trains_across_the_bottleneck(tmp_path: Path, options: str) -> None:
    path = tmp_path / "ddp.toml"
    path.write_text(SCENARIO % options)
    done = subprocess.run(
        [sys.executable, "-m", "hostcc", "lab", "run", str(path), "--compare", "cubic", "--json"],
        capture_output=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr.decode()
    (run,) = json.loads(done.stdout)["variants"][0]["runs"]
    assert len(run["jobs"][0]["seconds"]) == 4
    assert min(run["jobs"][0]["seconds"]) >= 0.02
    for direction in ("left", "right"):
        assert run["bottleneck"][direction]["bytes"] >= 4 * 400_000
