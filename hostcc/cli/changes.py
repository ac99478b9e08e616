"""`hostcc changes`: what was changed on this host, and why."""

from __future__ import annotations

import argparse
import time
from typing import Any

from hostcc.answers.host import Changes
from hostcc.cli.common import Subparsers, add_client_options, add_parser, emit, show
from hostcc.cli.dryrun import changes_table, words
from hostcc.errors import InputError
from hostcc.foreign import say

LIMIT_MAX = 10_000


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "changes", "what was changed on this host, and why")
    add_client_options(parser)
    parser.add_argument(
        "--log", type=int, nargs="?", const=50, metavar="N", help="the latest N journal entries"
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print what is in force, or the latest entries."""
    if args.log is not None and not 1 <= args.log <= LIMIT_MAX:
        raise InputError(f"--log: expected 1 to {LIMIT_MAX}, got {args.log}")
    render = render_in_force if args.log is None else render_log
    return show(args, "changes", Changes, render, limit=args.log or 200)


def render_in_force(answer: Changes) -> None:
    """The changes in force."""
    if answer.in_force:
        emit(changes_table(answer.in_force))
    else:
        say("no change is in force")


def render_log(answer: Changes) -> None:
    """Entries, oldest first, one line each."""
    for entry in answer.latest:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["at"]))
        say(f"{at}  {entry['record']:7} {describe(entry)}")


def describe(entry: dict[str, Any]) -> str:
    """One journal entry in words."""
    match entry["record"]:
        case "start":
            return f"pid {entry['pid']}, hostcc {entry['version']}"
        case "stop":
            return str(entry["how"])
        case "change":
            change = f"{words(entry['from'])} -> {words(entry['to'])}"
            return f"{entry['id']}: {change} ({entry['why']})"
        case "undone":
            return f"{entry['id']}: {entry['how']}"
    return f"{entry['target']}: {entry['text']}"
