"""`hostcc rank --live FILE`: placements of new jobs, scored against the jobs that run now."""

from __future__ import annotations

import argparse
from typing import Annotated

import msgspec
from msgspec import Meta

from hostcc.cli import view, viewfile
from hostcc.cli.common import emit, print_json, table
from hostcc.cli.peers import short
from hostcc.cli.viewfile import JobGiven, JobName, Name, NotNegative, TableGiven
from hostcc.errors import Exit, InputError
from hostcc.model import Flow
from hostcc.schedule.candidates import Placement, Ranking, ScoredPlacement, rank
from hostcc.schedule.errors import OptionsError
from hostcc.system import input_file, validate

MAX_BYTES = 16 << 20
SCHEMA = "hostcc.rank-live/1"
COLUMNS = [
    ("Rank", "right"),
    ("Candidate", "left"),
    ("Utilisation", "right"),
    ("Running jobs", "right"),
    ("New jobs' speed", "left"),
    ("Slows down", "left"),
    ("Rejected", "left"),
]
NAMED = 3
"""Jobs that a row names."""


class FlowInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Traffic of a new job from one host to another."""

    job: JobName
    src: Name
    dst: Name
    bytes: NotNegative
    """Per iteration."""


class PlacementInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One candidate."""

    name: Name
    flows: Annotated[tuple[FlowInput, ...], Meta(max_length=10_000)]


class LiveInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    jobs: Annotated[tuple[JobGiven, ...], Meta(max_length=1000)]
    """New jobs, as in a view."""
    candidates: Annotated[tuple[PlacementInput, ...], Meta(max_length=1000)]
    tables: Annotated[tuple[TableGiven, ...], Meta(max_length=10_000)] = ()
    """Paths between hosts that the view does not have."""
    links: Annotated[tuple[tuple[Name, NotNegative], ...], Meta(max_length=100_000)] = ()
    """Links of these paths that it does not have."""


def run(args: argparse.Namespace) -> int:
    """Rank the candidates of the file against the agent's view, or one in a file."""
    given = _read(input_file.read_argument(args.file, MAX_BYTES), args.file)
    if args.view is None:
        answer, document = view.fetch(args.socket)
        where, in_force = f"the view of the agent at {args.socket}", answer.in_force
    else:
        document = input_file.read_argument(args.view, viewfile.MAX_BYTES)
        where, in_force = args.view, None
    seen = viewfile.given(document, where)
    try:
        ranked = ranked_against(seen, given)
    except OptionsError as error:
        raise InputError(f"{where}: options.{error}") from None
    except InputError as error:
        raise InputError(f"{args.file}: {error}") from None
    if args.json:
        told = msgspec.to_builtins(ranked)
        print_json({"schema": SCHEMA, "digest": seen.digest, "in_force": in_force, **told})
    else:
        _show(seen.digest, ranked)
    return Exit.OK


def ranked_against(seen: viewfile.ViewGiven, given: LiveInput) -> Ranking:
    """The candidates, best first.  Raises InputError."""
    have = {(one.src, one.dst) for one in seen.tables}
    links = {link for link, _ in seen.links}
    whole = msgspec.structs.replace(
        seen,
        tables=(*seen.tables, *(one for one in given.tables if (one.src, one.dst) not in have)),
        links=(*seen.links, *(pair for pair in given.links if pair[0] not in links)),
    )
    now = viewfile.model_of(whole)
    placements = [
        Placement(
            one.name,
            tuple(
                Flow(f"{one.name}/{at}", flow.job, flow.src, flow.dst, flow.bytes)
                for at, flow in enumerate(one.flows)
            ),
        )
        for one in given.candidates
    ]
    new = [viewfile.profile_of(one) for one in given.jobs]
    return rank(now, new, placements, viewfile.planned_by(seen.options))


def _read(data: bytes, where: str) -> LiveInput:
    given = validate.convert(viewfile.json_of(data, where), LiveInput, where)
    jobs = {one.job for one in given.jobs}
    if len(jobs) != len(given.jobs):
        raise InputError(f"{where}: jobs: expected each name once")
    if len({one.name for one in given.candidates}) != len(given.candidates):
        raise InputError(f"{where}: candidates: expected each name once")
    for one in given.candidates:
        for flow in one.flows:
            if flow.job not in jobs:
                raise InputError(
                    f"{where}: candidates: {one.name}: expected flows of the jobs in jobs, "
                    f"got {flow.job}"
                )
    return given


def _show(digest: str, ranked: Ranking) -> None:
    rows = [_row(number, one) for number, one in enumerate(ranked.placements, 1)]
    now = f"now, by view {short(digest)}: {_share(ranked.before)} of {ranked.jobs} running jobs"
    emit(now, table(COLUMNS, rows))


def _row(number: int, one: ScoredPlacement) -> tuple[str, ...]:
    if one.rejected:
        return ("-", one.name, "-", "-", "-", "-", one.rejected)
    slowest = sorted(one.speeds, key=lambda pair: pair[1])
    speeds = [f"{job} {speed:.1%}" for job, speed in slowest]
    slowed = [f"{job.job} {job.before:.1%} to {job.after:.1%}" for job in one.slowed]
    return (
        str(number),
        one.name,
        _share(one.utilisation),
        _share(one.running),
        _first(speeds, len(speeds)),
        _first(slowed, one.slowed_count) or "nobody",
        "",
    )


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2%}"


def _first(words: list[str], count: int) -> str:
    shown = words[:NAMED]
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return ", ".join(shown) + more
