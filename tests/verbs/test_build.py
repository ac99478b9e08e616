"""The libraries are compiled when something has changed, and only then."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hostcc.pcie.library import PCIE
from hostcc.system.cc import BuildError, build, shared_library
from hostcc.verbs.build import LIBRARIES, VERBS_HEADER, build_all

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def test_everything_compiles_without_a_warning(tmp_path: Path) -> None:
    for library in LIBRARIES:
        if "rdma" in library.target.name and not VERBS_HEADER.exists():
            continue
        made = replace(library, target=tmp_path / library.target.name)
        assert build(made, werror=True)
        assert not build(made, werror=True)
        made.target.write_bytes(made.target.read_bytes()[:-1])  # damaged: made again
        assert build(made)
    assert len(build_all()) == len(LIBRARIES)


def test_a_changed_source_and_a_wrong_one(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    for name in ("semaphore.c", "semaphore.h", "semaphore_os.h", "region.c"):
        shutil.copy(PCIE.target.parent / name, folder)
    library = shared_library(
        tmp_path / "x.so", (folder / "semaphore.c", folder / "region.c"), exports=("hcc_*",)
    )
    assert build(library)
    assert not build(library)
    header = folder / "semaphore_os.h"
    header.write_text(header.read_text() + "/* more */\n")
    assert build(library)
    (folder / "region.c").write_text("no C at all")
    before = library.target.read_bytes()
    with pytest.raises(BuildError, match=r"region\.c"):
        build(library)
    assert library.target.read_bytes() == before
