"""Reads an operator's TOML file about paths: bounded, and refused as a whole."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from hostcc import inputfile, validate
from hostcc.errors import InputError

MAX_BYTES = 16 << 20

Content = TypeVar("Content")


def read(file: Path, kind: type[Content]) -> Content:
    """The file as `kind`.  Raises InputError, which names the file and the key."""
    try:
        parsed = tomllib.loads(inputfile.read(file, MAX_BYTES).decode())
    except RecursionError:
        raise InputError(f"{file}: expected less deeply nested TOML") from None
    except ValueError as error:  # not UTF-8, not TOML, an impossible date or number
        raise InputError(f"{file}: expected TOML: {error}") from None
    return validate.convert(parsed, kind, str(file))
