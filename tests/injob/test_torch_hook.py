"""Marks without a change to the training script: real PyTorch, and programs without it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostcc.injob.torch_hook import site_directory

pytestmark = [pytest.mark.unit, pytest.mark.slow]

TOP = Path(__file__).parents[2]
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="not on this machine: PyTorch"
)
TRAIN = """
import json, sys
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
first = torch.optim.Adam(model.parameters())
second = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(first, 1)
if "explicit" in sys.argv:
    import hostcc.mark
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    first.step()
    second.step()
    schedule.step()
    if "explicit" in sys.argv:
        hostcc.mark.iteration()
        hostcc.mark.iteration()
del first, schedule
second.step()
mark = sys.modules.get("hostcc.mark") or sys.modules["_hostcc_mark"]
print(json.dumps([mark._count, sys.argv, __name__]))
"""


def run(arguments: list[str], folder: Path, **environment: str) -> Any:
    done = subprocess.run(
        arguments,
        cwd=folder,
        env={**os.environ, "HOSTCC_MARK_SOCKET": "@nobody", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture
def train(tmp_path: Path) -> str:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    return str(script)


@needs_torch
def test_by_environment(train: str, tmp_path: Path) -> None:
    site = f"{site_directory()}:{TOP}"
    count, arguments, name = run(
        [sys.executable, train, "--epochs", "3"], tmp_path, HOSTCC_MARK="1", PYTHONPATH=site
    )
    assert count == 4  # three steps of the first optimiser; the second takes over when it is gone
    assert arguments == [train, "--epochs", "3"]
    assert name == "__main__"


@needs_torch
def test_by_command_with_explicit_marks(train: str, tmp_path: Path) -> None:
    """From the script's first own mark on the hook keeps quiet."""
    count, arguments, name = run(
        [sys.executable, "-m", "hostcc.mark", train, "explicit"], tmp_path, PYTHONPATH=str(TOP)
    )
    assert count == 1 + 6
    assert arguments == [train, "explicit"]
    assert name == "__main__"


LOADED = (
    "import json, sys; print(json.dumps([[m for m in ('hostcc.mark', '_hostcc_mark', 'torch',"
    " 'hidden') if m in sys.modules], sum(type(f).__name__ == '_Finder' for f in sys.meta_path)]))"
)


def test_programs_without_pytorch(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADED]
    site = f"{site_directory()}:{TOP}"
    assert run(command, tmp_path, HOSTCC_MARK="1", PYTHONPATH=site) == [["hostcc.mark"], 1]
    assert run(command, tmp_path, HOSTCC_MARK="0", PYTHONPATH=site) == [[], 0]
    assert run(command, tmp_path, PYTHONPATH=str(TOP), HOSTCC_MARK="1") == [[], 0]


def test_an_environment_without_hostcc(tmp_path: Path) -> None:
    """The files are loaded from where they are."""
    base = getattr(sys, "_base_executable", sys.executable)
    site = str(site_directory())
    loaded = run([base, "-c", LOADED], tmp_path, HOSTCC_MARK="1", PYTHONPATH=site)
    assert loaded in ([["_hostcc_mark"], 1], [["hostcc.mark"], 1])


def test_a_sitecustomize_that_ours_hides_runs_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['hidden'] = sys\n")
    site = f"{site_directory()}:{tmp_path}:{TOP}"
    loaded = run([sys.executable, "-c", LOADED], tmp_path, HOSTCC_MARK="1", PYTHONPATH=site)
    assert loaded == [["hostcc.mark", "hidden"], 1]


def test_modules_and_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_text(
        "import json, sys\nprint(json.dumps([__name__, sys.argv[1:]]))\n"
    )
    command = [sys.executable, "-m", "hostcc.mark"]
    found = run([*command, "-m", "thing", "a"], tmp_path, PYTHONPATH=str(TOP))
    assert found == ["__main__", ["a"]]
    wrong = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("usage: python -m hostcc.mark")
