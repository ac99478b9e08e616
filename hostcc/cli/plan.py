"""`hostcc plan [VIEW.json]`: the plan that the agent follows, or the one of a view; and why."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import msgspec

from hostcc.answers.plan import EXPLANATION, PLAN, Contender, Explanation, PlanAnswer
from hostcc.cli import viewfile
from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    emit,
    print_json,
    read,
    seconds,
    table,
)
from hostcc.cli.peers import disagreements
from hostcc.cli.plan_summary import heading
from hostcc.client import ask
from hostcc.errors import Exit, InputError
from hostcc.foreign import say
from hostcc.model import FlowPlan, JobPlan, Plan
from hostcc.schedule import compression, methods
from hostcc.schedule.assumed_work import completed
from hostcc.schedule.errors import OptionsError
from hostcc.schedule.explain import explain
from hostcc.schedule.plan import Options, Solution, solve_for_agents
from hostcc.schedule.plan_writer import write_plan
from hostcc.system import input_file

COLUMNS = [
    ("Rank", "right"),
    ("Job", "left"),
    ("Level", "right"),
    ("Priority", "right"),
    ("Weight", "right"),
    ("Start later by", "right"),
    ("Reason", "left"),
]
SHIFT_COLUMN = 5
FLOW_COLUMNS = [
    ("Flow", "left"),
    ("Path", "left"),
    ("Before", "left"),
    ("Busiest link", "left"),
    ("Load", "right"),
    ("Reason", "left"),
]
FLOWS_SHOWN = 100
OPTIONS = ("levels", "reserved", "fairness", "most_loss", "paths", "order", "compression")
"""Of the command line, for a VIEW."""
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
    parser.add_argument(
        "file",
        nargs="?",
        metavar="VIEW",
        help="a view as JSON (docs/internals/schedule.md); absent: the plan that the agent follows",
    )
    parser.add_argument("--explain", metavar="JOB", help="why this job is treated as it is")
    add_client_options(parser)
    _add_options(parser)
    parser.set_defaults(func=run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    """How a VIEW is planned; the agent has its own in `[plan]`."""
    default = Options()
    parser.add_argument(
        "--levels",
        type=int,
        metavar="N",
        help=f"priority levels of the network ({_default(default.levels)})",
    )
    parser.add_argument("--reserved", metavar="N,N,...", help="levels that jobs must not use")
    parser.add_argument(
        "--fairness",
        type=float,
        metavar="X",
        help=f"power of recent slow-downs in what a job counts ({_default(default.fairness)})",
    )
    parser.add_argument(
        "--most-loss",
        type=float,
        metavar="X",
        help="no job shall lose more of its speed than this fraction, as predicted "
        f"({_default('no bound')})",
    )
    for name, known in (
        ("paths", methods.ROUTES),
        ("order", methods.ORDERS),
        ("compression", compression.METHODS),
    ):
        parser.add_argument(
            f"--{name}",
            metavar="NAME",
            help=f"one of {', '.join(known)} ({_default(getattr(default, name))})",
        )


def _default(value: object) -> str:
    return f"default: what VIEW says, or {value}"


def run(args: argparse.Namespace) -> int:
    """Print the plan or the explanation, of the agent or of a view."""
    return _agents(args) if args.file is None else _of_view(args)


def _agents(args: argparse.Namespace) -> int:
    for name in OPTIONS:
        if getattr(args, name) is not None:
            option = name.replace("_", "-")
            raise InputError(f"--{option}: expected together with VIEW; the agent has [plan]")
    answer = ask(args.socket, "plan", explain=args.explain)
    if args.json:
        why = answer.pop("explanation", None)
        print_json(answer if why is None else {"schema": EXPLANATION, **why})
        return Exit.OK
    plan = read(args.socket, answer, PlanAnswer)
    if plan.explanation is not None:
        _explain(plan.explanation)
    else:
        say("\n".join([*heading(plan.state), *disagreements(plan.state.disagreements)]))
        if plan.jobs:
            _list(Plan(plan.digest, plan.jobs, plan.flows, plan.reason))
            _flows(plan.flows)
    return Exit.OK


def solved(file: str) -> tuple[str, Solution]:
    """Digest and solution of a view's file, by its own options.  Raises InputError."""
    given = viewfile.given(input_file.read_argument(file, viewfile.MAX_BYTES), file)
    view = completed(viewfile.model_of(given))
    try:
        return view.digest, solve_for_agents(view, viewfile.planned_by(given.options))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _of_view(args: argparse.Namespace) -> int:
    given = viewfile.given(input_file.read_argument(args.file, viewfile.MAX_BYTES), args.file)
    options = viewfile.planned_by(msgspec.structs.replace(given.options, **_said(args)))
    view = completed(viewfile.model_of(given))
    try:
        found = solve_for_agents(view, options)
        why = None if args.explain is None else explain(found, args.explain)
    except OptionsError as error:
        name, _, words = str(error).partition(":")
        told = name in _said(args)
        where = f"--{name.replace('_', '-')}" if told else f"{args.file}: options.{name}"
        raise InputError(f"{where}:{words}") from None
    except InputError as error:
        raise InputError(f"{args.file}: {error}") from None
    if why is not None:
        _show_explanation(why, as_json=args.json)
    else:
        _show_plan(view.digest, found, as_json=args.json)
    return Exit.OK


def _said(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the command line."""
    said = {name: value for name in OPTIONS if (value := getattr(args, name)) is not None}
    if "levels" in said:
        said["levels"] = _bounded("--levels", args.levels, 1, 4096)
    if "reserved" in said:
        said["reserved"] = _levels(args.reserved)
    return said


def _show_plan(digest: str, found: Solution, *, as_json: bool) -> None:
    made = write_plan(digest, found)
    if as_json:
        print_json({"schema": PLAN, **msgspec.to_builtins(made)})
    else:
        _list(made)


def _list(plan: Plan) -> None:
    rows = [row(one) for one in sorted(plan.jobs, key=lambda one: one.rank)]
    columns = COLUMNS
    if not any(one.shift_s for one in plan.jobs):  # as in what hosts agree on: no phases
        columns = [*COLUMNS[:SHIFT_COLUMN], *COLUMNS[SHIFT_COLUMN + 1 :]]
        rows = [(*cells[:SHIFT_COLUMN], *cells[SHIFT_COLUMN + 1 :]) for cells in rows]
    emit(table(columns, rows), plan.reason)


def _flows(flows: Sequence[FlowPlan]) -> None:
    """The first of them; `--explain` says more of one job's."""
    if flows:
        rows = [(one.flow, one.path) for one in flows[:FLOWS_SHOWN]]
        more = [f"and {len(flows) - len(rows)} more flows"] if len(flows) > len(rows) else []
        emit(table(FLOW_COLUMNS[:2], rows), *more)


def row(one: JobPlan) -> tuple[str, ...]:
    """One line of the table."""
    return (
        str(one.rank),
        one.job,
        str(one.level),
        f"{one.priority:.4g}",
        f"{dict(one.parameters).get('weight', 1.0):.3g}",
        seconds(one.shift_s) if one.shift_s else "-",
        one.reason,
    )


def _show_explanation(why: Explanation, *, as_json: bool) -> None:
    if as_json:
        print_json({"schema": EXPLANATION, **msgspec.to_builtins(why)})
    else:
        _explain(why)


def _explain(why: Explanation) -> None:
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


def _contender_row(one: Contender) -> tuple[str, ...]:
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
