"""Files that give jobs shared memory: check and remove them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ANOTHER = "another file"


@dataclass(frozen=True)
class RegionFile:
    """One file by its inode, whatever has been put in its place since."""

    path: Path
    device: int
    inode: int

    @classmethod
    def opened(cls, path: Path, fd: int) -> RegionFile:
        """Identify the file that `fd` is open on.  Raises OSError."""
        facts = os.fstat(fd)
        return cls(path, facts.st_dev, facts.st_ino)

    @classmethod
    def there(cls, path: Path) -> RegionFile:
        """Identify the file that is at `path` now.  Raises OSError."""
        facts = path.lstat()
        return cls(path, facts.st_dev, facts.st_ino)

    def problem(self, flaw: Callable[[os.stat_result], str] = lambda _: "") -> str:
        """Say what is wrong with the file that jobs would open now, by `flaw` too; or empty."""
        try:
            facts = self.path.lstat()
        except OSError as error:
            return str(error.strerror)
        return flaw(facts) if (facts.st_dev, facts.st_ino) == (self.device, self.inode) else ANOTHER

    def unlink(self) -> None:
        """Remove the file, unless another one has its place."""
        if self.problem() != ANOTHER:
            self.path.unlink(missing_ok=True)


def remove(path: Path, magic: int) -> bool:
    """Remove the file that a dead agent left: one that begins with `magic`, or our socket.

    Returns whether there was one.
    """
    try:
        facts = path.lstat()
    except OSError:
        return False
    if stat.S_ISSOCK(facts.st_mode) and facts.st_uid == os.geteuid():
        path.unlink(missing_ok=True)
        return True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        ours = os.read(fd, 8) == magic.to_bytes(8, "little")
    except OSError:  # a directory, a pipe
        ours = False
    finally:
        os.close(fd)
    if ours:
        path.unlink(missing_ok=True)
    return ours
