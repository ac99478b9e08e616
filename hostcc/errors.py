"""Errors that a person caused or can act on; each carries the exit status it leads to."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses of every hostcc command but `run`, which returns its command's."""

    OK = 0
    FAILED = 1
    """It did not work, there is no such job, or `verify` or `doctor` found something."""
    BAD_INPUT = 2
    """Wrong usage, file, scenario, name or message."""
    NO_AGENT = 3
    """Nobody answers at the control socket."""
    UNRECORDED = 4
    """All is undone, but the journal could not be told all of it."""
    CONFIGURATION = 78
    """The agent's configuration is wrong, and starting it again does not help (EX_CONFIG)."""


class HostccError(Exception):
    """Something failed for a reason that fits in one line; never shown as a traceback."""

    exit_status: Exit = Exit.FAILED
    code: str = "failed"
    """For programs (docs/control.md)."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class InputError(HostccError):
    """Input was refused: `WHERE: key.path: expected X, got Y`."""

    exit_status = Exit.BAD_INPUT
    code = "bad-request"


class ConfigError(InputError):
    """An agent cannot start with its configuration."""

    exit_status = Exit.CONFIGURATION
    code = "configuration"


class UnrecordedError(HostccError):
    """What was to be undone is, and the journal still says that it is not."""

    exit_status = Exit.UNRECORDED
    code = "unrecorded"


class NoAgentError(HostccError):
    """No agent answers at the control socket."""

    exit_status = Exit.NO_AGENT
    code = "no-agent"


class NoJobError(HostccError):
    """There is no job of that name."""

    code = "no-job"


def one_line(text: str) -> str:
    """`text` without line breaks and control characters, so that it stays one line in a log."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
