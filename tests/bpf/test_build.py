"""Compilation: only when needed, honest when it fails, and into the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hostcc.bpf.build import build_directory, compile_object
from hostcc.system.cc import BuildError
from hostcc.verbs.build import LIBRARIES, SHIM, VERBS_HEADER

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
SOURCE = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "number.h"
char LICENSE[] SEC("license") = "GPL";
const volatile int number = NUMBER;
SEC("sockops") int nothing(struct bpf_sock_ops *ctx) { return number; }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "number.h").write_text("#define NUMBER 1\n")
    path = tmp_path / "small.bpf.c"
    path.write_text(SOURCE)
    return path


def test_only_what_changed(source: Path) -> None:
    target = source.with_name("small.bpf.o")
    assert compile_object(source, target)
    assert not compile_object(source, target)
    os.utime(source)
    assert not compile_object(source, target)
    (source.parent / "number.h").write_text("#define NUMBER 2\n")
    assert compile_object(source, target)
    assert compile_object(source, target, force=True)
    assert build_directory(source.parent) == [(target, False)]


def test_compiler_word_is_passed_on(source: Path) -> None:
    source.write_text("int broken(")
    target = source.with_name("small.bpf.o")
    with pytest.raises(BuildError, match=r"small\.bpf\.c:1:12: error"):
        compile_object(source, target)
    assert sorted(path.name for path in source.parent.iterdir()) == ["number.h", "small.bpf.c"]


def test_missing_compiler(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(BuildError, match="clang not found; install the packages clang and llvm"):
        compile_object(source, source.with_name("small.bpf.o"))


def test_wheel_carries_the_objects(tmp_path: Path) -> None:
    """Built from a copy without objects, so that they can only come from the build."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in (
        "pyproject.toml",
        "setup.py",
        "README.md",
        "LICENSE",
        "MANIFEST.in",
        "constraints.txt",
    ):
        shutil.copy(REPOSITORY / name, tree)
    shutil.copytree(REPOSITORY / "LICENSES", tree / "LICENSES")
    ignored = shutil.ignore_patterns("*.bpf.o", "*.so", "__pycache__")
    shutil.copytree(REPOSITORY / "hostcc", tree / "hostcc", ignore=ignored)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
         "--wheel-dir", str(tmp_path), str(tree)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("hostcc-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        sources = [path.name for path in (REPOSITORY / "hostcc/bpf/programs").glob("*.bpf.c")]
        assert sources
        for name in sources:
            content = archive.read(f"hostcc/bpf/programs/{name.removesuffix('.c')}.o")
            assert content.startswith(b"\x7fELF")
            assert f"hostcc/bpf/programs/{name}" in names
        for library in LIBRARIES:
            if library is SHIM and not VERBS_HEADER.exists():
                continue
            target, *sources = (
                str(path.relative_to(REPOSITORY)) for path in (library.target, *library.sources)
            )
            assert archive.read(target).startswith(b"\x7fELF")
            assert set(sources) <= names
        scenarios = (REPOSITORY / "hostcc/lab/scenarios").glob("*.toml")
        assert {f"hostcc/lab/scenarios/{path.name}" for path in scenarios} <= names
        assert "hostcc/sim/published/lingjun.json" in names
    assert not [name for name in names if name.startswith("tests/")]
