"""Shell blocks and commands in pages, for tests.

The word after `sh` says where a block runs: `runs`, in an empty folder, without root and an agent;
`admin`, `node1`, `node2` and `both` in the test of the quick start. Others are for reading.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hostcc.cli.main import COMMANDS, build_parser

TOP = Path(__file__).parent.parent
PAGES = sorted([*TOP.glob("*.md"), *TOP.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(sh|)(?: +([a-z0-9]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(hostcc [^`]+)`(?!`)", re.DOTALL)
WORD = re.compile(r"[a-z][a-z-]*\Z")
OPTION = re.compile(r"--[a-z][a-z-]*")
END = re.compile(r" (?:--|#|\||&&|&|>|;) ?|$")


@dataclass(frozen=True)
class Block:
    """A block of shell commands."""

    where: str
    """The word after `sh`; empty: it is not run."""
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(where, text) for _, where, text in BLOCK.findall(page.read_text())]


def commands(page: Path) -> Iterator[str]:
    """Command lines of hostcc, without what follows them."""
    for block in blocks(page):
        for line in block.text.splitlines():
            for part in re.split(r"&&|\|", line.partition("# ")[0]):
                if part.strip().startswith("hostcc "):
                    yield _cut(part.strip())
    for inline in INLINE.findall(page.read_text()):
        yield _cut(" ".join(inline.split()))


def _cut(line: str) -> str:
    return line[: next(END.finditer(line)).start()]


def wrong(line: str) -> str:
    """What of a command line does not exist; empty: nothing."""
    words = line.replace("`", "").split()[1:]
    if not words or not WORD.match(words[0]):
        return ""  # an option of hostcc itself, or a placeholder
    name = words[0].partition("|")[0].rstrip(",.")
    if name not in COMMANDS:
        return f"no command {name}"
    parser = build_parser(name)
    path = [name]
    while True:
        below = _subparsers(parser)
        if below is None:
            break
        parser = below[name]
        words = words[1:]
        if _subparsers(parser) is None or not words or not WORD.match(words[0]):
            break
        name = words[0]
        if name not in _subparsers(parser):  # type: ignore[operator]
            return f"no command {' '.join([*path, name])}"
        path.append(name)
    known = _options(parser)
    missing = [option for option in OPTION.findall(" ".join(words)) if option not in known]
    return f"{' '.join(path)} has no {', '.join(missing)}" if missing else ""


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser] | None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return None


def _options(parser: argparse.ArgumentParser) -> set[str]:
    found = {word for action in parser._actions for word in action.option_strings}
    for below in (_subparsers(parser) or {}).values():
        found |= _options(below)
    return found


def shell(block: Block) -> str:
    """The block as a script that stops at its first failure."""
    return f"set -eu\n{block.text}"


def quoted(text: str | Path) -> str:
    return shlex.quote(str(text))
