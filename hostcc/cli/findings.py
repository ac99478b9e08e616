"""One row of `hostcc doctor`: what came of trying a feature."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What came of a trial."""

    OK = "ok"
    MISSING = "missing"
    UNKNOWN = "unknown"
    """It could not be tried."""


@dataclass(frozen=True)
class Finding:
    """One feature."""

    name: str
    state: State
    detail: str
    serves: str
    """What it is good for."""
    required: bool = True
    """Whether the agent cannot act without it."""
    remedy: str = ""
