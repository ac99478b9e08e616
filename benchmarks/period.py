"""Detection rate and accuracy of the iteration period, and false detections.

Generated series of known period and bytes, beside the Fourier transform's strongest line and
the autocorrelation's highest peak.  Needs no kernel; a run is a set of seeds of its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import hostcc.measure
from benchmarks import options, period_rivals, period_told, synthetic
from benchmarks.cases import Identity, identity_of
from benchmarks.context import Context
from benchmarks.harness import Case, run_cases
from benchmarks.period_rivals import correlation, fourier
from benchmarks.period_told import TOLD, Answer
from benchmarks.record import Cell, Column, Record, Spread, Verdict, spread
from hostcc.daemon.profiling.turns.local import ENOUGH
from hostcc.measure.period import detect
from hostcc.measure.series import ByteSeries

CLEAN, DIRTY = 0.01, 0.05
"""Goals: period and bytes within so much after ten iterations."""
FIRST_SEED = 1000
CLASSES = (*synthetic.PERIODIC, *synthetic.APERIODIC)


class Figures(msgspec.Struct, frozen=True):
    """One method on one class of series; percentages of all series."""

    found: float
    """Called periodic: for series without a period, this is wrong."""
    period: float | None
    """Period within the goal."""
    both: float | None
    """Period and bytes within the goal."""
    p50: float | None
    """Median relative error of the periods that were found, per cent."""
    p99: float | None
    milliseconds: float
    """CPU time of one analysis."""
    sure: float
    """Found with so much confidence that a profile counts as known."""
    sure_right: float | None
    """Of those, period and bytes within the goal; None where there are none."""


def hostcc_method(of: ByteSeries) -> Answer:
    """What the agent does."""
    found = detect(of)
    return found.period_s, found.bytes_per_iteration, found.confidence


def _with_mean_rate(method: Callable[[ByteSeries], float | None]) -> Callable[[ByteSeries], Answer]:
    """Bytes of an iteration: the mean rate times the period."""

    def answer(of: ByteSeries) -> Answer:
        period = method(of)
        mean = float(of.total.sum()) / max(len(of) * of.bin_s, 1e-12)
        return period, None if period is None else mean * period, 0.0

    return answer


METHODS: dict[str, Callable[[ByteSeries], Answer]] = {
    "hostcc": hostcc_method,
    "fft": _with_mean_rate(fourier),
    "autocorrelation": _with_mean_rate(correlation),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Series of each class, and which classes."""
    parser.add_argument(
        "--series",
        type=options.whole("--series", 1, 100_000),
        default=1000,
        metavar="N",
        help="series of each class and run (default: %(default)s)",
    )
    parser.add_argument(
        "--classes",
        type=options.names("--classes", CLASSES),
        default=CLASSES,
        metavar="NAME,NAME,...",
        help="(default: all)",
    )
    parser.add_argument(
        "--told",
        action="store_true",
        help="also upper bounds: with the period given, and with the start of each iteration given",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    cases = [
        Case(
            name,
            f"{name.replace(' ', '-').replace('%', 'percent')}-{number}",
            f"{name} #{number}",
            partial(_identity, name, args.series, told=args.told),
            partial(measure, name, args.series, number, told=args.told),
        )
        for number in range(1, context.runs + 1)
        for name in args.classes
    ]
    done = run_cases(context, dict[str, Figures], cases, lambda found: str(found["hostcc"]))
    measured = {name: done.results.get(name, []) for name in args.classes}
    return Record(
        benchmark="period",
        title="iteration period of generated series, after ten iterations",
        parameters={"series": args.series, "classes": list(args.classes), "runs": context.runs},
        columns=[
            Column("class", "series"),
            Column("method", "method"),
            Column("found", "called periodic %", digits=1),
            Column("period", "period right %", digits=1),
            Column("both", "and bytes %", digits=1),
            Column("p50", "error p50 %", digits=3),
            Column("p99", "p99 %", digits=2),
            Column("sure", "sure %", digits=1),
            Column("sure_right", "of these right %", digits=1),
            Column("milliseconds", "ms", digits=1),
        ],
        rows=[
            row(name, method, [found[method] for found in runs])
            for name, runs in measured.items()
            if runs
            for method in (*METHODS, *(TOLD if args.told else ()))
        ],
        goals=[goal for name, runs in measured.items() if runs for goal in judge(name, runs)],
        notes=[
            (
                "right: within 1 % of what was generated for clean series, 5 % for the others; the "
                "period that was generated is the median iteration's; series without a period "
                "should never be called periodic; sure: found with a confidence of 0.7 and more; "
                "ms: CPU time of one analysis"
            )
        ],
        failures=done.failures,
    )


def _identity(name: str, series: int, *, told: bool) -> Identity:
    parameters = {"class": name, "series": series, **({"told": True} if told else {})}
    code = [Path(folder) for folder in hostcc.measure.__path__]
    judges = (synthetic, period_rivals, period_told)
    code += [Path(__file__), *(Path(module.__file__ or "") for module in judges)]
    return identity_of(parameters, code=code)


def _from_series(method: Callable[[ByteSeries], Answer]) -> Callable[[synthetic.Sample], Answer]:
    return lambda sample: method(sample.series)


def measure(name: str, count: int, number: int, *, told: bool = False) -> dict[str, Figures]:
    """All methods on `count` series of a class; `number` chooses the seeds.

    `told`: those as well that are told what has to be found out.
    """
    tolerance = _tolerance(name)
    methods = {method: _from_series(answer) for method, answer in METHODS.items()}
    methods |= TOLD if told else {}
    answers: dict[str, list[Answer]] = {method: [] for method in methods}
    taken = dict.fromkeys(methods, 0.0)
    truth: list[Answer] = []
    for seed in range(count):
        sample = _make(name, np.random.default_rng([FIRST_SEED + number, seed]))
        truth.append((sample.period_s, sample.iteration_bytes, 1.0))
        for method, answer in methods.items():
            began = time.process_time()
            answers[method].append(answer(sample))
            taken[method] += time.process_time() - began
    return {
        method: _figures(answers[method], truth, tolerance, taken[method] / count)
        for method in methods
    }


def _figures(
    answers: list[Answer], truth: list[Answer], tolerance: float, seconds: float
) -> Figures:
    found = np.array([period is not None for period, _, _ in answers])
    sure = np.array([confidence >= ENOUGH for _, _, confidence in answers])
    surely = float(sure.mean()) * 100
    if truth[0][0] is None:
        return Figures(
            float(found.mean()) * 100, None, None, None, None, seconds * 1e3, surely, None
        )
    period, sent = (np.abs(_column(answers, index) / _column(truth, index) - 1) for index in (0, 1))
    right = period <= tolerance
    both = right & (sent <= tolerance)
    errors = period[found] * 100
    return Figures(
        float(found.mean()) * 100,
        float(right.mean()) * 100,
        float(both.mean()) * 100,
        float(np.quantile(errors, 0.5)) if len(errors) else None,
        float(np.quantile(errors, 0.99)) if len(errors) else None,
        seconds * 1e3,
        surely,
        float(both[sure].mean()) * 100 if sure.any() else None,
    )


def _column(answers: list[Answer], index: int) -> Any:
    """One part of each answer as floats; NaN where there is none."""
    values = [answer[index] for answer in answers]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _make(name: str, rng: np.random.Generator) -> synthetic.Sample:
    if name in synthetic.PERIODIC:
        return synthetic.PERIODIC[name][1](rng)
    return synthetic.APERIODIC[name](rng)


def _tolerance(name: str) -> float:
    return CLEAN if name in synthetic.PERIODIC and synthetic.PERIODIC[name][0] else DIRTY


def row(name: str, method: str, runs: list[Figures]) -> dict[str, Cell]:
    """A line of the table."""
    cells: dict[str, Cell] = {"class": name, "method": method}
    for field in Figures.__struct_fields__:
        values = [getattr(figures, field) for figures in runs]
        cells[field] = None if all(value is None for value in values) else spread(values)
    return cells


def judge(name: str, runs: list[dict[str, Figures]]) -> list[Verdict]:
    """Whether ours is right nearly always, and oftener than the others."""
    ours = [found["hostcc"] for found in runs]
    if name in synthetic.APERIODIC:
        return [_verdict(name, "called periodic <= 2 %", [0.0 - f.found for f in ours], -2.0)]
    least = 95.0 if _tolerance(name) == CLEAN else 90.0
    others = [
        max((found[method].both or 0.0) for method in METHODS if method != "hostcc")
        for found in runs
    ]
    margins = [(f.both or 0.0) - other for f, other in zip(ours, others, strict=True)]
    return [
        _verdict(name, f"period right >= {least:g} %", [f.period or 0.0 for f in ours], least),
        _verdict(name, "period and bytes: points above the best other > 0", margins, 1e-9),
    ]


def _verdict(name: str, goal: str, values: list[float], least: float) -> Verdict:
    measured = spread(values)
    met = measured.median is not None and measured.median >= least
    return Verdict(name, goal, _shown(measured), sum(v >= least for v in values), met)


def _shown(value: Spread) -> Spread:
    """Percentages that were negated to be compared, as they are."""
    if (value.median or 0.0) >= 0 and (value.least or 0.0) >= 0:
        return value
    if all(v is not None and v <= 0 for v in value.values):
        return spread([None if v is None else -v for v in value.values])
    return value


def draw(record: Record, out: Path) -> list[Path]:
    """Bars: how often each method is right, or wrong where there is no period."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    classes = list(dict.fromkeys(str(line["class"]) for line in record.rows))
    figure, axis = plt.subplots(figsize=(8, 1.2 + 0.42 * len(classes)), layout="constrained")
    for index, method in enumerate(METHODS):
        for place, name in enumerate(classes):
            line = next(r for r in record.rows if (r["class"], r["method"]) == (name, method))
            value = line["both"] if line["both"] is not None else line["found"]
            if isinstance(value, Spread) and value.median is not None:
                axis.barh(
                    place + 0.26 * (index - 1),
                    value.median,
                    height=0.24,
                    color=f"C{index}",
                    hatch=None if line["both"] is not None else "///",
                    label=method if place == 0 else None,
                )
    axis.set_yticks(range(len(classes)), classes, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(0, 100)
    axis.set_xlabel("% of series: period and bytes right; hatched: wrongly called periodic")
    axis.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.1), ncols=3)
    axis.spines[["top", "right"]].set_visible(False)
    path = out / "period.png"
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return [path]
