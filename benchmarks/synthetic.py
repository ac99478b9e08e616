"""Pure: traffic of jobs with known period and bytes, for benchmarks and tests.

Traffic is a list of rectangles (from, to, rate); each bin gets exactly its part of them, so a
burst that begins in the middle of a bin fills half of it, as a counter would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hostcc.measure.series import NS, ByteSeries, Floats, series

Rectangles = npt.NDArray[np.float64]
"""Shape (k, 3): from (s), to (s), rate (bytes/s)."""

RATE = 1.25e9
"""Bytes per second at which a burst is sent: a link of 10 Gbit/s."""


@dataclass(frozen=True)
class Sample:
    """A generated series and what is true of it."""

    series: ByteSeries
    period_s: float | None
    """Median length of the iterations that are complete; None: not periodic."""
    iteration_bytes: float | None
    """Of the job's own exchange, without checkpoints and data loading."""
    starts_s: Floats = field(default_factory=lambda: np.zeros(0))
    """When each iteration begins to compute, seconds after the first bin's start."""


@dataclass(frozen=True)
class Shape:
    """One iteration: when bursts begin, measured in time since the last one ended.

    Waiting and sending alternate, so that a burst which takes longer delays what follows.
    """

    period_s: float
    waits: Floats
    """Before each burst, as shares of the period."""
    lengths: Floats
    """Of each burst on an idle link, as shares of the period; all shares add up to 1."""
    rates: Floats
    """Of each burst, as shares of the link's rate."""

    @property
    def bytes(self) -> float:
        """In one iteration."""
        return float((self.lengths * self.rates).sum() * self.period_s * RATE)


@dataclass(frozen=True)
class Dirt:
    """What disturbs a job."""

    jitter: float = 0.0
    """Standard deviation of each wait, as a share of it."""
    straggler_share: float = 0.0
    straggler_delay: tuple[float, float] = (0.3, 2.0)
    """By how many periods a straggler is late, from and to."""
    contention: float = 0.0
    """Share of the time that a neighbour sends, which halves the rate meanwhile."""
    checkpoint_every: int = 0
    """Iterations between checkpoints; 0: none."""
    checkpoint_length: float = 1.0
    """In periods."""
    checkpoint_waits: bool = False
    """The job stands still meanwhile."""
    loading: float = 0.0
    """Mean rate of data loading over the mean rate of the exchange."""


def binned(rectangles: Rectangles, bin_s: float, bins: int) -> Floats:
    """Bytes of all rectangles in each of `bins` bins from 0 on, shape (bins,)."""
    times = np.concatenate((rectangles[:, 0], rectangles[:, 1]))
    steps = np.concatenate((rectangles[:, 2], -rectangles[:, 2]))
    order = np.argsort(times, kind="stable")
    times, rates = times[order], np.cumsum(steps[order])
    sent = np.concatenate(((0.0,), np.cumsum(rates[:-1] * np.diff(times))))
    return np.diff(np.interp(np.arange(bins + 1) * bin_s, times, sent, left=0.0))


def job(
    shape: Shape,
    dirt: Dirt,
    rng: np.random.Generator,
    *,
    iterations: int,
    bin_s: float,
    then: Shape | None = None,
    change_at: int = 0,
) -> Sample:
    """A job of so many complete iterations; the series begins and ends at any point of one.

    With `then` the job changes: after `change_at` complete iterations to that shape.
    """
    busy = _neighbour(shape, dirt, rng)
    rectangles: list[tuple[float, float, float]] = []
    starts, now = [], 0.0
    for number in range(iterations + 2):
        shape = then if then is not None and number == change_at + 1 else shape
        starts.append(now)
        late = rng.random() < dirt.straggler_share
        delay = rng.uniform(*dirt.straggler_delay) * shape.period_s if late else 0.0
        slow = rng.integers(len(shape.waits))
        if dirt.checkpoint_every and number % dirt.checkpoint_every == dirt.checkpoint_every - 1:
            length = dirt.checkpoint_length * shape.period_s
            rectangles.append((now, now + length, RATE * rng.uniform(0.4, 0.8)))
            now += length if dirt.checkpoint_waits else 0.0
        for burst in range(len(shape.waits)):
            wait = shape.waits[burst] * shape.period_s
            now += max(0.0, wait * (1 + dirt.jitter * rng.standard_normal()))
            now += delay if burst == slow else 0.0
            rate = float(shape.rates[burst])
            end = _sent_by(now, float(shape.lengths[burst]) * shape.period_s, rate, busy)
            if rate > 0:
                rectangles += _pieces(now, end, rate * RATE, busy)
            now = end
    starts.append(now)
    offset = rng.uniform(0, 1) * (starts[1] - starts[0])
    inside = np.asarray(starts)[1:-1] - offset
    bins = int(np.ceil((inside[-1] + rng.uniform(0, 0.3) * shape.period_s) / bin_s))
    table = np.asarray(rectangles)
    table[:, :2] -= offset
    own = binned(table, bin_s, bins)
    if dirt.loading:
        rate = dirt.loading * shape.bytes / shape.period_s
        own = own + _loading(rate, shape.period_s, bin_s, bins, rng)
    half = np.rint(own / 2).astype(np.int64)
    return Sample(
        series(np.rint(own).astype(np.int64) - half, half, round(bin_s * NS)),
        float(np.median(np.diff(inside))),
        shape.bytes,
        inside,
    )


