"""What the tracing scripts share: options, when to stop, how to print, exit statuses."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostcc.errors import UNWRITABLE, Exit, HostccError
from hostcc.foreign import say

MAX_DURATION_S = 7 * 86400.0


def make_parser(
    name: str, about: str, example: str, counted: str, detail: str = ""
) -> argparse.ArgumentParser:
    """A script's parser, with the options that all have; `counted`: what --count counts."""
    parser = argparse.ArgumentParser(
        prog=name,
        description=f"{about}\n\n{detail}".strip(),
        epilog=f"example:\n  {example}\n\nNeeds root and bcc; see docs/tracing.md.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--duration",
        type=positive_seconds,
        metavar="S",
        help="stop after this time, in seconds (default: at Ctrl-C)",
    )
    parser.add_argument(
        "--count",
        type=positive_count,
        metavar="N",
        help=f"stop after {counted} (default: no limit)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    return parser


def positive_seconds(text: str) -> float:
    """A duration; ArgumentTypeError unless 0 < seconds <= MAX_DURATION_S."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MAX_DURATION_S:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, got {text[:40]!r}")
    return value


def positive_count(text: str) -> int:
    """A whole number; ArgumentTypeError unless 1 to 10**9."""
    if not text.isdecimal() or not 1 <= len(text) <= 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text[:40]!r}")
    return int(text)


@dataclass
class Until:
    """When to stop: a duration, so many results, a signal."""

    duration_s: float | None = None
    count: int | None = None
    done: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    started: float = field(default_factory=time.monotonic)

    def catch_signals(self) -> None:
        """Make SIGINT and SIGTERM end the loop instead of the process."""
        # Not by an exception: it would get lost in a callback of bcc's.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.stopped.set())

    @property
    def over(self) -> bool:
        """Whether it is time to stop."""
        return self.stopped.is_set() or self.enough or self.left_s <= 0

    @property
    def enough(self) -> bool:
        """Whether as many results were printed as were asked for."""
        return self.count is not None and self.done >= self.count

    @property
    def left_s(self) -> float:
        """Seconds that are left; infinite without a limit."""
        if self.duration_s is None:
            return float("inf")
        return self.started + self.duration_s - time.monotonic()

    def ticks(self, interval_s: float) -> Iterator[float]:
        """Seconds since the start, every `interval_s`, and once more at the end."""
        due = self.started + interval_s
        while not self.over:
            now = time.monotonic()
            if self.stopped.wait(max(0.0, min(due - now, self.left_s, 0.2))):
                break
            if time.monotonic() >= due:
                due = max(due + interval_s, time.monotonic())
                yield time.monotonic() - self.started
        if not self.enough:
            yield time.monotonic() - self.started


class Output:
    """Prints results as text or as JSON lines, and counts them; notes go to stderr."""

    def __init__(self, name: str, as_json: bool, until: Until) -> None:
        self.name = name
        self.as_json = as_json
        self.until = until
        self._noted = ""

    def result(self, record: Mapping[str, Any], text: str) -> None:
        """One result, unless there have been enough."""
        if self.until.enough:
            return
        self.until.done += 1
        self.line(record, text)

    def line(self, record: Mapping[str, Any], text: str) -> None:
        """Something that is not counted."""
        say(json.dumps(record) if self.as_json else text, flush=True)

    def heading(self, text: str) -> None:
        """A heading, in text only."""
        if not self.as_json:
            say(text, flush=True)

    def note(self, text: str) -> None:
        """Something about the tracing itself."""
        say(f"{self.name}: {text}", file=sys.stderr, flush=True)

    def note_once(self, text: str) -> None:
        """The same, unless it was the latest that was said this way."""
        if text != self._noted:
            self.note(text)
        self._noted = text


def run(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    body: Callable[[argparse.Namespace, Until, Output], None],
) -> int:
    """Parse, trace, and turn whatever went wrong into one line and an exit status.

    0: done or stopped by a signal; 1: failed; 2: wrong usage, or something that tracing
    needs is not here; 3: no agent.
    """
    args = parser.parse_args(argv)
    until = Until(args.duration, args.count)
    out = Output(parser.prog, args.json, until)
    try:
        until.catch_signals()
        body(args, until, out)
        sys.stdout.flush()
    except HostccError as error:
        out.note(str(error))
        return error.exit_status
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        out.note(f"cannot write the output: {error.strerror}")
        return Exit.FAILED
    return Exit.OK


def ready(out: Output, until: Until, what: str) -> None:
    """Say that tracing has begun; durations count from here."""
    until.started = time.monotonic()
    how = "" if until.duration_s else " (Ctrl-C ends)"
    out.note(f"tracing {what}{how}")
