"""What a lab leaves on disk is removed with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hostcc.lab import state


@pytest.mark.kernel
def test_disks_of_a_lab_go_with_it(tmp_path: Path) -> None:
    made = state.record(state.new_state(tmp_path), [], tmp_path)
    disk, beside = Path(made.run_dir) / "h1", tmp_path / "beside"
    for folder in (disk, beside):
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
    try:
        (disk / "journal").write_text("x")
        state.remove(made, tmp_path)
        assert not Path(made.run_dir).exists()
        mounts = Path("/proc/self/mounts").read_text()
        assert str(disk) not in mounts
        assert str(beside) in mounts
    finally:
        subprocess.run(["umount", str(beside)], check=True)
