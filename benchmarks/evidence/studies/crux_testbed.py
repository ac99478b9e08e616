"""Crux's measurements on its testbed (Figures 19 to 22), replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.evidence import readings
from benchmarks.evidence.document import Curve, Evidence, Line, Request, Study
from benchmarks.evidence.testbed_jobs import (
    COMM_START,
    QUEUE_PAIRS,
    SCHEDULERS,
    SECONDS,
    Found,
    TestbedJob,
    across,
    run,
)

DRAWS = 3
QUICK_DRAWS, QUICK_SECONDS = 1, 20.0
GOAL = 0.05
GPT_HOSTS = (0, 2, 4, 6)
BESIDE_GPT = ((1, 8), (3, 9), (5, 10), (7, 11))
"""Hosts of each BERT of Figure 19: one below a ToR of GPT's, one below another."""
ON_PCIE = (((0, 2), 0), ((0, 2), 2), ((4, 6), 0))
"""Hosts and first NIC of each ResNet of Figure 21, all on NICs of BERT's."""
FITTED = "shares of both models: the ideal bar comes out, and the one without Crux is nearest"


@dataclass(frozen=True)
class Figure:
    """One of the four figures."""

    name: str
    number: str
    jobs: Callable[[int], list[TestbedJob]]
    settings: tuple[int, ...]
    """n; 0: the figure has none."""
    fitted: int | None
    """The n by which the shares were set; None: by other figures."""
    shares: Mapping[str, float]
    """Model -> seconds of sending alone over seconds of computing."""
    about: str


def _figure_19(n: int) -> list[TestbedJob]:
    berts = [across("BERT", 8, BESIDE_GPT[which]) for which in range(n)]
    return [across("GPT", 32, GPT_HOSTS), *berts]


def _figure_20(n: int) -> list[TestbedJob]:  # noqa: ARG001
    return [
        across("GPT", 48, (0, 2, 4, 6, 8, 10)),
        across("BERT", 16, (1, 5)),
        across("BERT", 16, (3, 7)),
        across("ResNet", 8, (9, 11)),
        across("ResNet", 8, (9, 11)),
    ]


def _figure_21(n: int) -> list[TestbedJob]:
    small = [across("ResNet", 4, *ON_PCIE[which]) for which in range(n)]
    return [across("BERT", 16, (0, 2, 4, 6)), *small]


