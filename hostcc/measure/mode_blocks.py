"""What a job's iterations take under each of several modes, from blocks of time in random order.

Iterations that follow each other are alike, so they are no independent observations; blocks are.
Each round has a block of each mode, and only blocks of one round are compared: what changes slowly
on a host or in a network is the same for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hostcc.measure.series import Floats

MIN_ROUNDS = 3
MIN_ITERATIONS = 5
"""Of a block; one with fewer says nothing."""
T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantile of Student's t with 1, 2, ... degrees of freedom."""
T_95_MANY = 1.96


@dataclass(frozen=True)
class Block:
    """The iterations of one job in a stretch of time under one mode."""

    round: int
    mode: str
    times_s: tuple[float, ...]
    """Of whole iterations."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ModeFigures:
    """One mode of one job."""

    mode: str
    iterations: int
    blocks: int
    mean_s: Interval
    """Mean iteration time, seconds."""
    p99_s: Interval
    """99th percentile within a block, seconds."""
    gain: Interval | None
    """Mean time under the reference divided by that under this mode; None for the reference."""


def usable(blocks: Iterable[Block], modes: Sequence[str]) -> list[list[Block]]:
    """Return the rounds in which every mode has a block that says something, ordered as `modes`."""
    by_round: dict[int, dict[str, Block]] = {}
    for block in blocks:
        if len(block.times_s) >= MIN_ITERATIONS:
            by_round.setdefault(block.round, {})[block.mode] = block
    return [[of[mode] for mode in modes] for of in by_round.values() if of.keys() >= set(modes)]


def figures(blocks: Iterable[Block], modes: Sequence[str]) -> tuple[ModeFigures, ...]:
    """Compare modes, the first of which is the reference; empty when there are too few rounds."""
    rounds = usable(blocks, modes)
    if len(rounds) < MIN_ROUNDS:
        return ()
    means = np.array([[np.mean(block.times_s) for block in of] for of in rounds])
    tails = np.array([[np.percentile(block.times_s, 99) for block in of] for of in rounds])
    return tuple(
        ModeFigures(
            mode,
            sum(len(of[at].times_s) for of in rounds),
            len(rounds),
            interval(np.log(means[:, at])),
            interval(np.log(tails[:, at])),
            interval(np.log(means[:, 0] / means[:, at])) if at else None,
        )
        for at, mode in enumerate(modes)
    )


def interval(logarithms: Floats) -> Interval:
    """Return the geometric mean of independent observations, given as logarithms, shape (n >= 2,).

    Student's t on logarithms: times and ratios are positive, and their errors are relative.
    """
    count = len(logarithms)
    mean = float(np.mean(logarithms))
    quantile = T_95[count - 2] if count - 2 < len(T_95) else T_95_MANY
    half = quantile * float(np.std(logarithms, ddof=1)) / math.sqrt(count)
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
