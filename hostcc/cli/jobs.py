"""`hostcc jobs`: the jobs on this host and what they were given."""

from __future__ import annotations

import argparse

from hostcc.answers.jobs import DetailedJob, DetailedJobs, JobRow, Jobs, Parameters
from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    emit,
    seconds,
    show,
    size,
    table,
)
from hostcc.cli.profile import flop, share, unknown_work
from hostcc.foreign import say

COLUMNS = [
    ("Job", "left"),
    ("Mode", "left"),
    ("Variant", "left"),
    ("Ratio per", "left"),
    ("F", "left"),
    ("Weight", "right"),
    ("Per iter.", "right"),
    ("Found by", "left"),
    ("Processes", "left"),
]


DETAIL = [
    ("Job", "left"),
    ("Found by", "left"),
    ("Period", "right"),
    ("Spread", "right"),
    ("Per iter.", "right"),
    ("Comm.", "right"),
    ("From", "right"),
    ("t", "right"),
    ("Overlap", "right"),
    ("W", "right"),
    ("I = W/t", "right"),
    ("Confidence", "right"),
]


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "jobs", "the jobs on this host and what they were given")
    add_client_options(parser)
    parser.add_argument(
        "--detail", action="store_true", help="what was measured of each job, and why not"
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Ask and show."""
    if args.detail:
        return show(args, "jobs", DetailedJobs, render_detail, detail=True)
    return show(args, "jobs", Jobs, render)


def render(answer: Jobs) -> None:
    """The table."""
    if answer.jobs:
        emit(table(COLUMNS, map(row, answer.jobs)))
    else:
        say("no jobs")


def render_detail(answer: DetailedJobs) -> None:
    """The table of what was measured, and what is not known."""
    if not answer.jobs:
        say("no jobs")
        return
    emit(table(DETAIL, map(detail_row, answer.jobs)))
    for job in answer.jobs:
        for remark in remarks(job):
            say(f"{job.name}: {remark}")


def detail_row(job: DetailedJob) -> tuple[str, ...]:
    """One line of the table."""
    got, how = job.profile, (job.how or "-").partition(":")[0]
    if got is None or not got.periodic:
        work = flop(got.flop) if got else ""
        return (job.name, how, *["-"] * 7, work or "-", "-", "-")
    return (
        job.name,
        how,
        seconds(got.period_s),
        f"{100 * (got.spread or 0):.2g} %",
        size(got.bytes_per_iteration),
        seconds(got.communication_s),
        seconds(got.communication_start_s),
        seconds(got.link_time_s),
        share(got.overlap) or "-",
        flop(got.flop) or "-",
        f"{flop(got.intensity)}/s" if got.intensity is not None else "-",
        f"{got.confidence:.2f}",
    )


def remarks(job: DetailedJob) -> list[str]:
    """What is not known of a job, and why."""
    found, got = [], job.profile
    if job.unmanaged_reason:
        found.append(f"not managed: {job.unmanaged_reason}")
    if job.profiling:
        found.append("it is its turn to be profiled")
    if (before := job.remembered) is not None:
        figures = f"{seconds(before.period_s)}, {size(before.tx_bytes)} sent"
        found.append(f"planned by what is remembered of it until it is measured: {figures}")
    if got is None:
        return [*found, f"not measured: {job.profile_reason}"]
    if not got.periodic:
        found.append(f"no period: {got.reason}")
    if got.flop is None:
        found.append(f"W {unknown_work(got)}")
    return found


def row(job: JobRow) -> tuple[str, ...]:
    """One line of the table."""
    pids = " ".join(map(str, job.pids[:8])) + (" ..." if len(job.pids) > 8 else "")
    given = job.parameters
    if given is None:
        return (job.name, "-", "-", "-", "-", "-", "-", found_by(job), pids or "-")
    static = given.mode == "static"
    return (
        job.name,
        given.mode,
        given.variant,
        given.ratio_scope,
        f"{given.static_weight:g}" if static else shape(given),
        f"{given.weight:g}",
        size(given.bytes_per_iteration) if given.bytes_per_iteration else "learned",
        found_by(job),
        pids or "-",
    )


def shape(given: Parameters) -> str:
    """F(r) as a formula."""
    if given.shape == "table":
        return f"table of {len(given.table)}"
    if given.shape == "exponential":
        return f"{given.intercept:g} * 2^({given.slope:g} r)"
    return f"{given.slope:g} r + {given.intercept:g}"


def found_by(job: JobRow) -> str:
    """How its sockets are recognised."""
    ways = ["cgroup"] if job.cgroup else []
    ways += [
        f"{side} ports " + ",".join(map(str, ports))
        for side, ports in (("local", job.local_ports), ("remote", job.remote_ports))
        if ports
    ]
    return "; ".join(ways) or "-"
