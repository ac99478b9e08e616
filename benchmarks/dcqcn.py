"""DCQCN jobs with equal senders, with unequal timers, and with MLTCP: the thesis's experiment.

A rate model (hostcc.sim.dcqcn_model), not hardware, and other jobs than the thesis's: only the sign
and rough size of each gain can be compared.  Needs no kernel.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks import options
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.mltcp.dcqcn import EAGER_T_US, PLAIN_T_US
from hostcc.mltcp.params import Shape
from hostcc.mltcp.shape import f_of
from hostcc.sim.dcqcn_model import Link, Scale, Sender, TrainingJob
from hostcc.sim.dcqcn_model import run as simulate

LINK = Link()
FLOWS = 8
GAIN, LOSS = 1.05, 0.97
SMALLER_T_US = 80
"""The first job of a triple: by the same factor again."""


@dataclass(frozen=True)
class Mix:
    """Jobs on one link: (iteration alone in seconds, share of communication)."""

    name: str
    jobs: tuple[tuple[float, float], ...]
    compatible: bool
    published: str


MIXES = (
    Mix("two alike, 30 %", ((0.25, 0.30),) * 2, True, "two VGG19: 1.23"),
    Mix("two alike, 45 %", ((0.25, 0.45),) * 2, True, "compatible pair: gains, up to 1.3"),
    Mix("three alike, 28 %", ((0.25, 0.28),) * 3, True, "compatible triple: gains"),
    Mix("two alike, 70 %", ((0.25, 0.70),) * 2, False, "incompatible: none"),
    Mix("250 and 170 ms, 50 %", ((0.25, 0.50), (0.17, 0.50)), False, "incompatible: none"),
    Mix(
        "250, 210 and 170 ms, 45 %",
        ((0.25, 0.45), (0.21, 0.45), (0.17, 0.45)),
        False,
        "incompatible triple: none",
    ),
)
SENDERS = ("fair", "unfair", "mltcp")


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many iterations."""
    parser.add_argument(
        "--iterations",
        type=options.whole("--iterations", 5, 10_000),
        default=40,
        metavar="N",
        help="iterations of each job (default: %(default)s)",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Simulate every mix; a run is a seed."""
    rows: list[dict[str, Cell]] = []
    goals: list[Verdict] = []
    for number, mix in enumerate(MIXES):
        medians: dict[str, list[float]] = {name: [] for name in SENDERS}
        means: dict[str, list[float]] = {name: [] for name in SENDERS}
        for seed in range(1, context.runs + 1):
            for name in SENDERS:
                context.tell(f"{mix.name}: {name} #{seed}", number, len(MIXES))
                ratios = simulated(mix, name, args.iterations, seed)
                medians[name].append(statistics.median(ratios))
                means[name].append(statistics.mean(ratios))
        gains = {name: gain(means["fair"], means[name]) for name in SENDERS[1:]}
        rows.append({
            "mix": mix.name,
            "published": mix.published,
            **{f"median-{name}": spread(values) for name, values in medians.items()},
            **{f"gain-{name}": spread(values) for name, values in gains.items()},
            "gain-median": spread(gain(medians["fair"], medians["unfair"])),
        })  # fmt: skip
        goals += [judge(mix, name, values) for name, values in gains.items()]
    return Record(
        benchmark="dcqcn",
        title="iteration time over the time alone, DCQCN rate model",
        parameters={"iterations": args.iterations, "runs": context.runs, "flows": FLOWS},
        columns=[
            Column("mix", "jobs"),
            *(Column(f"median-{name}", f"median, {name}") for name in SENDERS),
            Column("gain-median", "unfair gains, median"),
            Column("gain-unfair", "unfair gains, mean"),
            Column("gain-mltcp", "mltcp gains, mean"),
            Column("published", "published (median)"),
        ],
        rows=rows,
        goals=goals,
        notes=[
            (
                f"fair: T {PLAIN_T_US} us for all; unfair: T {EAGER_T_US} us for the first job (of"
                f" three: {SMALLER_T_US} and {EAGER_T_US} us for the first two); mltcp: R_AI times"
                " F(bytes_ratio), F linear, T as if fair"
            ),
            "a rate model with jobs of our own: the thesis's models and batch sizes are not here",
            "published: Rajasekaran, MIT thesis 2025, section 3.1, on ConnectX NICs",
        ],
    )


def simulated(mix: Mix, senders: str, iterations: int, seed: int) -> list[float]:
    """Iteration time over the time alone, of all jobs and iterations."""
    f: Scale | None = linear if senders == "mltcp" else None
    timers = timers_of(len(mix.jobs)) if senders == "unfair" else (PLAIN_T_US,) * len(mix.jobs)
    jobs = [
        TrainingJob(
            f"job{place}", period * (1 - share), LINK.rate * period * share,
            Sender(t_s=timer * 1e-6, mltcp=f), flows=FLOWS,
        )
        for place, ((period, share), timer) in enumerate(zip(mix.jobs, timers, strict=True))
    ]  # fmt: skip
    found = simulate(jobs, LINK, iterations, seed)
    periods = [period for period, _ in mix.jobs]
    return [
        duration / period
        for period, durations in zip(periods, found.values(), strict=True)
        for duration in durations
    ]


def timers_of(jobs: int) -> tuple[int, ...]:
    """T of each job of two or three, us, the last as if fair: the thesis's, and one more step."""
    return (SMALLER_T_US, EAGER_T_US, PLAIN_T_US)[-jobs:]


def linear(ratio: float) -> float:
    """The default F."""
    return float(f_of(Shape(), np.array([ratio]))[0])


def gain(before: Sequence[float], after: Sequence[float]) -> list[float]:
    """How many times faster, run by run."""
    return [old / new for old, new in zip(before, after, strict=True)]


def judge(mix: Mix, name: str, values: Sequence[float]) -> Verdict:
    """Compatible jobs gain; the others at least do not lose much."""
    least = GAIN if mix.compatible else LOSS
    measured = spread(values)
    goal = f"{name} gains >= {least:g} in the mean"
    good = [value >= least for value in values]
    return Verdict(mix.name, goal, measured, sum(good), (measured.median or 0.0) >= least)
