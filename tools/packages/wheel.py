"""The wheel, built from a copy: what is compiled for it does not appear in the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in", "constraints.txt")
FOLDERS = ("LICENSES", "hostcc", "benchmarks", "tools")
NOT_SOURCES = ("*.bpf.o", "*.so", "__pycache__")


def build(out: Path) -> Path:
    """Make the wheel and leave it in `out`."""
    with tempfile.TemporaryDirectory(prefix="hostcc-wheel-") as scratch:
        tree = Path(scratch, "hostcc")
        tree.mkdir()
        for name in FILES:
            shutil.copy(TOP / name, tree / name)
        for name in FOLDERS:
            shutil.copytree(TOP / name, tree / name, ignore=shutil.ignore_patterns(*NOT_SOURCES))
        done = subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
             "--no-index", "--disable-pip-version-check", "--wheel-dir", scratch, str(tree)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"tools/package: wheel:\n{done.stdout}{done.stderr}")
        (made,) = Path(scratch).glob("hostcc-*.whl")
        return Path(shutil.copy(made, out / made.name))
