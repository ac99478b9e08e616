"""What the client commands share: options, asking the agent, tables."""

from __future__ import annotations

import argparse
import io
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from hostcc.client import SOCKET_VARIABLE, ask, default_socket
from hostcc.errors import Exit, HostccError, InputError, one_line
from hostcc.foreign import in_json, lines, say, tree

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

Subparsers = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it
T = TypeVar("T")
Column = tuple[str, str]
"""Heading, and "left" or "right"."""
_MISSING = re.compile(r"missing required field `(\w+)`")
"""What msgspec says of an object that lacks a field."""
LONG_S = 600.0
"""From then on a duration is told in minutes, hours and days."""
PIPE_WIDTH = 400
"""Columns that output has where there is no terminal."""


def add_parser(
    subparsers: Subparsers[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    """A command's parser, described by what it does."""
    return subparsers.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ("" if about.endswith("?") else "."),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """--socket and --json, which every command has that shows what the agent says."""
    add_socket_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON (docs/answers.md)")


def add_socket_option(parser: argparse.ArgumentParser) -> None:
    """--socket, which every command has that asks the agent."""
    parser.add_argument(
        "--socket",
        type=Path,
        default=default_socket(),
        metavar="PATH",
        help=f"the agent's control socket (default: {SOCKET_VARIABLE}, or %(default)s)",
    )


def number_of(text: str, where: str, what: str, low: float, high: float) -> float:
    """A number from `low` to `high`.  Raises InputError: `where` says of what, `what` it is."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not low <= found <= high:
        raise InputError(f'{where}: expected {what} from {low:g} to {high:g}, got "{text[:40]}"')
    return found


def show(
    args: argparse.Namespace, op: str, kind: type[T], render: Callable[[T], None], **fields: Any
) -> int:
    """Ask, then print the answer as JSON or, read as a `kind`, by `render`."""
    answer = ask(args.socket, op, **fields)
    if args.json:
        print_json(answer)
    else:
        render(read(args.socket, answer, kind))
    return Exit.OK


def read(path: Path, answer: object, kind: type[T]) -> T:
    """An answer of the agent at `path` to show; no text in it does anything to a terminal.

    Raises HostccError as `decoded` does.
    """
    return decoded(path, tree(answer), kind)


def decoded(path: Path, answer: object, kind: type[T]) -> T:
    """An answer of the agent at `path`, its texts as they are.

    What a newer agent says beside it is ignored. Raises HostccError where an older one does not
    say what this version needs.
    """
    import msgspec

    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        missing = _MISSING.search(str(error))
        what = f"does not say '{missing[1]}'" if missing else f"says something else: {error}"
        raise HostccError(
            f"the agent at {path} {what}, so it is not of this version: restart it"
        ) from None


def print_json(answer: object) -> None:
    """One JSON document, readable on a terminal and one line elsewhere."""
    indent = 2 if sys.stdout.isatty() else None
    say(in_json(json.dumps(answer, indent=indent, ensure_ascii=False)), flush=True)


def console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """The terminal, or a file; nothing that is printed is taken for markup."""
    from rich.console import Console

    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def emit(*parts: RenderableType) -> None:
    """Print tables and text: fitted to a terminal, or as wide as they like in a pipe."""
    parts = tuple(lines(part) if isinstance(part, str) else part for part in parts)
    if sys.stdout.isatty():
        print_whole(console(), *parts)
        return
    wide = console(io.StringIO(), PIPE_WIDTH)
    wide.print(*parts)
    for line in cast("io.StringIO", wide.file).getvalue().splitlines():
        say(line.rstrip())
    sys.stdout.flush()


def print_whole(screen: Console, *parts: RenderableType) -> None:
    """Fit to the screen, but cut nothing: the terminal breaks lines that stay too long."""
    screen.width = max(screen.width, *(least_width(screen, part) for part in parts))
    screen.print(*parts, crop=False)


def least_width(screen: Console, part: RenderableType) -> int:
    """What a part needs for no word to be broken."""
    return screen.measure(part, options=screen.options.update(width=PIPE_WIDTH)).minimum


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Table:
    """A plain table; what the cells contain is never taken for markup, nor obeyed by a terminal.

    Where there is little room, text is broken between words, and figures are not broken.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = [[heading for heading, _ in columns], *([*map(one_line, row)] for row in rows)]
    whole = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    is_text = [side == "left" for _, side in columns]
    # Rich narrows the widest columns to one width, so that is to be no less than any word.
    words = [w for line in cells for w in " ".join(itertools.compress(line, is_text)).split()]
    word = max(map(cell_len, words), default=0)
    made = Table(box=None, pad_edge=False)
    for (heading, _), text, natural in zip(columns, is_text, whole, strict=True):
        made.add_column(
            heading,
            justify="left" if text else "right",
            no_wrap=not text,
            overflow="fold",
            min_width=min(natural, word) if text else natural,
        )
    for row in cells[1:]:
        made.add_row(*map(Text, row))
    return made


def seconds(value: float | None) -> str:
    """A duration with three digits: "240 ms"; a long one as in `duration`."""
    if value is None:
        return "-"
    if value >= LONG_S:
        return duration(value)
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{_three(value / size)} {unit}"
    return "0 s"


def duration(value: float) -> str:
    """A longer time in words: "3 h 12 min"."""
    minutes, hours, days = int(value // 60), int(value // 3600), int(value // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {int(value % 60)} s" if minutes else f"{int(value)} s"


def size(value: float | None) -> str:
    """Bytes with three digits and decimal prefixes: "12.5 MB"."""
    if value is None:
        return "-"
    for unit, step in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= step:
            return f"{_three(value / step)} {unit}"
    return f"{value:.0f} B"


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
