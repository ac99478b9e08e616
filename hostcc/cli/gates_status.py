"""What `hostcc status` says of jobs that send one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from hostcc.answers.parts import GatedJob, GatesPart, Part

SHOWN = 8
"""Jobs that are named in a line."""


def lines(parts: Iterable[Part]) -> list[str]:
    """A line for each job that takes turns, and for each reason why others take none."""
    rows = [row for part in parts if isinstance(part, GatesPart) for row in part.gated]
    why: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            why.setdefault(row.reason, []).append(row.job)
    taken = [_taken(row) for row in rows if row.rivals]
    return taken + [f"takes no turns, {reason}: {_some(jobs)}" for reason, jobs in why.items()]


def _taken(row: GatedJob) -> str:
    held = ""
    if row.held_per_iteration_s is not None:
        held = f", {1e3 * row.held_per_iteration_s:.1f} ms an iteration"
    return f"{row.job} takes turns with {_some(row.rivals)}: waited {row.turns_waited} times{held}"


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
