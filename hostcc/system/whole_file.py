"""Small files of our own that are read and replaced as a whole."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from hostcc.errors import InputError
from hostcc.system import ownership
from hostcc.system.input_file import read_from


def read(path: Path, most_bytes: int) -> bytes | None:
    """Return what a file holds; None: there is none.

    Raises InputError, which names it, unless it is a regular file that is root's or ours, that
    nobody else can change.
    """
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise InputError(f"{path}: expected a regular file")
            ownership.check_owner(path, facts, 0o022)
            return read_from(file, str(path), most_bytes)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{path}: expected a readable file, got: {error.strerror}") from None


def replace(path: Path, raw: bytes) -> None:
    """Replace the file at once.  Raises OSError and leaves the old one."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
