"""Crux's simulated clusters (Figures 23 to 25, and who is served last), on a generated trace.

Three numbers are free: the rate of uplinks, a factor of what jobs send, and queue pairs per
connection. `hostcc evidence crux-23 --fit` sets them by two bars; all else is predicted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.evidence import cluster_cases, readings
from benchmarks.evidence.cluster_cases import DAYS, QUICK_DAYS, Calibration, Case, Kept
from benchmarks.evidence.document import Curve, Evidence, Line, Request, Study

Results = Mapping[Case, Kept]

SCHEDULERS = {
    "Sincronia": "sincronia",
    "TACCL*": "tacclstar",
    "CASSINI": "cassini",
    "Crux-PA": "crux-pa",
    "Crux-PS-PA": "crux-ps-pa",
    "Crux-full": "crux-full",
}
"""Bar -> who schedules here."""
FABRICS = {"Clos": "crux-clos", "double-sided": "crux-double"}
FITTED = ("Sincronia", "Crux-full")
"""Bars of the Clos by which the free numbers are set."""
PLACEMENTS = {"None": "none", "Muri": "muri", "HiveD": "hived"}
WITH = {"alone": "ecmp", "with Crux": "crux-full", "with hostcc": "hostcc"}
"""Bar of Figure 25 -> who schedules; `alone` is the placement alone."""
UPLINKS, SCALES, QUEUE_PAIRS = (50.0, 100.0, 200.0), (0.5, 1.0, 2.0, 4.0), (1, 4)
"""The grid of a fit."""
GOAL = 0.05
APART = 0.03
"""Published difference from which the order of two bars has to come out."""
SAME = 0.01
DAY_S = 24 * 3600.0
DRAWN_DAYS = (0.0, 12.0)
MISSING = (
    "the trace: a generated one with its published counts (seed 7)",
    "what models send and compute: hostcc/sim/workloads.toml, nearly all assumed, times one factor",
    "rates of the fabrics, and queue pairs: fitted",
    "TACCL* has no order for jobs: one by a hash stands for it",
)


def bars(request: Request) -> Evidence:
    """Figure 23."""
    notes = []
    if request.fit:
        notes.append(_fit(request))
    free = cluster_cases.calibration(request)
    days = _days(request)
    cases = {
        (fabric, bar): Case(who, free, named, days=days)
        for fabric, named in FABRICS.items()
        for bar, who in {**SCHEDULERS, "hostcc": "hostcc"}.items()
    }
    other = [] if request.quick else cluster_cases.halved_and_doubled(free)
    varied = {
        (words, bar): Case(SCHEDULERS[bar], numbers, days=QUICK_DAYS)
        for words, numbers in [("as fitted", free), *other]
        for bar in FITTED
    }
    wanted = [*cases.values(), *(varied.values() if other else ())]
    found = cluster_cases.results(wanted, request)
    here = {key: _utilisation(found[case]) for key, case in cases.items()}
    published = {
        (row["setting"], row["what"]): float(row["value"])
        for row in readings.table("crux-fig19-25-bars.csv")
        if row["figure"] == "23"
    }
    lines = [_bar(key, published.get(key), value) for key, value in here.items()]
    lines += _judged(here, published)
    lines += [_against_crux(fabric, here) for fabric in FABRICS]
    if other:
        lines += [
            _sensitivity(*key, here[FABRICS_FIRST, key[1]], _utilisation(found[case]))
            for key, case in varied.items()
        ]
    notes.append(_numbers(free))
    return Evidence(
        lines=tuple(lines),
        missing=MISSING,
        notes=(*notes, *_period(request)),
        curves=_bar_curves(here, published),
    )


FABRICS_FIRST = next(iter(FABRICS))


def over_time(request: Request) -> Evidence:
    """Figure 24."""
    free = cluster_cases.calibration(request)
    cases = {bar: Case(who, free, days=_days(request)) for bar, who in SCHEDULERS.items()}
    found = cluster_cases.results(list(cases.values()), request)
    lines, curves = [], []
    for bar, case in cases.items():
        days, values = readings.curve("crux-fig24-gpu-utilisation.csv", scheduler=bar)
        lines.append(
            Line(
                setting="Fig. 24, Clos",
                figure=f"mean over time, {bar}",
                published=readings.mean_between(days, values, *DRAWN_DAYS),
                here=cluster_cases.mean_of_course(found[case]),
            )
        )
        if not request.quick:
            lines.append(
                Line(
                    setting="Fig. 24, Clos",
                    figure=f"first day, {bar}",
                    published=readings.mean_between(days, values, 0.0, 1.0),
                    here=_first_day(found[case]),
                    why="the replay begins a day before, as the figure",
                )
            )
        curves += _course(bar, (days, values), found[case])
    network = [_carried(found[cases[bar]]) for bar in ("Crux-PA", "Crux-PS-PA")]
    lines.append(
        Line(
            setting="Fig. 24, Clos",
            figure="use of uplinks, Crux-PA to Crux-PS-PA, %",
            published=97.0,
            here=100 * (network[1] / network[0] - 1) if network[0] else math.nan,
        )
    )
    return Evidence(
        lines=tuple(lines),
        missing=MISSING,
        notes=(_numbers(free), *_period(request)),
        curves=tuple(curves),
    )


def placements(request: Request) -> Evidence:
    """Figure 25."""
    free = cluster_cases.calibration(request)
    cases = {
        (placement, bar): Case(who, free, placement=named, days=_days(request))
        for placement, named in PLACEMENTS.items()
        for bar, who in WITH.items()
    }
    found = cluster_cases.results(list(cases.values()), request)
    published = {
        (row["n"], row["what"]): float(row["value"])
        for row in readings.table("crux-fig19-25-bars.csv")
        if row["figure"] == "25"
    }
    lines = [
        Line(
            setting=f"Fig. 25, placement {placement}",
            figure=f"utilisation, {bar}",
            published=published.get((placement, bar)),
            here=_utilisation(found[case]),
            why="" if (placement, bar) in published else "no such bar",
        )
        for (placement, bar), case in cases.items()
    ]
    return Evidence(
        lines=tuple(lines),
        missing=(*MISSING, "who schedules beside a placement alone: ECMP stands for it"),
        notes=(_numbers(free), *_period(request)),
    )


def fairness(request: Request) -> Evidence:
    """Section 7: what the lowest level loses."""
    free = cluster_cases.calibration(request)
    cases = {who: Case(who, free, days=_days(request)) for who in ("crux-full", "hostcc")}
    found = cluster_cases.results(list(cases.values()), request)
    lines = []
    for who, case in cases.items():
        figures = found[case].figures
        loss, ratio = figures["throughput_loss_lowest_level"], figures["jct_ratio"] or {}
        if loss is not None:
            lines.append(
                Line(
                    setting=f"Clos, {who}",
                    figure="throughput of jobs at the lowest level, %",
                    published=-55.5 if who == "crux-full" else None,
                    here=-100 * loss,
                    why="jobs there for most of their time, beside others",
                )
            )
        lines.append(
            Line(
                setting=f"Clos, {who}",
                figure="longest time of a job over that alone",
                published=2.25 if who == "crux-full" else None,
                here=float(ratio.get("max", math.nan)),
                why="strict levels promise no bound; published: 1 / (1 - 0.555)",
            )
        )
    return Evidence(lines=tuple(lines), missing=MISSING, notes=(_numbers(free), *_period(request)))


def _days(request: Request) -> float:
    return QUICK_DAYS if request.quick else DAYS


def _period(request: Request) -> tuple[str, ...]:
    return ("quick: the two days in which jobs hold most GPUs",) if request.quick else ()


def _fit(request: Request) -> str:
    """Choose the free numbers on the grid by the two busiest days, and write them."""
    grid = [
        Calibration(uplink, scale, pairs)
        for uplink, scale, pairs in itertools.product(UPLINKS, SCALES, QUEUE_PAIRS)
    ]
    wanted = {bar: _published_bar(bar) for bar in FITTED}
    cases = {
        (free, bar): Case(SCHEDULERS[bar], free, days=QUICK_DAYS) for free in grid for bar in FITTED
    }
    found = cluster_cases.results(list(cases.values()), request)

    def off(free: Calibration) -> float:
        return sum(
            (_utilisation(found[cases[free, bar]]) - value) ** 2 for bar, value in wanted.items()
        )

    best = min(grid, key=lambda free: (off(free), *msgspec.to_builtins(free).values()))
    folder = request.out or cluster_cases.CALIBRATION.parent
    path = cluster_cases.write(
        best, Path(folder), "By hostcc evidence crux-23 --fit, on the two busiest days"
    )
    return f"fitted on {len(grid)} points of a grid, off by {math.sqrt(off(best)):.3f}: {path}"


def _published_bar(bar: str) -> float:
    (found,) = (
        float(row["value"])
        for row in readings.table("crux-fig19-25-bars.csv")
        if (row["figure"], row["setting"], row["what"]) == ("23", FABRICS_FIRST, bar)
    )
    return found


def _utilisation(kept: Kept) -> float:
    return float(kept.figures["utilisation"])


def _carried(kept: Kept) -> float:
    return float(kept.figures["network_utilisation"].get("agg", 0.0))


def _bar(key: tuple[str, str], published: float | None, here: float) -> Line:
    fabric, bar = key
    fitted = fabric == FABRICS_FIRST and bar in FITTED
    return Line(
        setting=f"Fig. 23, {fabric}",
        figure=f"utilisation, {bar}",
        published=published,
        here=here,
        kind="fitted" if fitted else "predicted",
        why="the free numbers were set by it" if fitted else "",
    )


def _judged(
    here: Mapping[tuple[str, str], float], published: Mapping[tuple[str, str], float]
) -> list[Line]:
    """Return the bars of section 8: order, mean difference, PS-PA beside full."""
    predicted = [key for key in published if not (key[0] == FABRICS_FIRST and key[1] in FITTED)]
    mean = float(np.mean([abs(here[key] - published[key]) for key in predicted]))
    turned = [
        (one, other)
        for one, other in itertools.combinations(published, 2)
        if one[0] == other[0]
        and abs(published[one] - published[other]) >= APART
        and (here[one] - here[other]) * (published[one] - published[other]) <= 0
    ]
    lines = [
        Line(
            setting="Fig. 23",
            figure="mean difference of the predicted bars",
            published=None,
            here=mean,
            bar=f"at most {GOAL}",
            met=mean <= GOAL,
        ),
        Line(
            setting="Fig. 23",
            figure=f"pairs of bars {APART} and more apart in another order",
            published=None,
            here=float(len(turned)),
            bar="none",
            met=not turned,
            why="; ".join(f"{one[1]}, {other[1]} ({one[0]})" for one, other in turned),
        ),
    ]
    for fabric in FABRICS:
        apart = abs(here[fabric, "Crux-PS-PA"] - here[fabric, "Crux-full"])
        lines.append(
            Line(
                setting=f"Fig. 23, {fabric}",
                figure="Crux-PS-PA and Crux-full apart",
                published=abs(published[fabric, "Crux-PS-PA"] - published[fabric, "Crux-full"]),
                here=apart,
                bar=f"at most {SAME}",
                met=apart <= SAME,
            )
        )
    return lines


def _against_crux(fabric: str, here: Mapping[tuple[str, str], float]) -> Line:
    gain = here[fabric, "hostcc"] - here[fabric, "Crux-full"]
    return Line(
        setting=f"Fig. 23, {fabric}",
        figure="hostcc above Crux-full",
        published=None,
        here=gain,
        bar="not below by more than 0.002",
        met=gain >= -0.002,
    )


def _sensitivity(words: str, bar: str, whole: float, here: float) -> Line:
    return Line(
        setting=f"sensitivity, {words}",
        figure=f"utilisation, {bar}, two busiest days",
        published=None,
        here=here,
        why=f"over all days, as fitted: {whole:.3f}",
    )


def _numbers(free: Calibration) -> str:
    return (
        f"free numbers: uplinks of {free.uplink_gbit:g} Gbit/s, traffic times {free.scale:g}, "
        f"{free.queue_pairs} queue pairs"
    )


def _bar_curves(
    here: Mapping[tuple[str, str], float], published: Mapping[tuple[str, str], float]
) -> tuple[Curve, ...]:
    found = []
    for fabric in FABRICS:
        names = list(SCHEDULERS)
        words = {"panel": f"Fig. 23, {fabric}: " + ", ".join(names), "y_label": "utilisation"}
        x = tuple(map(float, range(len(names))))
        for label, values in (("published", published), ("here", here)):
            y = tuple(values[fabric, name] for name in names)
            found.append(Curve(label=label, x=x, y=y, **words))
    return tuple(found)


def _first_day(kept: Kept) -> float:
    course = kept.figures["course"]
    values = [
        value
        for until, value in zip(course["until_s"], course["utilisation"], strict=True)
        if DAY_S < until <= 2 * DAY_S and value is not None
    ]
    return float(np.mean(values)) if values else math.nan


def _course(
    bar: str, published: tuple[readings.Floats, readings.Floats], kept: Kept
) -> list[Curve]:
    words = {"panel": f"Fig. 24: {bar}", "x_label": "day", "y_label": "utilisation"}
    course = kept.figures["course"]
    own: Sequence[tuple[float, float]] = [
        (until / DAY_S, value)
        for until, value in zip(course["until_s"], course["utilisation"], strict=True)
        if value is not None
    ]
    days, values = (tuple(one.tolist()) for one in published)
    return [
        Curve(label="published", x=days, y=values, **words),
        Curve(
            label="here", x=tuple(at for at, _ in own), y=tuple(value for _, value in own), **words
        ),
    ]


def _study(
    name: str, figures: str, about: str, found: Callable[[Request], Evidence], *, fits: bool = False
) -> Study:
    return Study(name, f"Crux, {figures}", about, found, fits)


STUDIES = (
    _study("crux-23", "Figure 23", "two weeks of a cluster under each scheduler", bars, fits=True),
    _study("crux-24", "Figure 24", "the same over time", over_time),
    _study("crux-25", "Figure 25", "placements, without and with a scheduler", placements),
    _study("crux-fairness", "section 7", "what the lowest level loses", fairness),
)
