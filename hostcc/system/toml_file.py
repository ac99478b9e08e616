"""Reads TOML that others wrote: bounded, and refused in one line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from hostcc.errors import InputError
from hostcc.system import input_file, validate

MAX_BYTES = 16 << 20
"""For files that list paths of a whole fabric; others set less."""

Content = TypeVar("Content")


def read(file: Path, kind: type[Content], most: int = MAX_BYTES) -> Content:
    """Read a file of at most `most` bytes as `kind`.  Raises InputError with file and key."""
    return validate.convert(load(file, most), kind, str(file))


def load(file: Path, most: int) -> dict[str, Any]:
    """Read a file of at most `most` bytes, untyped.  Raises InputError."""
    return parse(input_file.read(file, most), str(file), most)


def parse(raw: bytes, where: str, most: int) -> dict[str, Any]:
    """Parse at most `most` bytes of TOML, untyped.  Raises InputError, led by `where`."""
    if len(raw) > most:
        raise input_file.too_long(where, most)
    try:
        return tomllib.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise validate.refusal(where, f"byte {error.start}", "UTF-8", "something else") from None
    except RecursionError:
        raise InputError(f"{where}: expected less deeply nested TOML") from None
    except ValueError as error:  # no TOML, a number of thousands of digits, an impossible date
        raise InputError(f"{where}: expected TOML: {error}") from None
