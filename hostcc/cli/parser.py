"""A command line's parser whose refusals are exceptions, with what was probably meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from hostcc.errors import InputError

_CHOICE = re.compile(r"invalid choice: '(?P<got>.*)' \(choose from (?P<known>.*)\)\Z", re.DOTALL)
_NUMBER = re.compile(r"invalid (?P<kind>int|float) value: ")
_EXPECTED = {"int": "a whole number", "float": "a number"}


class UsageError(InputError):
    """Words that are no command line of hostcc; `usage`: what one looks like."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """Of a command, or of one of its parts."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        if match := _CHOICE.search(message):
            known = [word.strip("' ") for word in match["known"].split(",")]
            words = f"{match['got']!r:.80}: expected one of {', '.join(known)}"
            message = message[: match.start()] + words + meant(match["got"], known)
        if match := _NUMBER.search(message):
            words = f"expected {_EXPECTED[match['kind']]}, got "
            message = message[: match.start()] + words + message[match.end() :]
        raise UsageError(message, self.format_usage())

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Nothing is left over for others: whoever knows the options is asked what was meant."""
        found, others = super().parse_known_args(args, namespace)
        if others:
            first = others[0].partition("=")[0]
            words = f"unrecognized arguments: {' '.join(others)}"
            self.error(words + meant(first, self._option_string_actions))
        return found, others


def meant(word: str, known: Iterable[str]) -> str:
    """The known word that comes close, as the end of a message; empty: none does."""
    import difflib  # only for a refusal

    close: Sequence[str] = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
