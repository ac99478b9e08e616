"""Reads an operator's TOML file about paths: bounded, and refused as a whole."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from hostcc import validate
from hostcc.errors import InputError

MAX_BYTES = 16 << 20

Content = TypeVar("Content")


def read(file: Path, kind: type[Content]) -> Content:
    """The file as `kind`.  Raises InputError, which names the file and the key."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{file}: expected at most {MAX_BYTES} bytes")
    try:
        parsed = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file}: expected TOML: {error}") from None
    return validate.convert(parsed, kind, str(file))
