"""Reads files that others wrote, up to a limit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from hostcc.errors import InputError


def read(path: Path, most: int) -> bytes:
    """Read a whole file of at most `most` bytes.  Raises InputError, which names it."""
    try:
        with open_now(path) as file:
            return read_from(file, str(path), most)
    except OSError as error:
        raise _unreadable(str(path), error) from None
    except ValueError as error:  # a null byte in the name
        raise InputError(f"{path}: expected a file name, got: {error}") from None


def open_now(path: Path) -> BinaryIO:
    """Open a file for reading; does not block on a pipe without a writer, which reads as empty.

    A pipe that has a writer, as a shell's `<(COMMAND)`, can be read.  Raises OSError.
    """

    def without_waiting(name: str, flags: int) -> int:
        number = os.open(name, flags | os.O_NONBLOCK)
        os.set_blocking(number, True)
        return number

    return open(path, "rb", opener=without_waiting)


def read_argument(name: str, most: int) -> bytes:
    """Read a file named on the command line, `-` for standard input; errors as of `read`."""
    if name != "-":
        return read(Path(name), most)
    if sys.stdin is None:  # the caller closed it
        raise InputError("-: expected standard input, got none")
    try:
        return read_from(sys.stdin.buffer, name, most)
    except OSError as error:
        raise _unreadable(name, error) from None


def read_from(file: BinaryIO, name: str, most: int) -> bytes:
    """Read the rest of an open file, at most `most` bytes.  Raises InputError and OSError."""
    data = file.read(most + 1)
    if len(data) > most:
        raise too_long(name, most)
    return data


def too_long(name: str, most: int) -> InputError:
    """Make the error for more than `most` bytes."""
    return InputError(f"{name}: expected at most {most} bytes, got more")


def _unreadable(name: str, error: OSError) -> InputError:
    return InputError(f"{name}: expected a readable file, got: {error.strerror}")
