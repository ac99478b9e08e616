"""How soon a change of a job's pattern is noticed; generated jobs, bins fed as they come.

`python -m hostcc.bench.period_changes [jobs]` prints the table of docs/measure-period.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hostcc.bench.synthetic import Dirt, Shape, job
from hostcc.measure import watch as w
from hostcc.measure.series import part

BEFORE, AFTER = 20, 16
"""Iterations of the pattern before the change, and after it."""
PERIOD_S, BIN_S, STEP = 0.1, 0.001, 5
"""Of the first pattern; bins that are handed over at once, a twentieth of an iteration."""
SOON = 3.0
"""Iterations within which a change is to be noticed."""
KNOWN = 0.05
LEAST = 0.1
"""A factor so near to one is no change."""


def any_shape(rng: np.random.Generator) -> Shape:
    """One to six bursts of any lengths and rates, with any waits."""
    count = int(rng.integers(1, 7))
    waits, lengths = rng.uniform(0.3, 1, count), rng.uniform(0.3, 1, count)
    total = float(waits.sum() + lengths.sum())
    return Shape(PERIOD_S, waits / total, lengths / total, rng.uniform(0.5, 1, count))


def _factor(low: float, high: float, rng: np.random.Generator) -> float:
    """From `low` to `high`, but not near one."""
    while True:
        found = float(rng.uniform(low, high))
        if abs(found - 1) >= LEAST:
            return found


def _longer(of: Shape, rng: np.random.Generator) -> Shape:
    return Shape(of.period_s * _factor(0.7, 2.0, rng), of.waits, of.lengths, of.rates)


def _computing(of: Shape, rng: np.random.Generator) -> Shape:
    return Shape(of.period_s, of.waits * _factor(1.2, 2.0, rng), of.lengths, of.rates)


def _bytes(of: Shape, rng: np.random.Generator) -> Shape:
    return Shape(of.period_s, of.waits, of.lengths * _factor(0.8, 1.5, rng), of.rates)


KINDS: dict[str, Callable[[Shape, np.random.Generator], Shape]] = {
    "everything 0.7 to 2 times as long": _longer,
    "1.2 to 2 times the computation": _computing,
    "0.8 to 1.5 times the bytes": _bytes,
}
DIRTS: dict[str, Dirt] = {
    "jitter 0.5 %": Dirt(jitter=0.005),
    "+ stragglers 10 %": Dirt(jitter=0.005, straggler_share=0.1),
    "+ contention 20 %": Dirt(jitter=0.005, straggler_share=0.1, contention=0.2),
}


@dataclass(frozen=True)
class Noticed:
    """What became of so many jobs."""

    jobs: int
    early: int
    """Called changed before they were."""
    noticed: int
    """Of the others."""
    soon: int
    """Of these, within three iterations."""
    delays: tuple[float, ...]
    """Iterations until each was noticed."""
    known: int
    """Of these, the new period is known within 5 % at the end."""


def measure(kind: str, dirt: str, jobs: int, first: int = 0) -> Noticed:
    """Jobs that change once, with seeds from `first` on."""
    early, delays, known = 0, [], 0
    for seed in range(first, first + jobs):
        rng = np.random.default_rng([4000, seed])
        shape = any_shape(rng)
        sample = job(
            shape,
            DIRTS[dirt],
            rng,
            iterations=BEFORE + AFTER,
            bin_s=BIN_S,
            then=KINDS[kind](shape, rng),
            change_at=BEFORE,
        )
        watch, at_s = w.begin(sample.series.bin_ns), None
        for at in range(0, len(sample.series), STEP):
            watch = w.update(watch, part(sample.series, at, at + STEP))
            if watch.changes and at_s is None:
                at_s = (at + STEP) * BIN_S
        if at_s is None:
            continue
        changed_s = float(sample.starts_s[BEFORE])
        if at_s < changed_s:
            early += 1
            continue
        lengths = np.diff(sample.starts_s[BEFORE:])
        delays.append((at_s - changed_s) / float(lengths.mean()))
        true, found = float(np.median(lengths[1:])), watch.found.period_s
        known += found is not None and abs(found / true - 1) <= KNOWN
    soon = sum(delay <= SOON for delay in delays)
    return Noticed(jobs, early, len(delays), soon, tuple(delays), known)


def main(jobs: int = 60) -> None:
    """Print a line for each kind of change and of disturbance."""
    for kind in KINDS:
        for dirt in DIRTS:
            found = measure(kind, dirt, jobs)
            delays = found.delays or (float("nan"),)
            print(
                f"{kind}, {dirt}: {found.noticed} of {found.jobs - found.early}, {found.soon} in "
                f"three iterations; median {np.median(delays):.1f}, worst {max(delays):.1f}; "
                f"known at the end {found.known}; called changed before {found.early}",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
