"""`hostcc shifts off | on`: whether jobs that share a link send one after the other."""

from __future__ import annotations

import argparse

from hostcc.answers.host import Shifting
from hostcc.cli.common import Subparsers, add_client_options, add_parser, show
from hostcc.foreign import say

EPILOG = """\
on   the first packets or posts of a job wait while a job of its group sends
off  every job sends when it likes; jobs that wait go on at once

Lasts until the agent stops.  `hostcc status --json` shows who waits for whom (part gates).
"""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    about = "let jobs that share a link send one after the other, or not"
    parser = add_parser(subparsers, "shifts", about)
    parser.epilog = EPILOG
    parser.add_argument("what", choices=["off", "on"], help="see below")
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Switch."""
    return show(args, "shifts", Shifting, render, enabled=args.what == "on")


def render(answer: Shifting) -> None:
    """What changed."""
    words = {True: "on", False: "off"}
    why = f" ({answer.reason})" if answer.reason else ""
    say(f"shifts {words[answer.before]} -> {words[answer.enabled]}{why}")
