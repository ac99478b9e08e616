"""The table of a comparison, for a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from hostcc.lab import flowtable
from hostcc.lab.results import Results, RunResult, VariantResult
from hostcc.lab.statistics import spread

LEGEND = (
    "ratio: iteration time over the job's time alone; first: of the first ten iterations; "
    "rest and p99: of those after; conv.: iterations until within 5 % of alone; "
    "±: half the range of repeated runs"
)


def show(results: Results, console: Console) -> None:
    """Print a row per variant and job, then a row per variant."""
    console.print(job_table(results))
    console.print(variant_table(results))
    for table in flowtable.tables(results):
        console.print(table)
    console.print(LEGEND)
    for problem in problems(results):
        console.print(problem, style="yellow", highlight=False)


def job_table(results: Results) -> Table:
    """Iteration times of every job under every variant."""
    table = Table(
        title=f"{results.scenario_name}: iteration times",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in ("variant", "job"):
        table.add_column(name, no_wrap=True)
    for name in ("mean ms", "p50 ms", "p99 ms", "ratio", "first", "rest", "p99", "conv."):
        table.add_column(name, justify="right")
    for variant in results.variants:
        for index, job in enumerate(results.scenario.job):
            rows = [run.jobs[index].summary for run in variant.runs]
            table.add_row(
                variant.name if index == 0 else "",
                job.name,
                *(
                    f"{1e3 * _mean([getattr(row, key) for row in rows]):.1f}"
                    for key in ("mean_s", "p50_s", "p99_s")
                ),
                *(
                    f"{_mean([getattr(row, key) for row in rows]):.3f}"
                    for key in ("ratio_mean", "ratio_first", "ratio_rest", "ratio_p99_rest")
                ),
                _counts([row.converged_after for row in rows]),
                end_section=index == len(results.scenario.job) - 1,
            )
    return table


def variant_table(results: Results) -> Table:
    """All jobs of each variant together, and the bottleneck."""
    table = Table(
        title="all jobs together: mean of the jobs, worst p99",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("variant", no_wrap=True)
    for name in ("ratio", "first", "rest", "p99", "conv.", "loss %"):
        table.add_column(name, justify="right")
    marks = bool(results.scenario.fabric.ecn_threshold_packets)
    if marks:
        table.add_column("ECN marks", justify="right")
    backgrounds = bool(results.scenario.background)
    if backgrounds:
        table.add_column("background Mbit/s", justify="right")
    for variant in results.variants:
        row = [variant.name, *_ratios_over_jobs(variant)]
        row.append(_counts([run.converged_after for run in variant.runs]))
        row.append(f"{_mean([worst_loss(run) for run in variant.runs]):.2f}")
        if marks:
            row.append(f"{_mean([float(run.marked_packets) for run in variant.runs]):.0f}")
        if backgrounds:
            row.append(
                ", ".join(
                    f"{_mean([run.background[index].mean_mbit for run in variant.runs]):.1f}"
                    for index in range(len(results.scenario.background))
                )
            )
        table.add_row(*row)
    return table


def problems(results: Results) -> list[str]:
    """Actions that went wrong, in words."""
    return [
        f"{variant.name}: {event.what} at {event.at_s:.1f} s: {event.problem}"
        for variant in results.variants
        for run in variant.runs
        for event in run.events
        if event.problem
    ]


def worst_loss(run: RunResult) -> float:
    """Per cent of packets lost in the direction that lost most."""
    return max((queue.loss_percent for queue in run.bottleneck.values()), default=0.0)


def _ratios_over_jobs(variant: VariantResult) -> list[str]:
    cells = [
        _ratio([_mean([getattr(job.summary, key) for job in run.jobs]) for run in variant.runs])
        for key in ("ratio_mean", "ratio_first", "ratio_rest")
    ]
    cells.append(
        _ratio(
            [
                max((job.summary.ratio_p99_rest for job in run.jobs), default=0.0)
                for run in variant.runs
            ]
        )
    )
    return cells


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _ratio(values: list[float]) -> str:
    if not values:
        return "-"
    mean, least, greatest = spread(values)
    return f"{mean:.3f}" if len(values) == 1 else f"{mean:.3f} ±{(greatest - least) / 2:.3f}"


def _counts(values: list[int | None]) -> str:
    return "/".join("never" if value is None else str(value) for value in values)