def _neighbour(shape: Shape, dirt: Dirt, rng: np.random.Generator) -> Rectangles:
    """When another job sends: (from, to) of each of its bursts, shape (k, 2)."""
    if not dirt.contention:
        return np.zeros((0, 2))
    period = shape.period_s * rng.uniform(0.6, 1.7)
    begins = rng.uniform(0, 1) * period + np.arange(600) * period
    return np.stack((begins, begins + dirt.contention * period), axis=1)


def _sent_by(begin: float, length: float, rate: float, busy: Rectangles) -> float:
    """When a burst ends that takes `length` alone and gets half a link beside the neighbour."""
    if rate <= 0.5 or not len(busy):
        return begin + length
    now, left = begin, length
    while left > 0:
        index = int(np.searchsorted(busy[:, 1], now, side="right"))
        if index >= len(busy):
            return now + left
        first, last = float(busy[index, 0]), float(busy[index, 1])
        speed, until = (1.0, first) if now < first else (0.5 / rate, last)
        if (until - now) * speed >= left:
            return now + left / speed
        left -= (until - now) * speed
        now = until
    return now


def _pieces(
    begin: float, end: float, rate: float, busy: Rectangles
) -> list[tuple[float, float, float]]:
    """A burst as rectangles of its own rate, and of half a link where the neighbour sends."""
    slow = min(rate, RATE / 2)
    overlaps = busy[(busy[:, 0] < end) & (busy[:, 1] > begin)]
    if slow == rate or not len(overlaps):
        return [(begin, end, rate)]
    cuts = np.clip(overlaps, begin, end)
    return [(begin, end, rate), *((a, b, slow - rate) for a, b in cuts.tolist())]


def _loading(
    rate: float, period_s: float, bin_s: float, bins: int, rng: np.random.Generator
) -> Floats:
    """Data loading: a steady stream with noise, and now and then files that are fetched."""
    slot_s = period_s / 100
    slots = int(bins * bin_s / slot_s) + 1
    noise = 0.8 * rng.gamma(6.0, 1 / 6.0, slots)
    noise += np.where(rng.random(slots) < 0.05, 0.2 / 0.05, 0.0)
    sent = np.concatenate(((0.0,), np.cumsum(rate * slot_s * noise)))
    edges = np.arange(bins + 1) * (bin_s / slot_s)
    return np.diff(np.interp(edges, np.arange(slots + 1), sent))


# Shapes.


def one_burst(period_s: float, rng: np.random.Generator) -> Shape:
    """Compute, then send everything."""
    share = rng.uniform(0.1, 0.7)
    return Shape(period_s, np.array([1 - share]), np.array([share]), np.array([1.0]))


def bursts(period_s: float, rng: np.random.Generator, *, count: int, equal: bool) -> Shape:
    """Some bursts one after the other, then a longer silence."""
    silence = rng.uniform(0.25, 0.5)
    duty = rng.uniform(0.3, 0.7)
    each = np.ones(count) if equal else rng.uniform(0.4, 1.6, count)
    lengths = each / each.sum() * (1 - silence) * duty
    waits = np.full(count, (1 - silence) * (1 - duty) / (count - 1))
    waits[0] = silence
    rates = np.ones(count) if equal else rng.uniform(0.5, 1.0, count)
    return Shape(period_s, waits, lengths, rates)


def overlapped(period_s: float, rng: np.random.Generator) -> Shape:
    """Buckets that go out while the backward pass computes, the last of them after it."""
    count = int(rng.integers(3, 9))
    silence, tail = rng.uniform(0.15, 0.45), rng.uniform(0.05, 0.15)
    lengths = rng.uniform(0.6, 1.4, count)
    lengths = np.append(lengths / lengths.sum() * (1 - silence - tail), tail)
    rates = np.append(rng.uniform(0.15, 0.6, count), 1.0)
    waits = np.zeros(count + 1)
    waits[0] = silence
    return Shape(period_s, waits, lengths, rates)


# Classes of series.

Make = Callable[[np.random.Generator], Sample]


def _bins(rng: np.random.Generator) -> tuple[float, float]:
    """A period from 10 ms to 60 s and a bin of at least 1 ms: 10 to 400 bins a period."""
    period = float(np.exp(rng.uniform(np.log(0.01), np.log(60.0))))
    most = min(400.0, period / 0.001)
    return period, period / float(np.exp(rng.uniform(np.log(10), np.log(most))))


def _periodic(make: Callable[[float, np.random.Generator], Shape], **dirt: Any) -> Make:
    def sample(rng: np.random.Generator) -> Sample:
        period, bin_s = _bins(rng)
        chosen = {key: value(rng) if callable(value) else value for key, value in dirt.items()}
        return job(make(period, rng), Dirt(**chosen), rng, iterations=10, bin_s=bin_s)

    return sample


