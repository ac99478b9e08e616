"""`hostcc links`: the links that jobs share by the plan, and how much they are offered."""

from __future__ import annotations

import argparse
import sys

from hostcc.answers.links import LinkJob, LinkRow, Links
from hostcc.cli.common import Subparsers, add_client_options, add_parser, emit, show, table
from hostcc.cli.flows import rate
from hostcc.cli.peers import short
from hostcc.errors import InputError
from hostcc.foreign import say
from hostcc.limits import JOB_NAME_WORDS, is_job_name

LIMIT_MAX = 5_000
JOBS_SHOWN = 8
"""Jobs that are named of a link."""
COLUMNS = [
    ("Link", "left"),
    ("Capacity", "right"),
    ("Load", "right"),
    ("Full", "left"),
    ("Jobs", "right"),
    ("Job (level, load)", "left"),
]
EPILOG = """\
Load: seconds of traffic per second as if nobody waited, by the paths of the plan that is in
force.  Full: the jobs fill the link when they send at the same time, so that one of them waits.
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "links", "the links that jobs share by the plan")
    parser.epilog = EPILOG
    parser.add_argument("--job", metavar="NAME", help="only links that this job crosses")
    parser.add_argument("--all", action="store_true", help="also links of one job alone")
    parser.add_argument(
        "--limit", type=int, default=100, metavar="N", help="show at most N (default: %(default)s)"
    )
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Ask and show."""
    if args.job is not None and not is_job_name(args.job):
        raise InputError(f'--job: expected {JOB_NAME_WORDS}, got "{args.job[:80]}"')
    if not 1 <= args.limit <= LIMIT_MAX:
        raise InputError(f"--limit: expected 1 to {LIMIT_MAX}, got {args.limit}")
    every = args.all or None
    return show(args, "links", Links, render, job=args.job, limit=args.limit, every=every)


def render(answer: Links) -> None:
    """The table, the fullest link first."""
    if not answer.links:
        say(f"no such links in the plan of view {short(answer.digest)}")
        return
    emit(table(COLUMNS, map(_row, answer.links)))
    if answer.total > len(answer.links):
        say(f"{len(answer.links)} of {answer.total} links; see --limit", file=sys.stderr)


def _row(one: LinkRow) -> tuple[str, ...]:
    more = one.jobs - len(one.sharing[:JOBS_SHOWN])
    named = ", ".join(map(_job, one.sharing[:JOBS_SHOWN]))
    return (
        one.link,
        rate(one.capacity),
        f"{one.load:.2f}",
        "yes" if one.full else "no",
        str(one.jobs),
        f"{named} and {more} more" if more else named,
    )


def _job(one: LinkJob) -> str:
    return f"{one.job} ({one.level}, {one.load:.2f})"
