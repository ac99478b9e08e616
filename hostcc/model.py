"""The nouns of the agent: frozen, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Value = bool | int | float | str | Mapping[str, bool | int | float | str | None] | None
"""What a Change says that something was, or becomes: fit for JSON, readable."""


@dataclass(frozen=True)
class Change:
    """One reversible edit of this host."""

    id: str
    """Stable: the same edit has the same identifier in every run and in a dry run."""
    what: str
    """Kind of edit: "job-cgroup", "job-attach", "sockets" ... (docs/control.md lists them)."""
    target: str
    """What is edited: a path, a job, a congestion control."""
    before: Value
    after: Value
    why: str
    undo: str
    """How to undo it, for a person."""
    at: float = 0.0
    """Seconds since the epoch; 0 while it is only planned."""


@dataclass(frozen=True)
class Note:
    """Something that the agent saw and leaves alone, such as an administrator's own edit."""

    at: float
    """Seconds since the epoch."""
    target: str
    text: str


@dataclass(frozen=True)
class Difference:
    """A change that is no longer in force, as `verify` reports it."""

    id: str
    """Of the Change."""
    target: str
    expected: str
    found: str
