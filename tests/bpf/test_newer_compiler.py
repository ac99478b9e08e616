"""What a newer clang makes of the BPF sources loads, too: compilers differ in what they leave
for the verifier to follow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hostcc.bpf import build
from hostcc.bpf.loader.features import tx_start_operation
from hostcc.bpf.loader.object import BpfObject

pytestmark = pytest.mark.kernel

NEWER = "clang-19"
"""What tools/setup --with-clang installs."""
OF_OTHER_KERNELS = "mltcp.bpf.c" if tx_start_operation() else "mltcp_tx_start.bpf.c"
SOURCES = sorted(path for path in build.HERE.glob("*.bpf.c") if path.name != OF_OTHER_KERNELS)


@pytest.mark.skipif(
    shutil.which(NEWER) is None,
    reason=f"not on this machine: {NEWER}; tools/setup --with-clang installs it",
)
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_every_object_loads(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "newer.bpf.o"
    assert build.compile_object(source, target, werror=True, compiler=NEWER)
    with BpfObject.open(target) as opened:
        opened.load()
