"""Delay of change detection, for generated jobs whose bins are fed as they come.

`python -m benchmarks.period_changes [jobs [first]]` prints the table of
docs/internals/measure-period.md.
A job's traffic before the change is followed once for all its changes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from benchmarks.synthetic import Dirt, Sample, Shape, job
from hostcc.measure import pattern_watch as w
from hostcc.measure.series import part

BEFORE, AFTER = 20, 10
"""Iterations of the pattern before the change, and after it."""
PERIOD_S, BIN_S, STEP = 0.1, 0.001, 5
"""Of the first pattern; bins that are handed over at once, a twentieth of an iteration."""
SOON = 3.0
"""Iterations within which a change is to be noticed."""
KNOWN = 0.05
"""A period is known when it is found so near."""


def any_shape(rng: np.random.Generator) -> Shape:
    """One to six bursts of any lengths and rates, with any waits."""
    count = int(rng.integers(1, 7))
    waits, lengths = rng.uniform(0.3, 1, count), rng.uniform(0.3, 1, count)
    total = float(waits.sum() + lengths.sum())
    return Shape(PERIOD_S, waits / total, lengths / total, rng.uniform(0.5, 1, count))


class Kind(Enum):
    """What changes."""

    EVERYTHING = "everything longer"
    COMPUTING = "the computation"
    BYTES = "the bytes"


SIZES = (0.5, 0.67, 0.8, 1.25, 1.5, 2.0)
"""How many times as much."""


def resized(of: Shape, kind: Kind, size: float) -> Shape:
    """The shape after a change."""
    match kind:
        case Kind.EVERYTHING:
            return Shape(of.period_s * size, of.waits, of.lengths, of.rates)
        case Kind.COMPUTING:
            return Shape(of.period_s, of.waits * size, of.lengths, of.rates)
        case Kind.BYTES:
            return Shape(of.period_s, of.waits, of.lengths * size, of.rates)


DIRTS: dict[str, Dirt] = {
    "jitter": Dirt(jitter=0.005),
    "stragglers": Dirt(jitter=0.005, straggler_share=0.1),
    "contention": Dirt(jitter=0.005, contention=0.2),
    "stragglers and contention": Dirt(jitter=0.005, straggler_share=0.1, contention=0.2),
    "checkpoints": Dirt(
        jitter=0.005, checkpoint_every=7, checkpoint_length=0.7, checkpoint_waits=True
    ),
    "data loading": Dirt(jitter=0.005, loading=0.2),
    "all of these": Dirt(
        jitter=0.01, straggler_share=0.1, contention=0.2, checkpoint_every=6, loading=0.15
    ),
}


@dataclass(frozen=True)
class Followed:
    """What became of a job."""

    early: int
    """Changes that were called before there was one."""
    known: bool
    """Its period was known when it changed."""
    delays: tuple[float | None, ...]
    """Iterations until each change was noticed, as `changes` lists them; None: it was not."""


def changes() -> Iterator[tuple[Kind, float]]:
    """All that are tried."""
    return ((kind, size) for kind in Kind for size in SIZES)


def followed(dirt: Dirt, seed: int, tried: tuple[tuple[Kind, float], ...]) -> Followed:
    """A job that changes, once for each change that is tried."""

    def made(change: tuple[Kind, float] | None) -> Sample:
        rng = np.random.default_rng([4000, seed])
        shape = any_shape(rng)
        then = resized(shape, *change) if change else None
        return job(
            shape, dirt, rng, iterations=BEFORE + AFTER, bin_s=BIN_S, then=then, change_at=BEFORE
        )

    same = made(None)
    assert same.period_s is not None
    until = int(same.starts_s[BEFORE] / BIN_S) // STEP * STEP
    watch = w.begin(same.series.bin_ns)
    for at in range(0, until, STEP):
        watch = w.update(watch, part(same.series, at, at + STEP))
    period = watch.found.period_s
    known = period is not None and abs(period / same.period_s - 1) <= KNOWN
    return Followed(
        watch.changes, known, tuple(_delay(watch, made(change), until) for change in tried)
    )


def _delay(watch: w.Watch, sample: Sample, since: int) -> float | None:
    """Iterations after the change until it is noticed."""
    before = watch.changes
    for at in range(since, len(sample.series), STEP):
        watch = w.update(watch, part(sample.series, at, at + STEP))
        if watch.changes > before:
            starts = sample.starts_s[BEFORE:]
            return float(np.interp((at + STEP) * BIN_S, starts, np.arange(len(starts))))
    return None


def main(jobs: int = 40, first: int = 0) -> None:
    """Print the lines of each disturbance."""
    tried = tuple(changes())
    for name, dirt in DIRTS.items():
        found = [followed(dirt, seed, tried) for seed in range(first, first + jobs)]
        known = sum(one.known for one in found)
        early = sum(one.early for one in found)
        jobs_early = sum(one.early > 0 for one in found)
        print(
            f"{name}: {known / jobs:.0%} known; called changed before {jobs_early / jobs:.0%}, "
            f"{100 * early / BEFORE / jobs:.2f} per 100 iterations"
        )
        for kind in Kind:
            cells = []
            for number, (what, size) in enumerate(tried):
                if what != kind:
                    continue
                delays = [one.delays[number] for one in found]
                noticed = [delay for delay in delays if delay is not None]
                soon = sum(delay <= SOON for delay in noticed)
                middle = float(np.median(noticed)) if noticed else float("nan")
                cells.append(
                    f"x{size:g} {soon / jobs:.0%} ({len(noticed) / jobs:.0%}; {middle:.1f})"
                )
            print(f"  {kind.value}: " + ", ".join(cells), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
