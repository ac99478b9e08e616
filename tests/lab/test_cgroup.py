"""The lab's cgroup subtree: everything in it can be ended and removed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hostcc.lab import cgroup

pytestmark = pytest.mark.kernel


def sleeper(group: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["sleep", "600"])
    (group / "cgroup.procs").write_text(str(process.pid))
    return process


def test_processes_below_are_found_and_ended(cgroup: Path) -> None:
    from hostcc.lab.cgroup import create, empty, processes

    inner = cgroup / "h1" / "hostcc" / "job"
    create(inner)
    outer, deep = sleeper(cgroup / "h1"), sleeper(inner)
    assert sorted(processes(cgroup)) == sorted([outer.pid, deep.pid])
    empty(cgroup / "h1")
    assert (outer.wait(60), deep.wait(60)) == (-9, -9)
    assert (cgroup / "h1").exists()
    assert not inner.exists()
    (cgroup / "h1").rmdir()


def test_removing_what_is_not_there_is_fine(cgroup2: Path) -> None:
    cgroup.remove(cgroup2 / "hostcc-lab-never-made")
