"""Where there is a real GPU: are matrix products of known FLOP measured within 10 %?"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostcc.measure.gpu.nvml import Nvml
from hostcc.measure.gpu.poller import Poller
from hostcc.measure.gpu.readings import Sample, Source
from hostcc.measure.work import attribute, work_per_iteration

pytestmark = [pytest.mark.unit, pytest.mark.timeout(180)]
CHILD = Path(__file__).with_name("gpu_matmul.py")


@pytest.fixture(scope="module")
def poller() -> Poller:
    driver = Nvml()
    sample = driver.sample()
    driver.close()
    if sample.why:
        pytest.skip(f"not on this machine: an NVIDIA GPU ({sample.why})")
    return Poller(Nvml)


def watch(poller: Poller, kind: str, size: int, seconds: float) -> tuple[dict[str, float], float]:
    """What the child says, and the FLOP that was measured from outside meanwhile."""
    samples: list[Sample] = []
    poller.start()
    command = [sys.executable, str(CHILD), kind, str(size), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        while child.poll() is None:
            time.sleep(0.1)
            samples += poller.take()
        assert child.stdout is not None
        said = json.loads(child.stdout.read())
    poller.stop()
    # Where the driver sees other process ids than we do (a container), all are the child's.
    visible = {pid for sample in samples for r in sample.readings for pid in r.pids}
    owners = {child.pid: "job"} if child.pid in visible else dict.fromkeys(visible, "job")
    intervals = [
        done for sample in samples if (done := attribute(sample.readings, owners).get("job"))
    ]
    work = work_per_iteration(intervals, boundaries_s=[said["start"], said["end"]])
    clocks = [r.clock_hz for s in samples for r in s.readings if r.clock_hz]
    print(f"{kind}: pids {visible}, child {child.pid}, source {work.source}, {said}, {work}")
    print(f"clocks {min(clocks, default=0):.4g} to {max(clocks, default=0):.4g} Hz")
    print([s.readings[0].pipes for s in samples if s.readings][:: max(len(samples) // 5, 1)])
    assert work.flop is not None, work.why
    if work.source is not Source.COUNTERS:
        pytest.skip("not on this machine: a GPU with GPM counters (Hopper or newer)")
    return said, work.flop


@pytest.mark.parametrize(
    ("kind", "size"), [("bfloat16", 8192), ("float16", 4096), ("float32", 8192), ("float64", 8192)]
)
def test_known_work_is_measured(poller: Poller, kind: str, size: int) -> None:
    pytest.importorskip("torch", reason="not on this machine: PyTorch with CUDA")
    said, measured = watch(poller, kind, size, 8.0)
    print(f"{kind}: measured / done = {measured / said['flop']:.4f}")
    assert measured == pytest.approx(said["flop"], rel=0.10)
