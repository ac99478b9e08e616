"""A subprocess whose libnvidia-ml.so.1 is nvml_fake.c, and the world it shows.

This stands in for absent hardware only; tests with a real GPU are in test_gpu_real.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("nvml_fake.c")
TOP = Path(__file__).parents[2]
PREAMBLE = """\
import json, os, sys, time
from pathlib import Path
from hostcc.measure.gpu.nvml import Nvml
from hostcc.measure.gpu.poller import Poller
from hostcc.measure.work import attribute
now = [100.0]
def tick(seconds=0.1):
    now[0] += seconds
def world(**keys):
    text = "".join(f"{k.replace('__', '.')} {v}\\n" for k, v in keys.items())
    path = Path(os.environ["FAKE_NVML"])
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)
def change(**keys):
    path = Path(os.environ["FAKE_NVML"])
    old = dict(line.split(" ", 1) for line in path.read_text().splitlines())
    old |= {k.replace("__", "."): str(v) for k, v in keys.items()}
    world(**{k.replace(".", "__"): v for k, v in old.items() if v != "None"})
def show(sample):
    return {
        "why": sample.why,
        "readings": [
            {
                "uuid": r.gpu.uuid, "name": r.gpu.name, "capability": r.gpu.capability,
                "sms": r.gpu.multiprocessors, "max_clock": r.gpu.max_clock_hz,
                "span": round(r.end_s - r.start_s, 6), "clock": r.clock_hz, "sm": r.sm,
                "pipes": {str(k): v for k, v in r.pipes.items()}, "util": r.utilisation,
                "pids": list(r.pids), "use": r.pid_use, "busy": r.busy,
            }
            for r in sample.readings
        ],
    }
nvml = Nvml(clock=lambda: now[0])
"""


def build(folder: Path) -> Path:
    """Compile the library into `folder`, under the name that pynvml loads."""
    target = folder / "libnvidia-ml.so.1"
    command = [
        "clang",
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Werror",
        "-o",
        str(target),
        str(SOURCE),
    ]
    subprocess.run(command, check=True, timeout=60)
    return folder


def run(library: Path | None, folder: Path, script: str) -> Any:
    """Run `script` after PREAMBLE in a new interpreter; what it gave to `json.dump`."""
    world = folder / "world"
    world.write_text("")
    environment = {**os.environ, "FAKE_NVML": str(world), "PYTHONPATH": str(TOP)}
    environment["LD_LIBRARY_PATH"] = str(library or folder)
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
