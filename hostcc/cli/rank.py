"""`hostcc rank FILE`: which of several placements has jobs that share links well (Algorithm 2).

With --live they are placements of new jobs among those that run now (rank_live.py).
"""

from __future__ import annotations

import argparse
from typing import Annotated

import msgspec

from hostcc.cli.common import (
    Subparsers,
    add_parser,
    add_socket_option,
    emit,
    print_json,
    seconds,
    table,
)
from hostcc.errors import Exit, InputError
from hostcc.limits import VISIBLE
from hostcc.schedule.cassini import circle, placement
from hostcc.schedule.cassini.circle import Pattern
from hostcc.schedule.cassini.placement import Candidate, RankedCandidate
from hostcc.system import input_file, validate

MAX_BYTES = 16 << 20
COLUMNS = [
    ("Rank", "right"),
    ("Candidate", "left"),
    ("Score", "right"),
    ("Worst link", "right"),
    ("Shared links", "right"),
    ("Rejected", "left"),
]
SCHEMA = "hostcc.rank/1"
SHIFT_COLUMNS = [("Job", "left"), ("Start later by", "right")]

Name = Annotated[
    str,
    msgspec.Meta(
        pattern=rf"^{VISIBLE}{{1,128}}\Z", description="text of 1 to 128 visible characters"
    ),
]
Positive = Annotated[float, msgspec.Meta(ge=1e-30, le=1e30)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=1e30)]


class JobInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a job asks of each link that it crosses, in an iteration."""

    name: Name
    period_s: Positive
    phases: Annotated[
        tuple[tuple[NotNegative, NotNegative, NotNegative], ...], msgspec.Meta(max_length=1000)
    ]
    """(start s, end s, bytes/s) each."""


class CandidateInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One placement."""

    name: Name
    jobs_on: Annotated[dict[Name, tuple[Name, ...]], msgspec.Meta(max_length=100_000)]


class RankInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    jobs: Annotated[tuple[JobInput, ...], msgspec.Meta(max_length=10_000)]
    links: Annotated[dict[Name, Positive], msgspec.Meta(max_length=100_000)]
    """Link -> bytes/s."""
    candidates: Annotated[tuple[CandidateInput, ...], msgspec.Meta(max_length=10_000)]


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "rank", "which placement of jobs shares links best")
    parser.add_argument(
        "file", metavar="FILE", help="candidates as JSON (docs/internals/cassini.md)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="relative difference up to which periods are commensurate "
        f"(default: {circle.PERIOD_TOLERANCE:g})",
    )
    among = parser.add_mutually_exclusive_group()
    among.add_argument(
        "--live",
        action="store_true",
        help="new jobs, among those that run now as the agent sees them",
    )
    among.add_argument("--view", metavar="VIEW", help="the same, as a file of hostcc view has them")
    add_socket_option(parser)
    parser.add_argument(
        "--json", action="store_true", help="print JSON (docs/internals/cassini.md)"
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Rank them."""
    tolerance = circle.PERIOD_TOLERANCE if args.tolerance is None else args.tolerance
    if not 0 <= tolerance < 0.5:
        raise InputError(f"--tolerance: expected 0 to 0.5, got {tolerance}")
    if args.live or args.view is not None:
        if args.tolerance is not None:
            raise InputError("--tolerance: expected without --live and --view")
        from hostcc.cli import rank_live

        return rank_live.run(args)
    ranked = rank_file(input_file.read_argument(args.file, MAX_BYTES), args.file, tolerance)
    if args.json:
        print_json({"schema": SCHEMA, "candidates": [msgspec.to_builtins(one) for one in ranked]})
        return Exit.OK
    rows = [_row(number, one) for number, one in enumerate(ranked, 1)]
    emit(table(COLUMNS, rows))
    best = next((one for one in ranked if not one.rejected), None)
    if best is not None:
        shifts = [(job, seconds(shift)) for job, shift in sorted(best.shifts.items())]
        emit(f"time-shifts of {best.name}", table(SHIFT_COLUMNS, shifts))
    return Exit.OK


def rank_file(data: bytes, where: str, tolerance: float) -> tuple[RankedCandidate, ...]:
    """The candidates of a file, best first.  Raises InputError."""
    try:
        parsed = msgspec.json.decode(data)
    except validate.UNDECODABLE as error:
        raise InputError(f"{where}: expected JSON: {error}") from None
    given = validate.convert(parsed, RankInput, where)
    jobs = {job.name: Pattern(job.name, job.period_s, job.phases) for job in given.jobs}
    if len(jobs) != len(given.jobs):
        raise InputError(f"{where}: jobs: expected each name once")
    candidates = [Candidate(one.name, one.jobs_on) for one in given.candidates]
    try:
        return placement.rank(candidates, jobs, given.links, tolerance=tolerance)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _row(number: int, one: RankedCandidate) -> tuple[str, ...]:
    if one.rejected:
        return ("-", one.name, "-", "-", "-", one.rejected)
    return (str(number), one.name, f"{one.score:.4f}", f"{one.worst:.4f}", str(len(one.links)), "")
