"""One holder, known by name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hostcc.daemon.lockfile import AgentLock, holder
from hostcc.errors import HostccError


def test_one_holder(tmp_path: Path) -> None:
    first, second = AgentLock(tmp_path / "run"), AgentLock(tmp_path / "run")
    assert holder(first.path) == 0
    first.acquire()
    assert holder(first.path) == os.getpid()
    with pytest.raises(HostccError, match=rf"another agent \(pid {os.getpid()}\) runs"):
        second.acquire()
    first.release()
    assert holder(first.path) == 0
    second.acquire()
    second.release()


def test_a_full_disk_hides_the_holders_number_only(tmp_path: Path) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    first, second = AgentLock(tmp_path), AgentLock(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", full)
        first.acquire()
    with pytest.raises(HostccError, match=r"another agent \(pid unknown\) runs"):
        second.acquire()
    first.path.write_text("12")  # a part of a number
    assert holder(first.path) == 0
    first.release()
    second.acquire()
    assert holder(first.path) == os.getpid()
    second.release()


def test_one_agent_per_cgroup_root(tmp_path: Path) -> None:
    first, second = AgentLock(tmp_path / "a"), AgentLock(tmp_path / "b")
    first.acquire_root(tmp_path)
    first.acquire_root(tmp_path)
    with pytest.raises(HostccError, match=r"another agent \(pid \d+\) manages cgroup_root"):
        second.acquire_root(tmp_path)
    first.release()
    second.acquire_root(tmp_path)
    second.release()


def test_a_run_dir_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostccError, match="Not a directory"):
        AgentLock(tmp_path / "file" / "run").acquire()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "agent.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostccError, match="symbolic links"):
        AgentLock(tmp_path / "run").acquire()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("there", [True, False])
def test_a_disk_that_takes_nothing_keeps_nobody_from_undoing(
    tmp_path: Path, number: int, there: bool
) -> None:
    def frozen(path: Path, flags: int, *mode: int) -> int:
        if flags & (os.O_CREAT | os.O_RDWR):
            raise OSError(number, os.strerror(number))
        return real(path, flags, *mode)

    real, lock, other = os.open, AgentLock(tmp_path), AgentLock(tmp_path)
    if there:
        lock.path.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", frozen)
        if number == errno.EMFILE:
            with pytest.raises(HostccError, match="Too many open files"):
                lock.acquire()
            return
        lock.acquire()
        with pytest.raises(HostccError, match="another agent"):
            other.acquire()
    lock.release()
    other.acquire()
    other.release()
