"""`hostcc advise`: what would help on this host; changes nothing."""

from __future__ import annotations

import argparse

import msgspec

from hostcc.answers.status import Status
from hostcc.cli.advice import Advice, advice
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
from hostcc.client import ask
from hostcc.errors import Exit
from hostcc.foreign import say

SCHEMA = "hostcc.advice/1"
COLUMNS = [("", "left"), ("Id", "left"), ("Now", "left"), ("Brings", "left"), ("Do", "left")]
EPILOG = """\
A problem keeps what is on from having its effect; a chance is what could be on as well.  Nothing is
changed, and an agent with observe_only gives the same advice.  Identifiers stay the same.
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "advise", "what would help on this host; changes nothing")
    parser.epilog = EPILOG
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Ask and show."""
    answer = ask(args.socket, "status")
    if args.json:
        found = advice(decoded(args.socket, answer, Status))
        print_json({"schema": SCHEMA, "advice": msgspec.to_builtins(found)})
        return Exit.OK
    found = advice(read(args.socket, answer, Status))
    if found:
        emit(table(COLUMNS, map(_row, found)))
    else:
        say("nothing to advise: what could help here is on")
    return Exit.OK


def _row(one: Advice) -> tuple[str, ...]:
    return one.kind, one.id, one.found, one.brings, one.do