def _figure_22(n: int) -> list[TestbedJob]:
    return [across("BERT", n, tuple(range(0, n // 2, 2))), across("ResNet", 8, (0, 2))]


FIGURES = (
    Figure(
        "crux-19", "19", _figure_19, (2, 3, 4), 2, {"GPT": 0.16, "BERT": 0.2109},
        "n times BERT on 8 GPUs beside GPT on 32",
    ),
    Figure(
        "crux-20", "20", _figure_20, (0,), None, {"GPT": 0.16, "BERT": 0.28, "ResNet": 0.1428},
        "ResNet, BERT and GPT beside each other",
    ),
    Figure(
        "crux-21", "21", _figure_21, (1, 2, 3), 2, {"BERT": 0.28, "ResNet": 0.1142},
        "n times ResNet on 4 GPUs and BERT on 16, on the same PCIe switches",
    ),
    Figure(
        "crux-22", "22", _figure_22, (8, 16, 24), 8, {"BERT": 0.46, "ResNet": 0.1428},
        "ResNet on 8 GPUs and BERT on n, on the same PCIe switches",
    ),
)  # fmt: skip


def evidence(figure: Figure, request: Request) -> Evidence:
    """Replay the settings of a figure, and compare its bars."""
    settings, draws, seconds = figure.settings, DRAWS, SECONDS
    if request.quick:
        settings, draws, seconds = figure.settings[:1], QUICK_DRAWS, QUICK_SECONDS
    bars = _published(figure.number + "a")
    times = _published(figure.number + "b")
    lines: list[Line] = []
    curves = []
    for at, n in enumerate(settings):
        request.tell(figure.name, at, len(settings))
        jobs = figure.jobs(n)
        found = {
            bar: run(jobs, figure.shares, scheduler, draws, seconds)
            for bar, scheduler in {**SCHEDULERS, "hostcc": "hostcc"}.items()
        }
        lines += _lines(figure, n, found, bars, times)
        curves += _bars(figure, n, found, bars)
    predicted = [
        abs(line.difference)
        for line in lines
        if line.kind == "predicted" and line.difference is not None and "JCT" not in line.figure
    ]
    if predicted:
        mean = sum(predicted) / len(predicted)
        lines.append(
            Line(
                setting=f"Fig. {figure.number}",
                figure="mean difference of the predicted bars",
                published=None,
                here=mean,
                bar=f"at most {GOAL}",
                met=mean <= GOAL,
            )
        )
    return Evidence(lines=tuple(lines), missing=_missing(figure), curves=tuple(curves))


def _published(panel: str) -> dict[tuple[int, str], float]:
    """Return (n, what) -> value of a panel; n is 0 where there is none."""
    rows = [row for row in readings.table("crux-fig19-25-bars.csv") if row["figure"] == panel]
    return {(int(row["n"] or 0), row["what"]): float(row["value"]) for row in rows}


def _lines(
    figure: Figure,
    n: int,
    found: Mapping[str, Found],
    bars: Mapping[tuple[int, str], float],
    times: Mapping[tuple[int, str], float],
) -> list[Line]:
    setting = f"Fig. {figure.number}" + (f", n = {n}" if n else "")
    fitted = n == figure.fitted
    lines = [
        Line(
            setting=setting,
            figure=f"utilisation, {bar}",
            published=bars.get((n, bar)),
            here=one.utilisation,
            kind="fitted" if fitted and bar != "hostcc" else "predicted",
            why=FITTED if fitted and bar != "hostcc" else "",
        )
        for bar, one in found.items()
    ]
    for (own, what), published in times.items():
        if own == n:
            model = what.rpartition(" ")[2]
            before, after = (found[bar].by_model[model] for bar in ("without", "Crux"))
            lines.append(
                Line(
                    setting=setting,
                    figure=f"{what}, with Crux",
                    published=published,
                    here=100 * (before / after - 1),
                )
            )
    return lines


def _missing(figure: Figure) -> tuple[str, ...]:
    return (
        (
            f"what the jobs send: after {COMM_START:g} of their computation, "
            + ", ".join(f"{model} {share:g}" for model, share in figure.shares.items())
            + " times as long as they compute"
            + (", from the other figures" if figure.fitted is None else "")
        ),
        "on which hosts the jobs were: some that share ToRs, or NICs, as the figure says",
        (
            f"queue pairs: {QUEUE_PAIRS} of a connection, each by its own hash; of 1 and 4, and of "
            "sending from the middle or the end of the computation, these were nearest"
        ),
        "PCIe: NICs are narrower than PCIe here, so who shares a switch contends at its NIC",
    )


def _bars(
    figure: Figure, n: int, found: Mapping[str, Found], bars: Mapping[tuple[int, str], float]
) -> list[Curve]:
    names = list(SCHEDULERS)
    words = {
        "panel": f"Fig. {figure.number}, n = {n}: without (0), with Crux (1), ideal (2)",
        "y_label": "utilisation",
    }
    x = tuple(map(float, range(len(names))))
    return [
        Curve(label="published", x=x, y=tuple(bars[n, name] for name in names), **words),
        Curve(label="here", x=x, y=tuple(found[name].utilisation for name in names), **words),
    ]


def _study(figure: Figure) -> Study:
    def replay(request: Request) -> Evidence:
        return evidence(figure, request)

    return Study(figure.name, f"Crux, Figure {figure.number}", figure.about, replay)


STUDIES = tuple(_study(figure) for figure in FIGURES)
