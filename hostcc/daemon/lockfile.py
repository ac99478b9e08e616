"""One agent per run directory, and per cgroup root: locks that die with their process."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from hostcc.errors import ConfigError, HostccError, InputError
from hostcc.system import ownership

UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""Errors of a disk that cannot be written to."""
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class AgentLock:
    """Holds `<run_dir>/agent.lock`, which names the holder's process."""

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / "agent.lock"
        self._fds: list[int] = []
        self._root: Path | None = None

    def acquire(self) -> None:
        """Make the run directory and lock it.  Raises HostccError that names the holder, and
        ConfigError where others could write to the directory."""
        folder = self.path.parent
        try:
            ownership.check_path(folder)
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            ownership.check_path(folder)
            fd = self._open()
        except OSError as error:
            raise HostccError(f"{self.path}: {error.strerror}") from None
        except InputError as error:
            raise ConfigError(f"run_dir {folder}: {error}") from None
        if not _lock(fd):
            os.close(fd)
            pid = holder(self.path)
            raise HostccError(
                f"another agent (pid {pid or 'unknown'}) runs with run_dir {self.path.parent}; "
                "stop it, or give this one its own run_dir and cgroup_root"
            )
        self._fds.append(fd)
        with suppress(OSError):  # a full disk: the lock holds, only its holder's number is unknown
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode())

    def _open(self) -> int:
        """Open the file; where there is none and none can be made, the directory.

        Raises OSError.
        """
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o644)
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
        with suppress(FileNotFoundError):
            return os.open(self.path, os.O_RDONLY | _FLAGS)
        return os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)

    def acquire_root(self, cgroup_root: Path) -> None:
        """Also hold the cgroup root: two agents must not manage the same jobs."""
        if self._root == cgroup_root:
            return
        fd = os.open(cgroup_root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not _lock(fd):
            other = _flock_holder(os.fstat(fd))
            os.close(fd)
            raise HostccError(
                f"another agent (pid {other or 'unknown'}) manages cgroup_root {cgroup_root}; "
                "stop it, or give this one its own cgroup_root"
            )
        self._fds.append(fd)
        self._root = cgroup_root

    def release(self) -> None:
        """Release the locks.  The file stays, or two agents could lock different files."""
        self._root = None
        while self._fds:
            os.close(self._fds.pop())


def holder(path: Path) -> int:
    """The process that holds a lock file; 0 when nobody does or there is no file."""
    try:
        fd = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return 0
    try:
        if _lock(fd):
            return 0
        text = os.read(fd, 32)
        return int(text) if text.endswith(b"\n") and text[:-1].isdigit() else 0
    finally:
        os.close(fd)


def locker(path: Path) -> int:
    """The process with a lock on a file or cgroup root; 0 when none has one, or it is not seen."""
    try:
        return _flock_holder(path.stat())
    except OSError:
        return 0


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _flock_holder(of: os.stat_result) -> int:
    """The process with a flock on that file, by /proc/locks; 0 when it is not shown."""
    file = f"{os.major(of.st_dev):02x}:{os.minor(of.st_dev):02x}:{of.st_ino}"
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == file:
            return int(fields[4])
    return 0
