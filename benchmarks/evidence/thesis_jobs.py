"""The thesis's jobs on one link: `published/thesis.toml`, and the fluid simulation of them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from benchmarks.evidence.document import Line, Request
from benchmarks.evidence.readings import FOLDER, Floats
from hostcc.mltcp.dcqcn import EAGER_T_US, PLAIN_T_US
from hostcc.schedule.cassini.circle import Pattern
from hostcc.sim import dcqcn_model
from hostcc.sim.dcqcn_model import Link, Sender, TrainingJob, Watch
from hostcc.sim.fabrics import GBIT
from hostcc.sim.flowsim.run import Options, simulate
from hostcc.sim.flowsim.workload import Fabric, pack
from hostcc.sim.periodic import SimFlow, SimJob

Positive = Annotated[float, Meta(gt=0, le=1e6)]
QUEUE_PAIRS = 8
"""Of each job in the rate model."""
SEED = 1
"""Decides which packets are marked there."""
EAGEREST_T_US = 80
"""T of the first of three: by the same factor again as the thesis's 100 beside 125 us."""
BATCH = " at "
"""`vgg19-1400 at 1200`: a job of another batch; its computation is in proportion."""


class Shape(Struct, frozen=True):
    """One job alone."""

    iteration_s: Positive
    send_s: Positive
    gbit: Positive
    fixed: dict[str, str] = {}
    """What fixes each number."""

    @property
    def compute_s(self) -> float:
        """Seconds of an iteration before it sends."""
        return self.iteration_s - self.send_s

    @property
    def bytes(self) -> float:
        """Of an iteration."""
        return self.send_s * self.gbit * GBIT


class Row(Struct, frozen=True):
    """One row of Table 3.1."""

    name: str
    jobs: tuple[str, ...]
    fair_ms: tuple[float, ...]
    unfair_ms: tuple[float, ...]
    eager: tuple[str, ...]
    """From the most eager; empty: in the order of `jobs`, as two of a kind are."""
    compatible: bool


class Snapshot(Struct, frozen=True):
    """One snapshot of Table 4.3."""

    name: str
    jobs: tuple[str, ...]
    score: float
    shifts_ms: tuple[float, ...]
    shift_is_fitted: bool


class Usable(Struct, frozen=True):
    """The link."""

    gbit: Positive
    fixed: str


class Unfair(Struct, frozen=True):
    """How much more of the link each more eager job gets."""

    weight: Positive
    fixed: str


class Thesis(Struct, frozen=True):
    """The whole file."""

    link: Usable
    unfair: Unfair
    jobs: dict[str, Shape]
    rows: tuple[Row, ...]
    snapshots: tuple[Snapshot, ...]

    def shape(self, name: str) -> Shape:
        """Return a job, of another batch if its name says so."""
        known, _, batch = name.partition(BATCH)
        shape = self.jobs[known]
        if not batch:
            return shape
        scale = float(batch) / float(known.rpartition("-")[2])
        return Shape(shape.compute_s * scale + shape.send_s, shape.send_s, shape.gbit)


@cache
def thesis() -> Thesis:
    """Return the published jobs."""
    return msgspec.convert(tomllib.loads((FOLDER / "thesis.toml").read_text()), Thesis)


def by_row(request: Request, group: Callable[[Row], list[Line]]) -> tuple[Line, ...]:
    """Return the lines of all rows of Table 3.1, and tell how far it is."""
    lines: list[Line] = []
    for number, row in enumerate(thesis().rows):
        request.tell(row.name, number, len(thesis().rows))
        lines += group(row)
    return tuple(lines)


def weights(row: Row) -> list[float]:
    """Return the weights of a row's jobs under unfairness."""
    order = list(row.eager or row.jobs)
    factor = thesis().unfair.weight
    found = []
    for job in row.jobs:
        place = order.index(job)
        found.append(factor ** (len(order) - 1 - place))
        order[place] = ""  # one of two alike
    return found


@dataclass(frozen=True)
class Iterations:
    """When the iterations of one job ended, from 0."""

    seconds: Floats

    @property
    def mean(self) -> float:
        """Mean of all, seconds."""
        return float(self.seconds.mean())


def fluid(
    jobs: Sequence[Shape], weight: Sequence[float], iterations: int, shifts: Mapping[int, float]
) -> list[Iterations]:
    """Simulate jobs on the link under weighted max-min sharing; all start at 0 but for `shifts`.

    The first `iterations` of each are returned; jobs go on until all have them.
    """
    made = [
        SimJob(
            job.compute_s,
            job.compute_s,
            (SimFlow(job.bytes, (0,), weight=share, rate=job.gbit * GBIT),),
            start=shifts.get(index, 0.0),
        )
        for index, (job, share) in enumerate(zip(jobs, weight, strict=True))
    ]
    # Each job has at least what is left of the link; nobody takes this many times as long.
    end = 20 * (iterations + 1) * max(job.iteration_s for job in jobs)
    options = Options(recorded=range(len(made)))
    found = simulate(Fabric.of([thesis().link.gbit * GBIT]), pack(made), end, None, options)
    return [
        Iterations(
            np.diff(found.recorded_end[found.recorded_job == index], prepend=one.start)[:iterations]
        )
        for index, one in enumerate(made)
    ]


def by_rates(
    jobs: Sequence[Shape],
    timers_us: Sequence[float],
    iterations: int,
    watch: Watch | None = None,
) -> list[Iterations]:
    """Simulate jobs on the link in the rate model of DCQCN, T of each in us; all start at 0."""
    made = [
        TrainingJob(
            f"J{index + 1}",
            job.compute_s,
            job.bytes,
            Sender(t_s=timer * 1e-6),
            flows=QUEUE_PAIRS,
            rate=job.gbit * GBIT,
        )
        for index, (job, timer) in enumerate(zip(jobs, timers_us, strict=True))
    ]
    link = Link(rate=thesis().link.gbit * GBIT)
    found = dcqcn_model.run(made, link, iterations, SEED, watch=watch)
    return [Iterations(np.array(found[one.name])) for one in made]


def timers_us(row: Row) -> list[int]:
    """Return T of a row's jobs under unfairness: the last in order keeps the fair one."""
    steps = [PLAIN_T_US, EAGER_T_US, EAGEREST_T_US]
    doublings = [round(math.log2(weight)) for weight in weights(row)]
    return [steps[place] for place in doublings]


def pattern(name: str, job: Shape) -> Pattern:
    """Return the demand of a job; its circle begins when it begins to send."""
    return Pattern(name, job.iteration_s, ((0.0, job.send_s, job.gbit * GBIT),))
