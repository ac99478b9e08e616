"""Threads of a job that post at once, on the shim's own sources (native/threads.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hostcc.pcie.library import HERE as PCIE
from hostcc.verbs.build import HERE, VERBS_HEADER
from tests.verbs.test_shim_native import NATIVE

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module", params=["", "-fsanitize=thread"])
def threads(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Also with a sanitizer, which ends the program with an error where two threads race."""
    program = tmp_path_factory.mktemp("threads") / "threads"
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *request.param.split(),
         f"-I{HERE}", f"-I{PCIE}", "-pthread", "-o", str(program), str(NATIVE / "threads.c")],
        check=True,
    )  # fmt: skip
    return program


WHAT = ["pacer", "iterations", "steady", "turns", "ends", "extended", "bursts", "signals"]


@pytest.mark.parametrize("what", WHAT)
def test_what_threads_do_at_once(threads: Path, what: str) -> None:
    """No byte that was posted is lost; who waits for a link waits once, for all, and nobody has one
    while a burst waits."""
    done = subprocess.run([threads, what], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "good\n", "")
