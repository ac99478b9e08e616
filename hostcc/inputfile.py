"""Reads a file that somebody else wrote: never more of it than is expected."""

from __future__ import annotations

from pathlib import Path

from hostcc.errors import InputError


def read(path: Path, most: int) -> bytes:
    """A whole file of at most `most` bytes.  Raises InputError, which names it."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if len(data) > most:
        raise InputError(f"{path}: expected at most {most} bytes")
    return data
