"""The result of every benchmark: one record with rows, goals and failures, and its JSON form.

A row's cell is text, a number, a Spread over repeated runs, or nothing.  Schema and version
are in docs/benchmarks.md; a change that breaks readers raises the version.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from hostcc.lab.results import Machine, this_machine

SCHEMA = "hostcc-bench"
VERSION = 1


class Spread(msgspec.Struct, frozen=True):
    """A figure over repeated runs; None stands for "never", which is more than any number."""

    median: float | None
    least: float | None
    greatest: float | None
    values: tuple[float | None, ...]
    """One per run, in the order of the runs."""


Cell = str | int | float | Spread | None


class Column(msgspec.Struct, frozen=True):
    """One column of the table."""

    key: str
    """Of the row's cell."""
    heading: str
    digits: int = 3
    """After the point."""
    scale: float = 1.0
    """Factor for the table only: JSON keeps seconds, bytes and bits per second."""


class Verdict(msgspec.Struct, frozen=True):
    """One goal and what was measured."""

    scope: str
    """Which row or rows."""
    goal: str
    measured: Spread
    passing: int
    """Runs that meet it."""
    met: bool
    """Whether the median does."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A whole benchmark."""

    benchmark: str
    title: str
    parameters: dict[str, Any]
    columns: list[Column]
    rows: list[dict[str, Cell]]
    goals: list[Verdict] = []
    notes: list[str] = []
    failures: list[str] = []
    """What could not be measured, and why."""
    machine: Machine = msgspec.field(default_factory=this_machine)
    schema: str = SCHEMA
    version: int = VERSION

    @property
    def met(self) -> bool:
        """Whether everything was measured and every goal is met."""
        return not self.failures and all(goal.met for goal in self.goals)


def spread(values: Sequence[float | None]) -> Spread:
    """Median, least and greatest of at least one run."""
    numbers = [math.inf if value is None else value for value in values]
    return Spread(
        _finite(statistics.median(numbers)),
        _finite(min(numbers)),
        _finite(max(numbers)),
        tuple(values),
    )


def number(value: float | None) -> float:
    """A median as a number to compare with."""
    return math.inf if value is None else value


def encode(record: Record) -> bytes:
    """The record as JSON text."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def decode(data: bytes) -> Record:
    """Read a record back; raises ValueError when it is not one of this version."""
    head: Any = msgspec.json.decode(data)
    if not isinstance(head, dict) or (head.get("schema"), head.get("version")) != (
        SCHEMA,
        VERSION,
    ):
        raise ValueError(f"expected {SCHEMA} version {VERSION}")
    return msgspec.json.decode(data, type=Record)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
