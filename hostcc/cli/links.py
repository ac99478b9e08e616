"""`hostcc links`: the links that jobs share by the plan, what they are offered, and who waits.

The agent says what each job sends on a link; whether the bursts fit together is found here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hostcc.answers.links import LinkJob, LinkRow, Links, Wait
from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    decoded,
    emit,
    print_json,
    read,
    table,
)
from hostcc.cli.flows import rate
from hostcc.cli.peers import short
from hostcc.client import ask
from hostcc.errors import Exit, HostccError, InputError
from hostcc.foreign import say
from hostcc.limits import JOB_NAME_WORDS, is_job_name

LIMIT_MAX = 5_000
JOBS_SHOWN = 8
"""Jobs that are named of a link."""
WAITS_SHOWN = 4
"""Jobs that wait, of a link."""
KINDS = (".png", ".svg")
CIRCLES = 12
"""Links that are drawn."""
COLUMNS = [
    ("Link", "left"),
    ("Capacity", "right"),
    ("Load", "right"),
    ("Full", "left"),
    ("Fit", "right"),
    ("Jobs", "right"),
    ("Job (level, load)", "left"),
    ("Who waits", "left"),
]
EPILOG = """\
Load: seconds of traffic per second as if nobody waited, by the paths of the plan that is in
force.  Full: the jobs fill the link when they send at the same time, so that one of them waits.
Fit: Cassini's score of the jobs if their iterations begin at the best times, 1 if all bursts
find room; in brackets, if all begin at once.  --plot draws this as circles.
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
    parser.add_argument(
        "--view", metavar="FILE", help="of a view that hostcc view wrote, not of the agent"
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw the circles of each link's jobs laid over each other: .png or .svg",
    )
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Ask, judge, draw and show."""
    check(args)
    answer = _of_view(args) if args.view is not None else _agents(args)
    told = replace(answer, links=tuple(map(judged, answer.links)))
    if args.plot is not None:
        draw(told.links, args.plot)
    if args.json:
        print_json(msgspec.to_builtins(told))
        return Exit.OK
    render(read(args.socket, msgspec.to_builtins(told), Links))
    if args.plot is not None:
        say(f"drawn: {args.plot}")
    return Exit.OK


def check(args: argparse.Namespace) -> None:
    """Raises InputError for options that are out of range."""
    if args.job is not None and not is_job_name(args.job):
        raise InputError(f'--job: expected {JOB_NAME_WORDS}, got "{args.job[:80]}"')
    if not 1 <= args.limit <= LIMIT_MAX:
        raise InputError(f"--limit: expected 1 to {LIMIT_MAX}, got {args.limit}")
    if args.plot is not None and args.plot.suffix.lower() not in KINDS:
        kinds = " or ".join(KINDS)
        raise InputError(f"--plot: expected a name that ends in {kinds}, got {args.plot}")


def judged(row: LinkRow) -> LinkRow:
    """The link with who waits and how well its jobs fit."""
    from hostcc.schedule import link_circles

    return replace(row, waits=link_circles.waits(row), compatibility=link_circles.judged(row))


def draw(rows: Sequence[LinkRow], path: Path) -> None:
    """Write the circles of the first links that have one.  Raises HostccError."""
    from hostcc.report import circles, circles_png
    from hostcc.schedule.link_circles import LinkCircle, link_circle

    found = [one for row in rows if isinstance(one := link_circle(row), LinkCircle)][:CIRCLES]
    if not found:
        judgements = [judgement for row in rows if (judgement := row.compatibility)]
        why = {judgement.reason for judgement in judgements if judgement.reason}
        raise HostccError(f"nothing to draw: {'; '.join(sorted(why)) or 'no shared links'}")
    if path.suffix.lower() == ".png":
        circles_png.draw(found, path)
        return
    try:
        path.write_text(circles.sheet(found), encoding="utf-8")
    except OSError as error:
        raise HostccError(f"{path}: {error.strerror}") from None


def _agents(args: argparse.Namespace) -> Links:
    fields = {"job": args.job, "limit": args.limit, "every": args.all or None}
    return decoded(args.socket, ask(args.socket, "links", **fields), Links)


def _of_view(args: argparse.Namespace) -> Links:
    from hostcc.cli.plan import solved
    from hostcc.schedule.link_rows import list_links

    digest, found = solved(args.view)
    return list_links(found, digest, args.limit, args.job, every=args.all)


def render(answer: Links) -> None:
    """The table, the fullest link first."""
    if not answer.links:
        say(f"no such links in the plan of view {short(answer.digest)}")
        return
    emit(table(COLUMNS, map(cells, answer.links)))
    if answer.total > len(answer.links):
        say(f"{len(answer.links)} of {answer.total} links; see --limit", file=sys.stderr)


def cells(one: LinkRow) -> tuple[str, ...]:
    """One line of the table."""
    more = one.jobs - len(one.sharing[:JOBS_SHOWN])
    named = ", ".join(map(_job, one.sharing[:JOBS_SHOWN]))
    return (
        one.link,
        rate(one.capacity),
        f"{one.load:.2f}",
        "yes" if one.full else "no",
        fit(one),
        str(one.jobs),
        f"{named} and {more} more" if more else named,
        who_waits(one),
    )


def fit(one: LinkRow) -> str:
    """The score, and in brackets that of iterations that begin at once."""
    found = one.compatibility
    if not found or found.score is None:
        return "-"
    return f"{found.score:.2f} ({found.together:.2f})"


def who_waits(one: LinkRow) -> str:
    """Who waits for whom, in words."""
    waits = one.waits or ()
    words = [f"{wait.job} for {_named(wait)}" for wait in waits[:WAITS_SHOWN] if wait.lets_pass]
    beside = [wait.job for wait in waits if not wait.lets_pass]
    if beside:
        more = f" and {len(beside) - JOBS_SHOWN} more" if len(beside) > JOBS_SHOWN else ""
        words.append(f"each for the other: {', '.join(beside[:JOBS_SHOWN])}{more}")
    more_waits = sum(bool(wait.lets_pass) for wait in waits[WAITS_SHOWN:])
    return "; ".join([*words, *([f"{more_waits} more jobs"] if more_waits else [])])


def _named(wait: Wait) -> str:
    more = len(wait.lets_pass) - JOBS_SHOWN
    return ", ".join(wait.lets_pass[:JOBS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _job(one: LinkJob) -> str:
    return f"{one.job} ({one.level}, {one.load:.2f})"
