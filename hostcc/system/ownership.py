"""Checks who owns a file or directory, and who else may change it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from hostcc.errors import InputError

MAX_LINKS = 40
"""Symbolic links on the way to one file; as many as the kernel follows."""


def check_directory(path: Path) -> None:
    """Raise InputError unless only root or we may put files into a directory."""
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: expected a directory, got: {reason}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path}: expected a directory")
    check_owner(path, found, 0o022)


def check_owner(path: Path, found: os.stat_result, forbidden: int) -> None:
    """Raise InputError unless a file is root's or ours and has no mode bit of `forbidden`."""
    if found.st_uid not in {0, os.geteuid()}:
        raise InputError(f"{path}: expected it to be root's or ours, got uid {found.st_uid}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        fit = mode & ~forbidden
        raise InputError(
            f"{path}: expected mode {fit:04o} (others must not "
            f"{'read' if forbidden & 0o044 else 'write'} it), got {mode:04o}"
        )


def check_path(path: Path) -> None:
    """Raise InputError unless only root and we can change or replace the file at a path.

    The error says what to do.  A path where nothing is passes.
    """
    for at, found, last in _way(path.absolute()):
        # In a sticky directory nobody can exchange what is another's: its owner is looked at next.
        sticky = not last and found.st_mode & stat.S_ISVTX
        free = sticky or not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode))
        try:
            check_owner(at, found, 0 if free else 0o022)
        except InputError as error:
            mine = found.st_uid in {0, os.geteuid()}
            fit = f"chmod go-w {at}" if mine else f"chown root {at}"
            raise InputError(f"{error}; {fit}, or use another place") from None


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result, bool]]:
    # Directories and links on the way to a path, and what is there, the last one.
    at, left, links = Path("/"), list(reversed(path.parts[1:])), 0
    try:
        yield at, at.lstat(), not left
        while left:
            part = left.pop()
            if part == "..":
                at = at.parent
                continue
            found = (at / part).lstat()
            link = stat.S_ISLNK(found.st_mode)
            yield at / part, found, not left and not link
            if not link:
                at /= part
                continue
            links += 1
            if links > MAX_LINKS:
                raise InputError(f"{path}: expected at most {MAX_LINKS} symbolic links")
            target = (at / part).readlink()
            at = Path("/") if target.is_absolute() else at
            left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    except OSError:  # it is not there, or opening it says what is wrong
        return
