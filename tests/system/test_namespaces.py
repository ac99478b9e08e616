"""Namespaces are visited once each, and stay open meanwhile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hostcc.system.namespaces import all_pids, opened
from tests.real import until


def test_our_own_comes_first_and_once() -> None:
    with opened([os.getpid(), os.getpid(), 999_999_999]) as where:
        assert where == [None]
    assert os.getpid() in set(all_pids())


@pytest.mark.kernel
def test_a_process_that_ends_meanwhile() -> None:
    own = Path("/proc/self/ns/net").stat().st_ino

    def elsewhere(process: subprocess.Popen[bytes]) -> bool:
        return Path(f"/proc/{process.pid}/ns/net").stat().st_ino != own

    first = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    until(lambda: elsewhere(first), "a namespace")
    second = subprocess.Popen(["nsenter", f"--net=/proc/{first.pid}/ns/net", "sleep", "60"])
    until(lambda: elsewhere(second), "the second to enter")
    with opened([first.pid, second.pid]) as where:
        assert len(where) == 2
        other = where[1]
        assert other is not None
        inode = other.stat().st_ino
        for process in (first, second):
            process.kill()
            process.wait()
        assert other.stat().st_ino == inode
        assert inode not in {0, own}
