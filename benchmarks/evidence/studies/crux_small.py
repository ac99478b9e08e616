"""Crux's comparison with the optimum on 1,500 small cases (Figure 16)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from benchmarks import small_cases
from benchmarks.context import Context
from benchmarks.evidence import readings
from benchmarks.evidence.document import Curve, Evidence, Line, Request, Study
from benchmarks.evidence.readings import Floats

CASES = 1500
QUICK_CASES = 4
SEED = 0
PUBLISHED: Mapping[tuple[str, str], tuple[str, float, str]] = {
    ("order", "Crux"): ("16a", 0.0277, "crux"),
    ("order", "TACCL*"): ("16a", 0.169, "hash"),
    ("order", "Sincronia"): ("16a", 0.239, "sincronia"),
    ("order", "Varys"): ("16a", 0.578, "varys"),
    ("paths", "Crux"): ("16b", 0.0231, "crux"),
    ("paths", "TACCL*"): ("16b", 0.0430, "taccl"),
    ("levels", "Crux"): ("16c", 0.0290, "algorithm1"),
    ("levels", "Sincronia"): ("16c", 0.218, "sincronia"),
}
"""(Stage, method) -> panel, mean relative error, name of the method here."""
OURS = ("order", "paths", "levels")
TACCL = "TACCL* has no order for jobs: one by a hash stands for it"


def run(request: Request) -> Evidence:
    """Judge all methods on generated cases, each against its enumerated optimum."""
    cases = QUICK_CASES if request.quick else CASES
    context = Context(runs=1, out=request.out, tell=request.tell)
    errors = {key: 1 - shares for key, shares in small_cases.shares(cases, SEED, context).items()}
    lines = [
        Line(
            setting=f"Fig. {panel}, {stage}",
            figure=f"mean error, {method}, %",
            published=100 * mean,
            here=100 * float(errors[stage, name].mean()),
            why=TACCL if name == "hash" else "",
        )
        for (stage, method), (panel, mean, name) in PUBLISHED.items()
    ]
    for stage in OURS:
        own = 100 * float(errors[stage, "hostcc"].mean())
        crux = 100 * float(errors[stage, PUBLISHED[stage, "Crux"][2]].mean())
        lines.append(
            Line(
                setting=stage,
                figure="mean error, hostcc, %",
                published=None,
                here=own,
                bar="no more than Crux's",
                met=own <= crux + 1e-9,
            )
        )
    lines += _orders(errors)
    return Evidence(
        lines=tuple(lines),
        missing=(
            (
                "the 1,500 cases: generated ones of the same size (five jobs, 10 to 20 hosts) "
                "stand for them, so errors differ and their order is what can be compared"
            ),
        ),
        notes=(f"{cases} cases, seed {SEED}; each stage with the others at the optimum or ECMP's",),
        curves=_curves(errors),
    )


def _orders(errors: Mapping[tuple[str, str], Floats]) -> list[Line]:
    """Return, by panel, whether methods are in the published order."""
    lines = []
    for stage in OURS:
        own = [name for (where, _), (_, _, name) in PUBLISHED.items() if where == stage]
        means = [float(errors[stage, name].mean()) for name in own]
        falls = sum(later < earlier for earlier, later in itertools.pairwise(means))
        lines.append(
            Line(
                setting=stage,
                figure="neighbours of the published order that are swapped",
                published=0.0,
                here=float(falls),
                bar="Crux before all others",
                met=means[0] <= min(means[1:]),
            )
        )
    return lines


def _curves(errors: Mapping[tuple[str, str], Floats]) -> tuple[Curve, ...]:
    made = []
    for (stage, method), (panel, _, name) in PUBLISHED.items():
        words = {
            "panel": f"Fig. {panel}: {stage}",
            "x_label": "relative error",
            "y_label": "share of cases",
        }
        values, shares = readings.curve(
            "crux-fig16-relative-error-cdf.csv", panel=panel, method=method
        )
        own = np.sort(np.maximum(errors[stage, name], 0.0))
        reached = np.searchsorted(own, values + 1e-9, side="right") / len(own)
        ends = tuple(values.tolist())
        made += [
            Curve(label=f"{method}, published", x=ends, y=tuple(shares.tolist()), **words),
            Curve(label=f"{method}, here", x=ends, y=tuple(reached.tolist()), **words),
        ]
    return tuple(made)


STUDIES = (
    Study(
        "crux-16",
        "Crux, Figure 16",
        "errors of path selection, order and levels against the optimum",
        run,
    ),
)
