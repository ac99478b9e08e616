"""`hostcc top`: the jobs live, with what each sends; sorts, scrolls, what is wrong first."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hostcc.answers.history import History
from hostcc.answers.status import Status
from hostcc.cli import top_screen
from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    console,
    number_of,
    print_json,
    read,
)
from hostcc.cli.keyboard import CLOSED, Keyboard
from hostcc.cli.top_screen import KEYS, TopState
from hostcc.client import RefusedError, ask
from hostcc.errors import Exit, HostccError, InputError
from hostcc.foreign import say

if TYPE_CHECKING:
    from rich.text import Text

POINTS = 120
"""Seconds of the sparkline, at most."""
WIDTH, HEIGHT = 80, 24
"""Of a screen where there is none."""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "top", "the jobs live: what they send, how they fare")
    parser.epilog = "keys:\n" + "\n".join(f"  {keys:<26} {words}" for keys, words in KEYS)
    parser.add_argument(
        "--every", default="1", metavar="SECONDS", help="between two looks (default: %(default)s)"
    )
    parser.add_argument("--once", action="store_true", help="print one screen and end")
    parser.add_argument(
        "--sort",
        default="b",
        metavar="KEY",
        help=f"sort as this key does: one of {' '.join(top_screen.SORTS)} (default: %(default)s)",
    )
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Show one screen, or keep it there until q is pressed."""
    every_s = number_of(args.every, "--every", "seconds", 0.2, 3600)
    if args.sort not in top_screen.SORTS:
        known = " ".join(top_screen.SORTS)
        raise InputError(f'--sort: expected one of {known}, got "{args.sort[:40]}"')
    if args.json:
        print_json(ask(args.socket, "history", fine=True, points=POINTS - 1))
        return Exit.OK
    state = look(args.socket, TopState(_status(args.socket)))
    state = replace(state, choice=replace(state.choice, sort=args.sort))
    if args.once:
        size = shutil.get_terminal_size((WIDTH, HEIGHT))
        shown = top_screen.lines(state, size.columns, size.lines, plain=_plain(sys.stdout.encoding))
        say("\n".join(line.plain.rstrip() for line in shown))
        return Exit.OK
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("expected a terminal; elsewhere: --once, --json or hostcc status --watch")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it
    with contextlib.suppress(KeyboardInterrupt):
        _live(args.socket, state, every_s)
    return Exit.OK


def look(path: Path, before: TopState) -> TopState:
    """The same screen of now; where the agent does not answer, it says so."""
    try:
        answer = ask(path, "history", fine=True, points=POINTS - 1, limit=1024)
        return replace(
            before, status=_status(path), history=read(path, answer, History), trouble=""
        )
    except (RefusedError, InputError) as error:  # of an earlier version
        return replace(before, status=_status(path), trouble=str(error))


def _status(path: Path) -> Status:
    return read(path, ask(path, "status"), Status)


class _Screen:
    """Lines that are drawn as they are."""

    def __init__(self, lines: list[Text]) -> None:
        self._lines = lines

    def __rich__(self) -> Text:
        """As rich asks for it."""
        from rich.text import Text

        return Text("\n", no_wrap=True).join(self._lines)


def _live(path: Path, state: TopState, every_s: float) -> None:
    from rich.live import Live

    screen = console()
    plain = _plain(screen.encoding)

    def drawn() -> _Screen:
        return _Screen(top_screen.lines(state, screen.width, screen.height, plain=plain))

    with (
        Keyboard() as keyboard,
        Live(drawn(), console=screen, auto_refresh=False, screen=True) as live,
    ):
        due_s = time.monotonic() + every_s
        while True:
            for key in keyboard.pressed(due_s - time.monotonic()):
                page = top_screen.jobs_shown(state, screen.width, screen.height)
                jobs = len(state.status.jobs)
                choice = top_screen.pressed(state.choice, key, page, jobs)
                if choice is None or key == CLOSED:
                    return
                state = replace(state, choice=choice)
            if time.monotonic() >= due_s:
                try:
                    state = look(path, state)
                except HostccError as error:
                    state = replace(state, trouble=str(error))
                due_s = time.monotonic() + every_s
            live.update(drawn(), refresh=True)


def _plain(encoding: str | None) -> bool:
    return "utf" not in (encoding or "").lower()
