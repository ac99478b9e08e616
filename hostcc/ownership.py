"""Whose a file or directory is, and who else may touch it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hostcc.errors import InputError


def check_directory(path: Path) -> None:
    """Raises InputError unless only root or we may put files into a directory."""
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: expected a directory, got: {reason}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path}: expected a directory")
    check_owner(path, found, 0o022)


def check_owner(path: Path, found: os.stat_result, forbidden: int) -> None:
    """Raises InputError unless a file is root's or ours and has no mode bit of `forbidden`."""
    if found.st_uid not in {0, os.geteuid()}:
        raise InputError(f"{path}: expected it to be root's or ours, got uid {found.st_uid}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        fit = mode & ~forbidden
        raise InputError(
            f"{path}: expected mode {fit:04o} (others must not "
            f"{'read' if forbidden & 0o044 else 'write'} it), got {mode:04o}"
        )
