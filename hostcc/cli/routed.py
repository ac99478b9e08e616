"""What `hostcc status` says of paths: what is known of them, and where the large flows are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hostcc.answers.status import Destination, LargeFlow, Routing

FLOWS_SHOWN = 16
"""Flows that are not on a planned path, in words."""


def lines(block: Routing | None) -> list[str]:
    """The block `routing` of the answer, for people."""
    if block is None:
        return []
    return [*_paths(block.destinations), *_flows(block.flows)]


def _paths(rows: Sequence[Destination]) -> list[str]:
    """One line per pair of addresses: its ports have the same paths."""
    pairs: dict[tuple[str, str], list[Destination]] = {}
    for row in rows:
        pairs.setdefault((row.src, row.dst), []).append(row)
    told = []
    for (src, dst), those in sorted(pairs.items()):
        line = f"paths {src} to {dst}: {_span([row.paths for row in those])}"
        ages = [row.age_s for row in those if row.age_s is not None]
        if ages:
            sure = min(row.confidence for row in those)
            line += f", confidence {sure:.0%}, seen {max(ages):.0f} s ago"
        reasons = sorted({row.reason for row in those if row.reason})
        told.append(f"{line}; {reasons[0]}" if reasons else line)
    return told


def _flows(rows: Sequence[LargeFlow]) -> list[str]:
    if not rows:
        return []
    states = Counter(row.state for row in rows)
    words = {
        "planned": "on planned paths",
        "moving": "moving",
        "ecmp": "on ECMP",
        "elsewhere": "where a plan put them before",
    }
    counts = [f"{states[state]} {text}" for state, text in words.items() if states[state]]
    told = [f"large flows: {', '.join(counts)}"]
    others = [row for row in rows if row.reason]
    told += [
        f"  {row.job} {row.local} to {row.remote}: {row.reason}" for row in others[:FLOWS_SHOWN]
    ]
    if len(others) > FLOWS_SHOWN:
        told.append(f"  and {len(others) - FLOWS_SHOWN} more")
    return told


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"