def _any_shape(period: float, rng: np.random.Generator) -> Shape:
    kind = rng.integers(4)
    if kind == 0:
        return one_burst(period, rng)
    if kind == 1:
        return overlapped(period, rng)
    return bursts(period, rng, count=int(rng.integers(2, 7)), equal=bool(kind == 2))


def _six(period: float, rng: np.random.Generator) -> Shape:
    return bursts(period, rng, count=6, equal=True)


def _six_unequal(period: float, rng: np.random.Generator) -> Shape:
    return bursts(period, rng, count=6, equal=False)


PERIODIC: dict[str, tuple[bool, Make]] = {
    "one burst": (True, _periodic(one_burst)),
    "six equal bursts": (True, _periodic(_six)),
    "six unequal bursts": (True, _periodic(_six_unequal)),
    "overlapped": (True, _periodic(overlapped)),
    "jitter 3 %": (False, _periodic(_any_shape, jitter=0.03)),
    "contention": (
        False,
        _periodic(_any_shape, jitter=0.005, contention=lambda rng: rng.uniform(0.15, 0.4)),
    ),
    "stragglers 10 %": (False, _periodic(_any_shape, jitter=0.01, straggler_share=0.1)),
    "checkpoints": (
        False,
        _periodic(
            _any_shape,
            jitter=0.005,
            checkpoint_every=lambda rng: int(rng.integers(5, 11)),
            checkpoint_length=lambda rng: rng.uniform(0.3, 2.0),
            checkpoint_waits=lambda rng: bool(rng.integers(2)),
        ),
    ),
    "data loading": (
        False,
        _periodic(_any_shape, jitter=0.005, loading=lambda rng: rng.uniform(0.1, 0.6)),
    ),
    "all of these": (
        False,
        _periodic(
            _any_shape,
            jitter=0.01,
            straggler_share=0.1,
            contention=lambda rng: rng.uniform(0.1, 0.3),
            checkpoint_every=6,
            loading=lambda rng: rng.uniform(0.05, 0.3),
        ),
    ),
}
"""Name -> clean or dirty, and ten iterations of such a series."""


def poisson_flows(rng: np.random.Generator) -> Sample:
    """Transfers that begin at random, of very different sizes."""
    bins = int(rng.integers(300, 4000))
    count = max(4, rng.poisson(bins * rng.uniform(0.02, 0.3)))
    begins = rng.uniform(0, bins, count)
    lengths = (rng.pareto(1.5, count) + 0.3) * 2
    table = np.stack((begins, begins + lengths, rng.uniform(0.2, 1.0, count) * RATE * 0.01), 1)
    return _aperiodic(binned(table, 1.0, bins))


def bulk(rng: np.random.Generator) -> Sample:
    """A steady transfer with noise."""
    bins = int(rng.integers(300, 4000))
    shape = float(np.exp(rng.uniform(np.log(2), np.log(100))))
    return _aperiodic(RATE * 0.01 * rng.gamma(shape, 1 / shape, bins))


def on_off(rng: np.random.Generator) -> Sample:
    """Bursts and silences of random length."""
    bins = int(rng.integers(300, 4000))
    count = int(rng.integers(20, 60))
    order = float(rng.uniform(1.0, 3.0))
    lengths = rng.gamma(order, 1 / order, 2 * count)
    edges = np.cumsum(lengths) / lengths.sum() * bins
    return _aperiodic(
        binned(np.stack((edges[::2], edges[1::2], np.full(count, RATE * 0.01)), 1), 1.0, bins)
    )


def wandering(rng: np.random.Generator) -> Sample:
    """A rate that changes slowly and at random."""
    bins = int(rng.integers(300, 4000))
    keep = float(rng.uniform(0.8, 0.99))
    noise = rng.standard_normal(bins)
    rate = np.empty(bins)
    now = 0.0
    for index, step in enumerate(noise.tolist()):
        now = keep * now + step * (1 - keep**2) ** 0.5
        rate[index] = now
    return _aperiodic(RATE * 0.01 * np.maximum(0.0, rate + rng.uniform(0, 2)))


def shuffled(rng: np.random.Generator) -> Sample:
    """A job's bursts, put at random places: what is left when the rhythm is taken away."""
    count, bins = int(rng.integers(10, 40)), int(rng.integers(400, 4000))
    length = bins / count * rng.uniform(0.1, 0.4)
    begins = np.sort(rng.uniform(0, bins - length, count))
    begins = np.maximum.accumulate(begins + 0.0)
    table = np.stack((begins, begins + length, np.full(count, RATE * 0.01)), 1)
    return _aperiodic(binned(table, 1.0, bins))


APERIODIC: dict[str, Make] = {
    "random transfers": poisson_flows,
    "steady transfer": bulk,
    "random on and off": on_off,
    "wandering rate": wandering,
    "bursts at random": shuffled,
}
"""Name -> a series without a period."""


def _aperiodic(own: Floats) -> Sample:
    sent = np.rint(own).astype(np.int64)
    return Sample(series(sent, np.zeros_like(sent), 10_000_000), None, None)
