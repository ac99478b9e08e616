"""Libraries that jobs load need nothing newer than glibc 2.28, and a wheel says what it needs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hostcc.verbs.build import LIBRARIES, NCCL_ENV, SHIM, VERBS_HEADER
from tools import elf_needs

pytestmark = pytest.mark.unit
BUILT = [one.target for one in LIBRARIES if one is not SHIM or VERBS_HEADER.exists()]


@pytest.mark.parametrize("library", BUILT, ids=lambda path: path.name)
def test_what_jobs_load_needs_glibc_2_28_at_most(library: Path) -> None:
    assert elf_needs.newer(library) == []
    assert any(name.startswith("GLIBC_") for name in elf_needs.versions(library))


def test_functions_that_have_moved_are_found_where_they_were() -> None:
    """glibc 2.28 has threads and dlopen in libraries of their own."""
    if VERBS_HEADER.exists():
        assert {"libdl.so.2", "libpthread.so.0"} <= elf_needs.libraries(SHIM.target)
    assert elf_needs.libraries(NCCL_ENV.target) == {"libc.so.6"}


def test_a_newer_glibc_or_another_library_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "far.c").write_text("int far_function(void) { return 1; }\n")
    (tmp_path / "far.map").write_text("GLIBC_9.99 { global: far_function; };\n")
    (tmp_path / "near.c").write_text(
        "int far_function(void);\nint f(void) { return !far_function(); }\n"
    )
    for words in (
        ["far.c", "-Wl,--version-script=far.map", "-Wl,-soname,libfar.so.7", "-o", "libfar.so"],
        ["near.c", "-L.", "-lfar", "-o", "libnear.so"],
    ):
        subprocess.run(["gcc", "-shared", "-fPIC", *words], cwd=tmp_path, check=True, timeout=60)
    near = tmp_path / "libnear.so"
    assert "GLIBC_9.99" in elf_needs.versions(near)
    assert elf_needs.newer(near) == ["libfar.so.7", "GLIBC_9.99"]
    assert elf_needs.platform("x86_64", [near]) == "linux_x86_64"
    assert elf_needs.platform("x86_64", [NCCL_ENV.target]) == "manylinux_2_28_x86_64"


def test_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no library")
    with pytest.raises(ValueError, match="expected a 64-bit"):
        elf_needs.versions(tmp_path / "text")
