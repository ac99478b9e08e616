"""The rules about tiers and skips, on a test run of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SAMPLE = """
import pytest

def test_unmarked(request):
    assert request.node.get_closest_marker("unit")

@pytest.mark.skip(reason="{reason}")
def test_skipped():
    raise AssertionError
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    markers = "".join(f"    {name}\n" for name in ("unit", "kernel", "vm", "fleet"))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{markers}")
    return tmp_path


def run(
    tree: Path, reason: str, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    (tree / "test_sample.py").write_text(SAMPLE.format(reason=reason))
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *words, "."],
        cwd=tree, env=inherited | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_skips_are_allowed_and_explained(tree: Path) -> None:
    done = run(tree, "no libbpf")
    assert done.returncode == 0, done.stdout
    assert "no libbpf" in done.stdout


@pytest.mark.parametrize("words", [[], ["-n", "2"]])
def test_skip_of_what_could_run_fails_in_ci(tree: Path, words: list[str]) -> None:
    done = run(tree, "no libbpf", *words, CI="true")
    assert done.returncode == 1, done.stdout
    assert "skipped although it could run here: test_sample.py::test_skipped: no" in done.stdout


def test_skip_of_what_cannot_run_is_fine_in_ci(tree: Path) -> None:
    done = run(tree, "not on this machine: a GPU", CI="true")
    assert done.returncode == 0, done.stdout
