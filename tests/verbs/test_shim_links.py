"""When a job gives back its PCIe link, on the shim's own sources (native/links.c)."""

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


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("links") / "links"
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
         f"-I{HERE}", f"-I{PCIE}", "-pthread", "-o", str(program), str(NATIVE / "links.c")],
        check=True,
    )  # fmt: skip
    return program


@pytest.mark.parametrize("what", ["silent", "gone", "moved"])
def test_a_link_is_given_back(links: Path, what: str) -> None:
    """What no completion is going to say the end of does not keep it for ever."""
    done = subprocess.run([links, what], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "good\n", "")
