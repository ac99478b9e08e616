"""The file in which an agent keeps what it learned of jobs, for the next agent of its host."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from hostcc.daemon.profiling.remembered import MAX_REMEMBERED, RememberedJob
from hostcc.errors import InputError
from hostcc.system import ownership
from hostcc.system.input_file import read_from
from hostcc.system.validate import UNDECODABLE

NAME = "remembered-jobs.json"
"""In the agent's run_dir."""
MAX_BYTES = 8 << 20
"""Of the file: more than the most jobs with the most destinations take."""
FORM: Literal["hostcc.remembered/1"] = "hostcc.remembered/1"


class _Content(Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal["hostcc.remembered/1"]
    jobs: Annotated[list[RememberedJob], Meta(max_length=MAX_REMEMBERED)]
    """The newest last."""


_DECODER = msgspec.json.Decoder(_Content)


def read(path: Path) -> list[RememberedJob]:
    """Return the jobs of a file, the newest last; none where there is no file.

    Raises InputError, which names it, unless it is a regular file that is root's or ours, that
    nobody else can change, and that is as `write` leaves it.
    """
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise InputError(f"{path}: expected a regular file")
            ownership.check_owner(path, facts, 0o022)
            raw = read_from(file, str(path), MAX_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path}: expected a readable file, got: {error.strerror}") from None
    try:
        return _DECODER.decode(raw).jobs
    except UNDECODABLE as error:
        raise InputError(f"{path}: expected remembered jobs, got: {error}") from None


def write(path: Path, jobs: Sequence[RememberedJob]) -> None:
    """Replace the file at once by one of these jobs.  Raises OSError and leaves the old one."""
    raw = msgspec.json.encode(_Content(FORM, list(jobs)))
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
