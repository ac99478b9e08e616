"""Files of an agent by which jobs get shared memory: whether one is still there, taking it away."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ANOTHER = "another file"


@dataclass(frozen=True)
class RegionFile:
    """One file, whatever has been put in its place since."""

    path: Path
    device: int
    inode: int

    @classmethod
    def opened(cls, path: Path, fd: int) -> RegionFile:
        """The one that `fd` is open on.  Raises OSError."""
        facts = os.fstat(fd)
        return cls(path, facts.st_dev, facts.st_ino)

    @classmethod
    def there(cls, path: Path) -> RegionFile:
        """The one that is at `path` now.  Raises OSError."""
        facts = path.lstat()
        return cls(path, facts.st_dev, facts.st_ino)

    def problem(self, flaw: Callable[[os.stat_result], str] = lambda _: "") -> str:
        """What is wrong with the file that jobs would open now, `flaw` of it included; or empty."""
        try:
            facts = self.path.lstat()
        except OSError as error:
            return str(error.strerror)
        return flaw(facts) if (facts.st_dev, facts.st_ino) == (self.device, self.inode) else ANOTHER

    def unlink(self) -> None:
        """Take it away, unless another one has its place."""
        if self.problem() != ANOTHER:
            self.path.unlink(missing_ok=True)


def remove(path: Path, magic: int) -> bool:
    """Take away what an agent that died has left; whether it begins with `magic`, as ours do, or
    is a socket of ours."""
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
