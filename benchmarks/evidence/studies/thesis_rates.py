"""Table 3.1 of Rajasekaran's thesis in the rate model of DCQCN, with timers instead of weights."""

from __future__ import annotations

from benchmarks.evidence.document import Evidence, Line, Request, Study
from benchmarks.evidence.thesis_jobs import EAGEREST_T_US, Row, by_rates, by_row, thesis, timers_us
from hostcc.mltcp.dcqcn import EAGER_T_US, PLAIN_T_US

ITERATIONS = 60
QUICK_ITERATIONS = 5
NO_LOSS = 0.97
"""Fair over unfair time, mean of a group's jobs, below which a compatible group loses."""


def table_3_1(request: Request) -> Evidence:
    """Simulate each group with equal and with unequal timers."""
    iterations = QUICK_ITERATIONS if request.quick else ITERATIONS
    return Evidence(
        lines=by_row(request, lambda row: _group(row, iterations)),
        missing=(
            "the shapes of jobs were fitted to this table by the fluid simulation (thesis-t3.1)",
            (
                f"timers of three: {EAGEREST_T_US}, {EAGER_T_US} and {PLAIN_T_US} us stand for "
                "them; which job has which is as in thesis-t3.1"
            ),
        ),
        notes=(
            (
                f"mean over the first {iterations} iterations; fair: T {PLAIN_T_US} us for all, "
                f"unfair: {EAGER_T_US} us for the more eager of two"
            ),
            "one seed; all start at once; eight queue pairs each",
        ),
    )


def _group(row: Row, iterations: int) -> list[Line]:
    jobs = [thesis().shape(name) for name in row.jobs]
    timers = {"fair": [PLAIN_T_US] * len(jobs), "unfair": timers_us(row)}
    published = {"fair": row.fair_ms, "unfair": row.unfair_ms}
    here = {
        sharing: [1e3 * one.mean for one in by_rates(jobs, own, iterations)]
        for sharing, own in timers.items()
    }
    lines = [
        Line(
            setting=row.name,
            figure=f"{sharing}, T {timer} us, {job}, ms",
            published=float(known),
            here=found,
        )
        for sharing, own in timers.items()
        for job, timer, known, found in zip(
            row.jobs, own, published[sharing], here[sharing], strict=True
        )
    ]
    gain = _mean_gain(here["fair"], here["unfair"])
    lines.append(
        Line(
            setting=row.name,
            figure="fair over unfair, mean of its jobs",
            published=_mean_gain(row.fair_ms, row.unfair_ms),
            here=gain,
            bar="no loss" if row.compatible else "",
            met=gain >= NO_LOSS if row.compatible else None,
        )
    )
    return lines


def _mean_gain(
    fair: list[float] | tuple[float, ...], unfair: list[float] | tuple[float, ...]
) -> float:
    return sum(one / other for one, other in zip(fair, unfair, strict=True)) / len(fair)


STUDIES = (
    Study(
        "thesis-t3.1-dcqcn",
        "Rajasekaran's thesis, Table 3.1",
        "the same five groups in the rate model of DCQCN, with timers",
        table_3_1,
    ),
)
