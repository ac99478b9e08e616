"""`hostcc verify`: is every change still in force?"""

from __future__ import annotations

import argparse

from hostcc.answers.host import Verification
from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    emit,
    print_json,
    read,
    table,
)
from hostcc.client import ask
from hostcc.errors import Exit
from hostcc.foreign import say

COLUMNS = [("Change", "left"), ("Target", "left"), ("Expected", "left"), ("Found", "left")]


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "verify", "is every change still in force?")
    parser.epilog = (
        "Exit status 1 when something differs.  The agent records what others edited, and leaves\n"
        "it as it is."
    )
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the differences."""
    answer = ask(args.socket, "verify")
    outcome = read(args.socket, answer, Verification)
    print_json(answer) if args.json else render(outcome)
    return Exit.FAILED if outcome.differences else Exit.OK


def render(answer: Verification) -> None:
    """The outcome."""
    found = answer.differences
    if answer.observing:
        say(f"nothing to verify: the agent only observes ({answer.observing})")
    elif not found:
        say(f"{answer.checked} changes, all in force")
    else:
        rows = ((d.id, d.target, d.expected, d.found) for d in found)
        emit(table(COLUMNS, rows))
    for other in answer.left_alone:
        say(
            f"left alone: {other.connections} connections of job {other.job} run "
            f"{other.congestion_control}, which somebody else chose for them"
        )
