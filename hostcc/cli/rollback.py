"""`hostcc rollback`: undo every change, with the agent's help or without an agent."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from hostcc.answers.host import Undone
from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    print_json,
    read,
)
from hostcc.client import ask
from hostcc.errors import Exit, InputError, NoAgentError
from hostcc.foreign import say


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "rollback", "undo every change")
    parser.epilog = (
        "A running agent then only observes, until `hostcc unfair MODE`, which takes over jobs\n"
        "that still run.  Without an agent the journal that the last one left in its run\n"
        "directory says what to undo, and no job comes back."
    )
    add_client_options(parser)
    parser.add_argument(
        "--run-dir",
        type=Path,
        metavar="DIR",
        help="where the agent's journal is (default: where its socket is)",
    )
    parser.add_argument(
        "--marks",
        action="store_true",
        help="only the marks that an agent which died has left on connections",
    )
    parser.add_argument(
        "--hold",
        action="store_true",
        help="also after restarts and boots, until hostcc unfair MODE",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Undo."""
    if args.hold and args.marks:
        raise InputError("expected --hold or --marks, not both")
    answer = None if args.marks else asked(args)
    if answer is None:
        import msgspec

        from hostcc.daemon.rollback import offline

        folder = args.run_dir or args.socket.parent
        outcome = offline(folder, marks_only=args.marks, hold=args.hold)
        answer = msgspec.to_builtins(outcome)
    outcome = read(args.socket, answer, Undone)
    print_json(answer) if args.json else render(outcome)
    if outcome.problems:
        return Exit.FAILED
    return Exit.UNRECORDED if outcome.unrecorded else Exit.OK


def asked(args: argparse.Namespace) -> dict[str, Any] | None:
    """What the agent says of its roll-back; None: none answers, or only one of another journal."""
    try:
        if args.run_dir is not None:
            folder = ask(args.socket, "status")["agent"].get("run_dir") or args.run_dir
            if Path(folder).resolve() != args.run_dir.resolve():
                return None
        return ask(args.socket, "rollback", 60.0, hold=args.hold or None)
    except NoAgentError:
        return None


def render(answer: Undone) -> None:
    """What was undone, and what could not be."""
    for change_id in answer.undone:
        say(f"undone: {change_id}")
    for change_id, why in answer.unrecorded.items():
        say(f"hostcc rollback: undone, but not recorded: {change_id}: {why}", file=sys.stderr)
    for change_id in answer.gone:
        say(f"gone with its network namespace: {change_id}")
    if not answer.undone and not answer.gone:
        say("nothing to undo")
    for problem in answer.problems:
        say(f"hostcc rollback: not undone: {problem}", file=sys.stderr)
