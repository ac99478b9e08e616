"""Reads topology files: bounded XML without entities."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from hostcc.errors import InputError
from hostcc.system import input_file

MAX_BYTES = 16 << 20
MAX_DEPTH = 64


def root(path: Path, tag: str) -> ET.Element:
    """Read the root element of a file, which has to be `tag`.  Raises InputError."""
    data = input_file.read(path, MAX_BYTES)
    if b"<!ENTITY" in data:
        raise InputError(f"{path}: expected XML without entities")
    try:
        found = ET.fromstring(data)  # noqa: S314
    except (ET.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{path}: expected XML: {error}") from None
    if found.tag != tag:
        raise InputError(f"{path}: expected <{tag}>, got <{found.tag:.40}>")
    return found


def is_number(text: str | None, most: int) -> int | None:
    """Parse a decimal number from 0 to `most`, else None."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 12:
        return None
    return int(text) if int(text) <= most else None
