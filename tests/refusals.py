"""How refusals are looked at in tests."""

from __future__ import annotations

from collections.abc import Callable

from hostcc.errors import InputError


def refusal_of(function: Callable[..., object], *args: object) -> str:
    """The line with which `function` refuses its arguments; empty when it takes them."""
    try:
        function(*args)
    except InputError as error:
        return str(error)
    return ""


def is_one_line(text: str) -> bool:
    return len(text.splitlines()) <= 1
