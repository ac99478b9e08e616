"""Upper bound of change detection: the starts of all iterations are given.

`python -m benchmarks.period_changes_told [jobs]` prints the table of
docs/internals/measure-period.md.  The
oracle knows length, bytes and silence of each complete iteration, exactly, and how they are
distributed before the change and after it: estimated by kernels, on iterations of the same job
that it is not tried on.  It sums logarithms of likelihood ratios (CUSUM; Page, Biometrika 1954) and
reports a change at ln 1000, so that on average it is wrong less often than once in 1,000 iterations
(Lorden, Annals of Mathematical Statistics 1971).
"""

from __future__ import annotations

import math
import sys

import numpy as np

from benchmarks.period_changes import AFTER, BIN_S, DIRTS, SIZES, Kind, any_shape, resized
from benchmarks.synthetic import RATE, Dirt, Shape, job
from hostcc.measure.series import Floats, cumulative

LEARNED = 120
"""Iterations that each distribution is estimated from."""
KERNEL, ODD = 0.01, 0.02
"""Standard deviation of the kernel, each figure over its mean before; weight of anything else."""
SMALL = (0.95, 0.98, 1.02, 1.05)
"""Beside `SIZES`: where the limit is."""
QUIET = 0.2
"""Rates below so much of a link's count as silence."""
ALARM = math.log(1000)


def figures(shape: Shape, dirt: Dirt, count: int, rng: np.random.Generator) -> Floats:
    """Length, bytes and silence of so many iterations, shape (count, 3); seconds and bytes."""
    sample = job(shape, dirt, rng, iterations=count, bin_s=BIN_S)
    values = sample.series.total
    edges = np.append(sample.starts_s, len(values) * BIN_S)[: count + 1] / BIN_S
    silent = np.clip(1 - values / (QUIET * RATE * BIN_S), 0, 1) * BIN_S
    places = np.arange(len(values) + 1)
    parts = [np.diff(np.interp(edges, places, cumulative(one))) for one in (values, silent)]
    return np.stack((np.diff(edges) * BIN_S, *parts), axis=1)[: count - 1]


def density(of: Floats, learned: Floats) -> Floats:
    """Logarithm of how likely iterations are beside those of a distribution; shape (n,)."""
    apart = ((of[:, None] - learned) / KERNEL) ** 2
    near = np.exp(-0.5 * apart.sum(axis=2)).mean(axis=1)
    # Anything else is spread evenly over a range of three means of each figure.
    else_where = (KERNEL * math.sqrt(2 * math.pi) / 3) ** of.shape[1]
    found: Floats = np.log((1 - ODD) * near + ODD * else_where)
    return found


def delay(before: Shape, then: Shape, dirt: Dirt, seed: int) -> int | None:
    """Complete iterations after which a change is called; None: not in `AFTER`."""
    rngs = [np.random.default_rng([4100, seed, part]) for part in range(3)]
    old, new = (
        figures(one, dirt, LEARNED, rng) for one, rng in zip((before, then), rngs[:2], strict=True)
    )
    scale = np.maximum(old.mean(axis=0), 1e-300)
    tried = figures(then, dirt, AFTER + 1, rngs[2]) / scale
    gains = density(tried, new / scale) - density(tried, old / scale)
    total = 0.0
    for number, gain in enumerate(gains.tolist(), 1):
        total = max(0.0, total + gain)
        if total >= ALARM:
            return number
    return None


def main(jobs: int = 40) -> None:
    """Print a line for each kind of change and of disturbance."""
    for dirt in DIRTS:
        for kind in Kind:
            cells = []
            for size in sorted((*SIZES, *SMALL)):
                shapes = [any_shape(np.random.default_rng([4000, seed])) for seed in range(jobs)]
                delays = [
                    delay(shape, resized(shape, kind, size), DIRTS[dirt], seed)
                    for seed, shape in enumerate(shapes)
                ]
                soon = sum(one is not None and one <= 3 for one in delays)
                first = sum(one == 1 for one in delays)
                cells.append(f"x{size:g} {soon / jobs:.0%} ({first / jobs:.0%} after one)")
            print(f"{dirt}, {kind.value}: " + ", ".join(cells), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
