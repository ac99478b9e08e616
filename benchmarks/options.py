"""Command-line values with bounds, refused in one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from hostcc.errors import InputError

MAX_FLOWS = 64
MAX_ITERATIONS = 10_000
MAX_RUNS = 100


def whole(option: str, least: int, greatest: int) -> Callable[[str], int]:
    """A parser of a whole number between two bounds; it raises InputError."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= greatest:
            raise InputError(
                f"{option}: expected a whole number from {least} to {greatest}, got {text!r:.40}"
            )
        return value

    return parse


def fraction(option: str, least: float, greatest: float) -> Callable[[str], float]:
    """A parser of a number between two bounds; it raises InputError."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= greatest:
            raise InputError(
                f"{option}: expected a number from {least:g} to {greatest:g}, got {text!r:.40}"
            )
        return value

    return parse


def names(option: str, known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """A parser of a list of known names; it raises InputError."""

    def parse(text: str) -> tuple[str, ...]:
        chosen = words(option)(text)
        for name in chosen:
            if name not in known:
                raise InputError(f"{option}: expected some of {', '.join(known)}, got {name!r:.40}")
        return chosen

    return parse


def words(option: str) -> Callable[[str], tuple[str, ...]]:
    """A parser of a list of names, each once; it raises InputError."""

    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(word.strip() for word in text.split(",") if word.strip())
        if not chosen:
            raise InputError(f"{option}: expected names with commas between, got {text!r:.40}")
        return tuple(dict.fromkeys(chosen))

    return parse


def wholes(option: str, least: int, greatest: int) -> Callable[[str], tuple[int, ...]]:
    """A parser of a list of whole numbers, each once; it raises InputError."""
    one = whole(option, least, greatest)

    def parse(text: str) -> tuple[int, ...]:
        return tuple(dict.fromkeys(one(part.strip()) for part in text.split(",")))

    return parse


def span(option: str, least: int, greatest: int) -> Callable[[str], tuple[int, int]]:
    """A parser of `A:B` with A below B; it raises InputError."""

    def parse(text: str) -> tuple[int, int]:
        first, colon, end = text.partition(":")
        try:
            found = (int(first), int(end)) if colon else (0, 0)
        except ValueError:
            found = (0, 0)
        if not least <= found[0] < found[1] <= greatest:
            raise InputError(
                f"{option}: expected A:B with {least} <= A < B <= {greatest}, got {text!r:.40}"
            )
        return found

    return parse


def add_iterations(parser: argparse.ArgumentParser, default: int = 60) -> None:
    """--iterations and --alone, of every benchmark that runs lab scenarios."""
    parser.add_argument(
        "--iterations",
        type=whole("--iterations", 1, MAX_ITERATIONS),
        default=default,
        metavar="N",
        help="iterations of every job (default: %(default)s)",
    )
    parser.add_argument(
        "--alone",
        type=whole("--alone", 0, MAX_ITERATIONS),
        default=8,
        metavar="N",
        help="iterations of each job alone, once per variant; 0: the computed ideal (default: 8)",
    )


def add_seeds(parser: argparse.ArgumentParser, count: int) -> None:
    """`--seeds A:B`; default: the first `count`."""
    parser.add_argument(
        "--seeds",
        type=span("--seeds", 0, 2**31),
        default=(0, count),
        metavar="A:B",
        help=f"seeds from A up to but not B (default: 0:{count})",
    )


def add_seed(parser: argparse.ArgumentParser, of: str) -> None:
    """`--seed S` of what is drawn, in words; default: 0."""
    parser.add_argument(
        "--seed",
        type=whole("--seed", 0, 2**31),
        default=0,
        metavar="S",
        help=f"seed of {of} (default: 0)",
    )


def add_one_scenario(parser: argparse.ArgumentParser) -> None:
    """--scenario and --flows, one of each."""
    parser.add_argument(
        "--scenario", default="two-jobs", metavar="NAME", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--flows",
        type=whole("--flows", 1, MAX_FLOWS),
        default=8,
        metavar="N",
        help="connections of every job (default: %(default)s)",
    )


def add_flows(parser: argparse.ArgumentParser, default: tuple[int, ...]) -> None:
    """--flows."""
    parser.add_argument(
        "--flows",
        type=wholes("--flows", 1, MAX_FLOWS),
        default=default,
        metavar="N,N,...",
        help=f"connections of every job (default: {','.join(map(str, default))})",
    )


def add_variants(parser: argparse.ArgumentParser, default: tuple[str, ...]) -> None:
    """--variants."""
    parser.add_argument(
        "--variants",
        type=words("--variants"),
        default=default,
        metavar="NAME,NAME,...",
        help=f"variants to compare (default: {','.join(default)})",
    )
