"""Errors that a person caused or can act on, each with its exit status."""

from __future__ import annotations

import errno
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""A disk that is full or broken, which the output goes to."""


class Exit(IntEnum):
    """Exit statuses of every hostcc command but `run`, which returns that of its command."""

    OK = 0
    FAILED = 1
    """It did not work, there is no such job, or `verify` or `doctor` found something."""
    BAD_INPUT = 2
    """Invalid usage, file, scenario, name or message."""
    NO_AGENT = 3
    """No agent answers at the control socket."""
    UNRECORDED = 4
    """Everything is undone, but the journal could not be updated completely."""
    CONFIGURATION = 78
    """The agent's configuration is invalid; restarting does not help (EX_CONFIG)."""


class HostccError(Exception):
    """A failure whose reason fits in one line; never shown with a traceback."""

    exit_status: Exit = Exit.FAILED
    code: str = "failed"
    """For programs (docs/control.md)."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class InputError(HostccError):
    """Invalid input: `WHERE: key.path: expected X, got Y`."""

    exit_status = Exit.BAD_INPUT
    code = "bad-request"


class ConfigError(InputError):
    """The agent cannot start with its configuration."""

    exit_status = Exit.CONFIGURATION
    code = "configuration"


class UnrecordedError(HostccError):
    """Changes were undone, but the journal still lists them."""

    exit_status = Exit.UNRECORDED
    code = "unrecorded"


class NoAgentError(HostccError):
    """No agent answers at the control socket."""

    exit_status = Exit.NO_AGENT
    code = "no-agent"


class DeniedError(HostccError):
    """Whoever asks may not have this."""

    code = "denied"


class NoJobError(HostccError):
    """There is no job of that name."""

    code = "no-job"


def unwritten(
    path: Path, error: Exception, expected: str = "a file that can be written"
) -> HostccError:
    """Return the error for a file that could not be written: a wrong name is input, a full disk is
    not."""
    reason = getattr(error, "strerror", None) or str(error)
    if getattr(error, "errno", None) in UNWRITABLE:
        return HostccError(f"{path}: cannot be written: {reason}")
    return InputError(f"{path}: expected {expected}, got: {reason}")


def one_line(text: str) -> str:
    """Return `text` with line breaks and control characters escaped, so that it is one line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
