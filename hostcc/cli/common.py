"""What the client commands share: options, asking the agent, tables."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hostcc.client import DEFAULT_SOCKET, ask
from hostcc.errors import Exit

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

Subparsers = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it
Column = tuple[str, str]
"""Heading, and "left" or "right"."""


def add_parser(
    subparsers: Subparsers[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    """A command's parser, described by what it does."""
    return subparsers.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """--socket and --json, which every client command has."""
    parser.add_argument(
        "--socket",
        type=Path,
        default=DEFAULT_SOCKET,
        metavar="PATH",
        help="the agent's control socket (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (docs/control.md)")


def show(
    args: argparse.Namespace, op: str, render: Callable[[dict[str, Any]], None], **fields: Any
) -> int:
    """Ask, then print the answer as JSON or by `render`."""
    answer = ask(args.socket, op, **fields)
    if args.json:
        print_json(answer)
    else:
        render(answer)
    return Exit.OK


def print_json(answer: object) -> None:
    """One JSON document, readable on a terminal and one line elsewhere."""
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(answer, indent=indent, ensure_ascii=False), flush=True)


def console() -> Console:
    """The terminal."""
    from rich.console import Console

    return Console(highlight=False)


def emit(*parts: RenderableType) -> None:
    """Print tables and text: fitted to a terminal, or as wide as they like in a pipe."""
    if sys.stdout.isatty():
        console().print(*parts)
        return
    from rich.console import Console

    wide = Console(file=io.StringIO(), width=400, highlight=False)
    wide.print(*parts)
    for line in cast("io.StringIO", wide.file).getvalue().splitlines():
        print(line.rstrip())
    sys.stdout.flush()


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], title: str = "") -> Table:
    """A plain table; what the cells contain is never taken for markup."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, title=title or None, title_justify="left")
    for heading, side in columns:
        made.add_column(heading, justify="right" if side == "right" else "left", no_wrap=True)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def seconds(value: float | None) -> str:
    """A duration with three digits: "240 ms"."""
    if value is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{_three(value / size)} {unit}"
    return "0 s"


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
