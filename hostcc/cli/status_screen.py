"""`hostcc status --watch`: all of it on a screen that does not scroll, what is wrong first.

No column is lost: where one line is too narrow for a job it gets two, and long names go on below.
Jobs and details that find no room are counted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from hostcc.answers.status import Status
from hostcc.cli import status
from hostcc.cli.common import console, emit, least_width, print_json, read, table
from hostcc.client import ask

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 8), (7, 9), (10, 11), (12, 13))
"""Columns of status that share one where there is little room, the second below the first."""
ALARMS = 0.5
"""Part of the screen that alarms take at most."""
Lines = list[list["Segment"]]
Draw = Callable[[Sequence["RenderableType"]], Lines]


def run(args: argparse.Namespace, answer: dict[str, Any]) -> NoReturn:
    """Until interrupted, or until the agent answers no more."""
    if args.json:
        _again(args, answer, print_json)
    if not sys.stdout.isatty():
        _again(args, answer, lambda one: emit(status.screen(_read(args, one))))
    from rich.live import Live

    # A shell's `&` starts commands with SIGINT ignored; Ctrl-C is the only way out of a screen.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    first = FittedScreen(_read(args, answer))
    with Live(first, console=console(), auto_refresh=False, screen=True) as live:
        _again(args, answer, lambda one: live.update(FittedScreen(_read(args, one)), refresh=True))


def _read(args: argparse.Namespace, answer: dict[str, Any]) -> Status:
    return read(args.socket, answer, Status)


def _again(
    args: argparse.Namespace, answer: dict[str, Any], show: Callable[[dict[str, Any]], object]
) -> NoReturn:
    while True:
        show(answer)
        time.sleep(args.watch)
        answer = ask(args.socket, "status")


class FittedScreen:
    """What `hostcc status` says, in the size of the screen."""

    def __init__(self, answer: Status) -> None:
        self._answer = answer
        self._alarms, self._summary, self._details = status.sections(self._answer)

    def __rich_console__(self, screen: Console, options: ConsoleOptions) -> RenderResult:
        """As rich asks for it."""
        from rich.segment import Segment

        lines = self._lines(screen, options.update(height=None), options.height or screen.height)
        for number, line in enumerate(lines):
            if number:
                yield Segment.line()
            yield from line

    def _lines(self, screen: Console, options: ConsoleOptions, height: int) -> Lines:
        def drawn(parts: Sequence[RenderableType]) -> Lines:
            each = (screen.render_lines(part, options, pad=False) for part in parts)
            return [line for lines in each for line in lines]

        heading = drawn(_texts(status.heading(self._answer.agent)))
        alarms = _some(drawn(self._alarms), max(1, int(ALARMS * height)), "alarm", drawn)
        top = [*heading, *alarms, *drawn(self._summary)]
        room = max(0, height - len(top))
        jobs = self._jobs(room, drawn, screen, options)
        details = drawn(self._details)
        room -= len(jobs)
        return [*top, *jobs, *_some(details, room, "line", drawn)][:height]

    def _jobs(self, room: int, drawn: Draw, screen: Console, options: ConsoleOptions) -> Lines:
        """As many jobs as there is room for, and how many there are beyond."""
        rows = [status.job_row(job) for job in self._answer.jobs]
        if not rows:
            return []
        flat = table(status.COLUMNS, rows)
        narrow = least_width(screen, flat) > options.max_width
        shown = min(len(rows), room)
        while shown >= 0:
            left = len(rows) - shown
            some = stacked(rows[:shown]) if narrow else table(status.COLUMNS, rows[:shown])
            more = _texts([f"... and {left} more jobs"] if left else [])
            lines = drawn([some, *more])
            if len(lines) <= room:
                return lines
            shown -= 1
        return drawn(_texts([f"{len(rows)} jobs"]))[:room]


def stacked(rows: Sequence[Sequence[str]]) -> Table:
    """Rows of status with two values to a cell."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False)
    for above, below in PAIRS:
        (first, side), (second, _) = status.COLUMNS[above], status.COLUMNS[below]
        text = side == "left" and above == 0
        made.add_column(f"{first}\n{second}", justify="left" if text else "right", overflow="fold")
    for row in rows:
        made.add_row(*(Text(f"{row[above]}\n{row[below]}") for above, below in PAIRS))
    return made


def _some(lines: Lines, room: int, what: str, drawn: Draw) -> Lines:
    """The first of them, and how many there are beyond."""
    if len(lines) <= room or room <= 0:
        return lines[: max(0, room)]
    left = len(lines) - room + 1
    words = f"... and {left} more {what}{'s' if left > 1 else ''}"
    return [*lines[: room - 1], *drawn(_texts([words]))[:1]]


def _texts(lines: Sequence[str]) -> list[Text]:
    from rich.text import Text

    return [Text(line) for line in lines]
