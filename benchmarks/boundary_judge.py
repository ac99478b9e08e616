"""Pure: iteration boundaries of the kernel held against what the job did.

The job's own record says when each iteration was, and the byte meter when it began to send in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from hostcc.daemon.jobs.iteration_times import INTERVALS_KEPT
from hostcc.lab.launch import Iteration
from hostcc.measure.series import NS, ByteSeries, Floats

TOLERANCE = 0.05
"""A boundary is right within this fraction of the job's median iteration time."""
SENDS_BYTES = 2000
"""A millisecond with so many bytes is one in which a job sends: more than one packet."""
SMALL_BYTES = 1 << 16
"""A host that sends less an iteration only answers; the kernel does not shape it either."""
TAIL = 0.99


class SeenBoundaries(msgspec.Struct, frozen=True):
    """One host's boundaries in one run, from the warm-up on."""

    host: str
    iterations: int
    """That the job made."""
    seen: int
    """Of these, with a boundary at the right moment."""
    invented: int
    """Boundaries that are of none of them."""
    late_ms: float | None
    """Median of boundary less first byte, of those seen."""

    @property
    def seen_percent(self) -> float:
        """Of the iterations."""
        return 100 * self.seen / max(1, self.iterations)

    @property
    def invented_percent(self) -> float:
        """Of the iterations."""
        return 100 * self.invented / max(1, self.iterations)


class ToldTimes(msgspec.Struct, frozen=True):
    """What an agent's status says at the end, over what the job's own record says."""

    iterations: float
    """That it has counted between the two, over those that were made."""
    mean: float | None
    """None: it says none."""
    p99: float | None


def first_sends(of: ByteSeries, steps: Sequence[Iteration]) -> Floats:
    """When a host began to send in each iteration, seconds, shape (iterations, 2): its first byte
    after its longest silence in it, and the first millisecond with more than a packet; NaN: none.

    The longest silence is that of computing: a rank may still send when another one's iteration has
    begun.  Ranks that wait for each other may send a few bytes long before the rest.
    """
    found = np.full((len(steps), 2), np.nan)
    for number, step in enumerate(steps):
        first, last = (int((at * NS - of.start_ns) / of.bin_ns) for at in (step.start, step.end))
        busy = np.flatnonzero(of.tx[max(0, first) : max(0, last)])
        bursts = np.flatnonzero(of.tx[max(0, first) : max(0, last)] >= SENDS_BYTES)
        if not len(busy) or not len(bursts):
            continue
        byte = busy[int(np.diff(busy, prepend=-1).argmax())]
        after = bursts[bursts >= byte]
        if len(after):
            found[number] = of.start_ns / NS + (first + np.array([byte, after[0]])) * of.bin_s
    return found


def sent_per_iteration(of: ByteSeries, steps: Sequence[Iteration]) -> float:
    """Bytes an iteration."""
    ends = steps[0].start, steps[-1].end
    first, last = (max(0, int((at * NS - of.start_ns) / of.bin_ns)) for at in ends)
    return float(of.tx[first:last].sum()) / len(steps)


def compared(
    host: str, boundaries_s: Sequence[float], steps: Sequence[Iteration], sends_s: Floats
) -> SeenBoundaries:
    """Match boundaries and iterations, one to one.

    `boundaries_s`: ascending; those outside of `steps` are left out.  `sends_s`: as `first_sends`.
    """
    tolerance = TOLERANCE * float(np.median([step.end - step.start for step in steps]))
    ours = np.array([at for at in boundaries_s if steps[0].start <= at < steps[-1].end])
    seen, late = 0, []
    taken = np.zeros(len(ours), dtype=bool)
    for byte, burst in sends_s[~np.isnan(sends_s).any(axis=1)]:
        near = np.flatnonzero(~taken & (ours >= byte - tolerance) & (ours <= burst + tolerance))
        if len(near):
            taken[near[0]] = True
            seen += 1
            late.append(1e3 * float(ours[near[0]] - byte))
    return SeenBoundaries(
        host, len(steps), seen, int((~taken).sum()), float(np.median(late)) if late else None
    )


def told(
    first_s: float,
    first: Mapping[str, Any],
    last_s: float,
    last: Mapping[str, Any],
    steps: Sequence[Iteration],
) -> ToldTimes:
    """Compare a job's rows of the status at two times with its record: the iterations between them
    for the count, those that the agent keeps until the second one for the times."""
    times = np.array([step.seconds for step in steps if step.end <= last_s][-INTERVALS_KEPT:])
    made = sum(first_s < step.end <= last_s for step in steps)
    mean, p99 = (last["recent"][name] for name in ("mean_period_s", "p99_period_s"))
    tail = float(np.sort(times)[min(len(times) - 1, int(TAIL * len(times)))])
    return ToldTimes(
        (last["iterations"] - first["iterations"]) / max(1, made),
        None if mean is None else mean / float(times.mean()),
        None if p99 is None else p99 / tail,
    )
