"""Declare a figure once: the field of a result says what its column of the table is.

cpu_percent: Annotated[float, Heading("CPU %", 2)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from benchmarks.record import Column, Spread, spread


@dataclass(frozen=True)
class Heading:
    """How a figure is shown."""

    text: str
    digits: int = 3
    """After the point."""
    scale: float = 1.0
    """Factor for the table only."""


def columns(kind: type[Any], *fields: str) -> list[Column]:
    """Columns of those fields of a result that have a heading; of `fields` only, if given."""
    hints = get_type_hints(kind, include_extras=True)
    found = {
        name: Column(name, heading.text, heading.digits, heading.scale)
        for name, hint in hints.items()
        for heading in getattr(hint, "__metadata__", ())
        if isinstance(heading, Heading)
    }
    return [found[name] for name in fields or found]


def cells(runs: Sequence[Any]) -> dict[str, Spread]:
    """Each figure with a heading over the runs, of which there is at least one."""
    return {
        column.key: spread([getattr(run, column.key) for run in runs])
        for column in columns(type(runs[0]))
    }
