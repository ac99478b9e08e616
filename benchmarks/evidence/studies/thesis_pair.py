"""Pairs of jobs in Rajasekaran's thesis: fair, unfair, shifted, and on the unified circle."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.evidence import thesis_jobs
from benchmarks.evidence.document import Curve, Evidence, Kind, Line, Request, Study, within
from benchmarks.evidence.readings import Floats
from benchmarks.evidence.thesis_jobs import Shape, fluid, thesis
from hostcc.mltcp.dcqcn import EAGER_T_US, PLAIN_T_US
from hostcc.schedule.cassini import compatibility
from hostcc.schedule.cassini.circle import Pattern
from hostcc.sim.fabrics import GBIT

PAIR = "vgg19-pair"
ITERATIONS = 60
QUICK_ITERATIONS = 6
APART = 1.01
"""Iterations count as apart from here on that take at most this share of one alone."""
SHIFT_S = 0.12
DRAWN_S = 2.0
BIN_S = 0.005
CIRCLE = (("40 ms", 0.04, 0.01), ("60 ms", 0.06, 0.01))
"""(Job, iteration, communication), seconds."""
CIRCLE_GBIT = 50.0


@dataclass(frozen=True)
class Pair:
    """Iterations of both jobs, seconds."""

    first: Floats
    second: Floats

    @property
    def mean(self) -> float:
        """Mean of all."""
        return float(np.concatenate([self.first, self.second]).mean())

    @property
    def median(self) -> float:
        """Median of all."""
        return float(np.median(np.concatenate([self.first, self.second])))

    def rates(self, shape: Shape) -> tuple[float, float]:
        """Return Gbit/s of the first and the second job in the first iteration.

        Of the second: while the first sends, too; afterwards it has the rate of one alone.
        """
        early, late = sorted((float(self.first[0]), float(self.second[0])))
        alone = (late - early) * shape.gbit
        sent = shape.bytes / GBIT
        both = early - shape.compute_s
        return sent / both, (sent - alone) / both

    def apart(self, shape: Shape) -> int:
        """Return the first iteration from which on both take as long as alone; 0: none."""
        slow = (self.first > APART * shape.iteration_s) | (self.second > APART * shape.iteration_s)
        last = int(np.flatnonzero(slow)[-1]) + 1 if slow.any() else 0
        return last + 1 if last < len(slow) else 0


def by_fluid(shape: Shape, weights: Sequence[float], iterations: int) -> Pair:
    """Simulate two alike under weighted max-min sharing."""
    found = fluid([shape, shape], weights, iterations, {})
    return Pair(found[0].seconds, found[1].seconds)


@dataclass(frozen=True)
class Rates:
    """Gbit/s of both jobs over time, in bins of BIN_S: what the figures draw."""

    first: Floats
    second: Floats

    def curves(self, panel: str) -> tuple[Curve, ...]:
        """Return a line of each job."""
        return tuple(
            Curve(
                panel=panel,
                label=job,
                x=tuple((BIN_S * np.arange(len(own))).tolist()),
                y=tuple(own.tolist()),
                x_label="s",
                y_label="Gbit/s",
            )
            for job, own in (("J1", self.first), ("J2", self.second))
        )


def by_rates(shape: Shape, timers_us: Sequence[float], iterations: int) -> tuple[Pair, Rates]:
    """Simulate two alike in the rate model of DCQCN; the rates are of the first DRAWN_S."""
    sent = {job: np.zeros(round(DRAWN_S / BIN_S)) for job in ("J1", "J2")}

    def watch(now: float, job: str, size: float) -> None:
        if (place := int(now / BIN_S)) < len(sent[job]):
            sent[job][place] += size

    first, second = thesis_jobs.by_rates([shape, shape], timers_us, iterations, watch)
    gbit = {job: size / BIN_S / GBIT for job, size in sent.items()}
    return Pair(first.seconds, second.seconds), Rates(gbit["J1"], gbit["J2"])


def figure_3_1(request: Request) -> Evidence:
    """Fair: both get half of the usable link, and stay in step."""
    shape, iterations = thesis().shape(PAIR), _iterations(request)
    modelled, rates = by_rates(shape, (PLAIN_T_US, PLAIN_T_US), iterations)
    found = {"fluid": by_fluid(shape, (1, 1), iterations), "DCQCN model": modelled}
    lines = []
    for name, pair in found.items():
        kind: Kind = "fitted" if name == "fluid" else "predicted"
        for job, rate in zip(("J1", "J2"), pair.rates(shape), strict=True):
            lines.append(
                Line(
                    setting=f"{name}, T {PLAIN_T_US} us",
                    figure=f"{job}, first iteration, Gbit/s",
                    published=21.0,
                    here=rate,
                    kind=kind,
                    why="the usable link was set to twice that" if kind == "fitted" else "",
                )
            )
    curves = (*_curves(found), *rates.curves("DCQCN model, rates"))
    return Evidence(lines=tuple(lines), notes=(NOTE,), curves=curves)


def figure_3_2(request: Request) -> Evidence:
    """Unfair: the more eager job goes first, and both are apart after some iterations."""
    shape, iterations = thesis().shape(PAIR), _iterations(request)
    weight = thesis().unfair.weight
    fair, fair_rates = by_rates(shape, (PLAIN_T_US, PLAIN_T_US), iterations)
    unfair, unfair_rates = by_rates(shape, (EAGER_T_US, PLAIN_T_US), iterations)
    found = {
        "fluid": (by_fluid(shape, (1, 1), iterations), by_fluid(shape, (weight, 1), iterations)),
        "DCQCN model": (fair, unfair),
    }
    lines: list[Line] = []
    for name, (fair, unfair) in found.items():
        lines += _unfair_lines(name, shape, fair, unfair)
    return Evidence(
        lines=tuple(lines),
        notes=(
            NOTE,
            (
                "fair takes at most 1 + (30 / 21 - 1) 0.08 / 0.28 = 1.12 of alone with these "
                "rates and ends: a median gain of 1.23 needs 0.15 s of sending, so J2 at 0.36 s"
            ),
        ),
        curves=(
            *_curves({name: unfair for name, (_, unfair) in found.items()}),
            *fair_rates.curves("DCQCN model, rates, fair"),
            *unfair_rates.curves("DCQCN model, rates, unfair"),
        ),
    )


def _unfair_lines(name: str, shape: Shape, fair: Pair, unfair: Pair) -> list[Line]:
    first, second = unfair.rates(shape)
    ends: Kind = "fitted" if name == "fluid" else "predicted"
    apart = unfair.apart(shape)
    return [
        Line(
            setting=name,
            figure="J1 ends its first iteration, s",
            published=0.28,
            here=float(unfair.first[0]),
            kind=ends,
        ),
        Line(
            setting=name,
            figure="J2 ends its first iteration, s",
            published=0.32,
            here=float(unfair.second[0]),
            kind=ends,
        ),
        Line(setting=name, figure="J1, first iteration, Gbit/s", published=30.0, here=first),
        Line(
            setting=name,
            figure="J2, while J1 sends, Gbit/s",
            published=15.0,
            here=second,
            why="30 and 15 are more than the 42 of Figure 3.1" if name == "fluid" else "",
        ),
        Line(
            setting=name,
            figure="median fair over median unfair",
            published=1.23,
            here=fair.median / unfair.median,
        ),
        Line(
            setting=name,
            figure="apart from iteration",
            published=4.0,
            here=float(apart),
            bar="by the 4th",
            met=1 <= apart <= 4,
        ),
    ]


def section_4_2(request: Request) -> Evidence:
    """One of two VGG19 starts 120 ms later."""
    shape, iterations = thesis().shape(PAIR), _iterations(request)
    together = by_fluid(shape, (1, 1), iterations)
    moved = fluid([shape, shape], (1, 1), iterations, {1: SHIFT_S})
    after = np.concatenate([one.seconds for one in moved])
    before = np.concatenate([together.first, together.second])
    gain = float(np.quantile(before, 0.9) / np.quantile(after, 0.9))
    alone = shape.iteration_s
    return Evidence(
        lines=(
            Line(
                setting="two VGG19, fluid",
                figure="p90 together over p90 shifted by 120 ms",
                published=1.26,
                here=gain,
                why="at most 1.12 with the rates and ends of Figures 3.1 and 3.2",
            ),
            Line(
                setting="two VGG19, fluid",
                figure="p90 shifted over alone",
                published=None,
                here=float(np.quantile(after, 0.9)) / alone,
                bar="as alone",
                met=float(np.quantile(after, 0.9)) <= APART * alone,
            ),
        ),
        missing=("the batch of these jobs: those of Figure 3.2 stand for them",),
    )


def section_4_5(request: Request) -> Evidence:  # noqa: ARG001
    """Jobs of 40 and 60 ms on their unified circle."""
    patterns = [
        Pattern(name, period, ((period - sends, period, CIRCLE_GBIT * GBIT),))
        for name, period, sends in CIRCLE
    ]
    found = compatibility.fit(patterns, CIRCLE_GBIT * GBIT)
    perimeter = found.circle.perimeter
    where = "40 and 60 ms"
    angle = 360 * statistics.fmean(found.shifts[1:]) / perimeter
    return Evidence(
        lines=(
            within(where, "circle, ms", 120.0, 1e3 * perimeter, tolerance=1e-9),
            within(where, "score", 1.0, found.score, tolerance=1e-9),
            Line(
                setting=where,
                figure="rotation, degrees",
                published=30.0,
                here=angle,
                kind="fitted",
                why="both send 10 ms, so that turns by 10 ms, 30 degrees, fit and no others",
            ),
        ),
        missing=(
            (
                "how long the two communicate: 10 ms at the full link each, at the end of an "
                "iteration, stand for it"
            ),
        ),
    )


NOTE = "jobs alone: 0.28 s, of which 0.08 s sending at 30 Gbit/s (thesis.toml)"


def _iterations(request: Request) -> int:
    return QUICK_ITERATIONS if request.quick else ITERATIONS


def _curves(found: dict[str, Pair]) -> tuple[Curve, ...]:
    return tuple(
        Curve(
            panel=name,
            label=job,
            x=tuple(map(float, range(1, len(own) + 1))),
            y=tuple(own.tolist()),
            x_label="iteration",
            y_label="s",
        )
        for name, pair in found.items()
        for job, own in (("J1", pair.first), ("J2", pair.second))
    )


SOURCE = "Rajasekaran's thesis"
STUDIES = (
    Study(
        "thesis-3.1",
        f"{SOURCE}, Figure 3.1",
        "two VGG19 with equal timers: 21 Gbit/s each",
        figure_3_1,
    ),
    Study(
        "thesis-3.2",
        f"{SOURCE}, Figure 3.2",
        "two VGG19 with timers of 125 and 100 us: apart after some iterations",
        figure_3_2,
    ),
    Study(
        "thesis-4.2",
        f"{SOURCE}, section 4.2",
        "two VGG19, one of them 120 ms later",
        section_4_2,
    ),
    Study(
        "thesis-4.5",
        f"{SOURCE}, section 4.5",
        "jobs of 40 and 60 ms on the unified circle",
        section_4_5,
    ),
)
