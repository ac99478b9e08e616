"""Words of a decision for the operator: what moves gain, which flows stay."""

from __future__ import annotations

from hostcc.schedule.problem import Problem


def of_all_work(gain: float) -> str:
    """Return a gain (a fraction) in words."""
    return f"predicted gain {gain:.2%} of all work"


def counts(problem: Problem, leaving: int) -> str:
    """Return in words how many flows stay, leave their path and had none."""
    placed = int((problem.flow_path < 0).sum())
    words = f"paths: {problem.flow_count - placed - leaving} flows stay, {leaving} move for a gain"
    return f"{words}, {placed} are placed" if placed else words
