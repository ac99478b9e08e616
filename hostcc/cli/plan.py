"""`hostcc plan VIEW.json`: the plan of a cluster, and why a job is treated as it is."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from hostcc.cli.common import Subparsers, add_parser, emit, print_json, seconds, table
from hostcc.cli.viewfile import MAX_BYTES, view_of
from hostcc.errors import Exit, InputError
from hostcc.schedule import compression, methods
from hostcc.schedule.explain import Explanation, explain
from hostcc.schedule.plan import Options, Solution, solve, written

PLAN, EXPLANATION = "hostcc.plan/1", "hostcc.explanation/1"
COLUMNS = [
    ("Rank", "right"),
    ("Job", "left"),
    ("Level", "right"),
    ("Priority", "right"),
    ("Weight", "right"),
    ("Start later by", "right"),
    ("Reason", "left"),
]
FLOW_COLUMNS = [
    ("Flow", "left"),
    ("Path", "left"),
    ("Before", "left"),
    ("Busiest link", "left"),
    ("Load", "right"),
    ("Reason", "left"),
]
CONTENDER_COLUMNS = [
    ("Shares links with", "left"),
    ("Rank", "right"),
    ("Level", "right"),
    ("It goes", "left"),
    ("The second loses", "right"),
]


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "plan", "paths, priorities and time-shifts of a cluster's jobs")
    parser.add_argument("file", metavar="VIEW", help="a cluster view as JSON (docs/schedule.md)")
    parser.add_argument("--explain", metavar="JOB", help="why this job is treated as it is")
    parser.add_argument("--json", action="store_true", help="print JSON")
    default = Options()
    parser.add_argument(
        "--levels",
        type=int,
        default=default.levels,
        metavar="N",
        help="priority levels of the network (default: %(default)s)",
    )
    parser.add_argument(
        "--reserved", default="", metavar="N,N,...", help="levels that jobs must not use"
    )
    parser.add_argument(
        "--fairness",
        type=float,
        default=default.fairness,
        metavar="X",
        help="power of recent slow-downs in what a job counts (default: %(default)g)",
    )
    parser.add_argument(
        "--most-loss",
        type=float,
        default=default.most_loss,
        metavar="X",
        help="no job shall lose more of its speed than this fraction, as predicted",
    )
    for name, known in (
        ("paths", methods.ROUTES),
        ("order", methods.ORDERS),
        ("compression", compression.METHODS),
    ):
        parser.add_argument(
            f"--{name}",
            default=getattr(default, name),
            metavar="NAME",
            help=f"one of {', '.join(known)} (default: %(default)s)",
        )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Plan, and print the plan or the explanation."""
    options = Options(
        levels=_bounded("--levels", args.levels, 1, 4096),
        reserved=_levels(args.reserved),
        paths=args.paths,
        order=args.order,
        compression=args.compression,
        fairness=args.fairness,
        most_loss=args.most_loss,
    )
    view = view_of(_read(args.file), args.file)
    try:
        found = solve(view, options)
        why = None if args.explain is None else explain(found, args.explain)
    except InputError as error:
        raise InputError(f"{args.file}: {error}") from None
    if why is not None:
        _show_explanation(why, as_json=args.json)
    else:
        _show_plan(view.digest, found, as_json=args.json)
    return Exit.OK


def _show_plan(digest: str, found: Solution, *, as_json: bool) -> None:
    made = written(digest, found)
    if as_json:
        print_json({"schema": PLAN, **msgspec.to_builtins(made)})
        return
    rows = [
        (
            str(one.rank),
            one.job,
            str(one.level),
            f"{one.priority:.4g}",
            f"{dict(one.parameters).get('weight', 1.0):.3g}",
            seconds(one.shift_s) if one.shift_s else "-",
            one.reason,
        )
        for one in sorted(made.jobs, key=lambda one: one.rank)
    ]
    emit(table(COLUMNS, rows), made.reason)


def _show_explanation(why: Explanation, *, as_json: bool) -> None:
    if as_json:
        print_json({"schema": EXPLANATION, **msgspec.to_builtins(why)})
        return
    lines = {
        "Job": why.job,
        "Rank": f"{why.rank}, predicted to run at {why.speed:.1%} of its speed alone",
        "Order": why.order,
        "Level": why.levels,
        "Parameters": why.parameters,
        "Time-shift": why.shift,
    }
    emit(table([("", "left"), ("", "left")], list(lines.items())))
    if why.contenders:
        emit(table(CONTENDER_COLUMNS, [_contender_row(one) for one in why.contenders]))
    if why.flows:
        emit(
            table(
                FLOW_COLUMNS,
                [
                    (
                        one.flow,
                        one.path,
                        one.before or "-",
                        one.busiest or "-",
                        f"{one.load:.2f}",
                        one.reason,
                    )
                    for one in why.flows
                ],
            )
        )


def _contender_row(one: Any) -> tuple[str, ...]:
    goes = "first" if one.before else "second"
    loses = f"{one.loses:.1%}" if one.loses < 100 else "everything"
    return (one.job, str(one.rank), str(one.level), goes, loses)


def _levels(text: str) -> tuple[int, ...]:
    try:
        return tuple(_bounded("--reserved", int(word), 0, 4095) for word in text.split(",") if word)
    except ValueError:
        raise InputError(f"--reserved: expected levels like 0,3, got {text!r:.40}") from None


def _bounded(option: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise InputError(f"{option}: expected {least} to {most}, got {value}")
    return value


def _read(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from None
