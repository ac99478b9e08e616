"""Write a plain document as TOML: strings, numbers, booleans, lists of them, tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dump(document: Mapping[str, Any]) -> str:
    """TOML text of a document of tables, arrays of tables and scalar values.

    Raises TypeError for a value that has no place in TOML.
    """
    lines: list[str] = []
    _table(document, (), lines)
    return "\n".join(lines) + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    below = []
    for key, value in table.items():
        if isinstance(value, Mapping) or _is_tables(value):
            below.append((key, value))
        else:
            lines.append(f"{_text(key)} = {_value(value)}")
    for key, value in below:
        inner = (*path, key)
        name = ".".join(_text(part) for part in inner)
        if isinstance(value, Mapping):
            lines.append(f"[{name}]")
            _table(value, inner, lines)
            continue
        for entry in value:
            lines.append(f"[[{name}]]")
            _table(entry, inner, lines)


def _is_tables(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(entry, Mapping) for entry in value)
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(repr(value), repr(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(entry) for entry in value) + "]"
    raise TypeError(f"TOML has no place for {type(value).__name__}")


def _text(value: str) -> str:
    """A basic string: JSON's escapes are TOML's, but DEL has to be escaped here alone."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
