"""Errors that a person caused or can act on; each carries the exit status it leads to."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses of every hostcc command but `run`, which returns its command's."""

    OK = 0
    FAILED = 1
    """It did not work, or `verify` or `doctor` found something."""
    BAD_INPUT = 2
    """Wrong usage, configuration, scenario, name or message."""
    NO_AGENT = 3
    """Nobody answers at the control socket."""


class HostccError(Exception):
    """Something failed for a reason that fits in one line; never shown as a traceback."""

    exit_status: Exit = Exit.FAILED

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class InputError(HostccError):
    """Input was refused: `WHERE: key.path: expected X, got Y`."""

    exit_status = Exit.BAD_INPUT


class NoAgentError(HostccError):
    """No agent answers at the control socket."""

    exit_status = Exit.NO_AGENT


def one_line(text: str) -> str:
    """`text` without line breaks and control characters, so that it stays one line in a log."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
