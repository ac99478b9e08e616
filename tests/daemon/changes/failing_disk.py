"""hostcc whose disk fails: from the k-th write to one folder on, each fails.

Words: the error's name, k, the folder, a file for how many writes there were, hostcc's own words.
A write is whatever changes a file system: opening to write, write, fsync, truncate, link, rename,
unlink, mkdir.  What is done to files elsewhere, to sockets and to the kernel's own goes on.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
BY_PATH = ("link", "rename", "replace", "unlink", "remove", "mkdir")
BY_NUMBER = ("write", "fsync", "ftruncate")


class FailingDisk:
    """Counts writes to a folder, and has them fail from one of them on."""

    def __init__(self, number: int, first: int, folder: Path) -> None:
        self.number, self.first, self.folder = number, first, f"{folder}/"
        self.count = 0

    def install(self) -> None:
        for name in BY_PATH:
            setattr(os, name, self._guarded(getattr(os, name), lambda path, *_: os.fspath(path)))
        for name in BY_NUMBER:
            setattr(os, name, self._guarded(getattr(os, name), lambda fd, *_: _where(fd)))
        os.open = self._guarded(os.open, _to_write)

    def _guarded(self, real: Callable[..., Any], where: Callable[..., str]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if str(where(*arguments)).startswith(self.folder):
                self.count += 1
                if self.count >= self.first:
                    raise OSError(self.number, os.strerror(self.number))
            return real(*arguments, **more)

        return call


def _where(fd: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return ""


def _to_write(path: Any, flags: int, *_: Any) -> str:
    return str(os.fspath(path)) if flags & WRITES else ""


def main() -> int:
    name, first, folder, counted, *words = sys.argv[1:]
    disk = FailingDisk(getattr(errno, name), int(first), Path(folder))
    disk.install()
    from hostcc.cli.main import main as hostcc

    try:
        return hostcc(words)
    finally:
        Path(counted).write_text(str(disk.count))


if __name__ == "__main__":
    sys.exit(main())
