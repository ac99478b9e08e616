"""Crux's measurement of contention: GPT on 64 GPUs beside BERT on 16, on one uplink (Figure 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.evidence import readings
from benchmarks.evidence.document import Curve, Evidence, Kind, Line, Request, Study
from benchmarks.evidence.readings import Floats
from hostcc.sim.flowsim.run import Options, simulate
from hostcc.sim.flowsim.workload import Fabric, pack
from hostcc.sim.periodic import SimFlow, SimJob

GPT_GPUS, BERT_GPUS = 64, 16
GPT_S = 1.530
"""Published: an iteration of GPT alone."""
BERT_S = 0.90
"""Fitted to the 90th percentile of GPT beside BERT: BERT's iteration is not published."""
SENDING = 0.3121
"""Fitted to GPT's mean beside BERT: share of its iteration that each sends on the uplink."""
BERT_WEIGHT = 1.2708
"""Fitted to BERT's throughput: its share of the uplink over GPT's while both send."""
SECONDS, QUICK_SECONDS = 3000.0, 600.0
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
FITTED_QUANTILE = 0.9


@dataclass(frozen=True)
class Contention:
    """Iterations of both jobs, seconds."""

    gpt: Floats
    bert: Floats

    @property
    def gpt_throughput(self) -> float:
        """Change by contention."""
        return GPT_S / float(self.gpt.mean()) - 1

    @property
    def bert_throughput(self) -> float:
        """Change by contention."""
        return BERT_S / float(self.bert.mean()) - 1

    @property
    def utilisation(self) -> float:
        """Change of the computing time of all GPUs."""
        work = GPT_GPUS * self.gpt_throughput + BERT_GPUS * self.bert_throughput
        return work / (GPT_GPUS + BERT_GPUS)


def contend(seconds: float) -> Contention:
    """Simulate both on a link that each could fill while it sends."""
    jobs = [
        SimJob(
            (1 - SENDING) * alone,
            (1 - SENDING) * alone,
            (SimFlow(SENDING * alone, (0,), weight=weight),),
        )
        for alone, weight in ((GPT_S, 1.0), (BERT_S, BERT_WEIGHT))
    ]
    found = simulate(Fabric.of([1.0]), pack(jobs), seconds, None, Options(recorded=(0, 1)))
    ends = [found.recorded_end[found.recorded_job == job] for job in (0, 1)]
    return Contention(np.diff(ends[0], prepend=0.0), np.diff(ends[1], prepend=0.0))


def run(request: Request) -> Evidence:
    """Simulate, and compare means and the distribution."""
    found = contend(QUICK_SECONDS if request.quick else SECONDS)
    published = readings.curve("crux-fig07-gpt-iteration-cdf.csv", case="with BERT")
    lines = [
        _line("GPT's mean beside BERT, s", 1.696, float(found.gpt.mean()), "fitted"),
        _line("BERT's throughput, %", -7.7, 100 * found.bert_throughput, "fitted"),
        _line(
            "GPT's throughput, %",
            -9.9,
            100 * found.gpt_throughput,
            "fitted",
            "follows from its means",
        ),
        _line(
            "utilisation, %",
            -9.5,
            100 * found.utilisation,
            "predicted",
            "both throughputs by GPUs, so it shows only that the source's figures agree",
        ),
    ]
    for share in QUANTILES:
        kind: Kind = "fitted" if share == FITTED_QUANTILE else "predicted"
        there = readings.quantile(*published, share)
        name = f"GPT beside BERT, {100 * share:g} % of iterations below, s"
        lines.append(_line(name, there, float(np.quantile(found.gpt, share)), kind))
    return Evidence(
        lines=tuple(lines),
        missing=(
            (
                "what the jobs send, and when: a common share of the iteration at the end of it, "
                "without overlap, stands for that"
            ),
            "BERT's iteration time",
            "jitter: iterations alone spread from 1.50 to 1.74 s in the figure, and not here",
        ),
        notes=(
            "the model is one link between ToR and aggregation; who else crosses it is left out",
        ),
        curves=_curves(found.gpt, published),
    )


def _line(figure: str, published: float, here: float, kind: Kind, why: str = "") -> Line:
    return Line(
        setting="GPT-64 + BERT-16",
        figure=figure,
        published=published,
        here=here,
        kind=kind,
        why=why,
    )


def _curves(gpt: Floats, published: tuple[Floats, Floats]) -> tuple[Curve, ...]:
    words = {
        "panel": "Fig. 7: iterations of GPT beside BERT",
        "x_label": "s",
        "y_label": "share of iterations",
    }
    values, shares = (tuple(one.tolist()) for one in published)
    steps = np.linspace(0, 1, 101)
    own = tuple(np.quantile(gpt, steps).tolist())
    return (
        Curve(label="published", x=values, y=shares, **words),
        Curve(label="here", x=own, y=tuple(steps.tolist()), **words),
    )


STUDIES = (
    Study(
        "crux-7",
        "Crux, Figure 7",
        "GPT on 64 GPUs beside BERT on 16, on one uplink of a ToR",
        run,
    ),
)
