"""The file in which an agent keeps what it learned of jobs, for the next agent of its host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from hostcc.daemon.profiling.remembered import MAX_REMEMBERED, RememberedJob
from hostcc.errors import InputError
from hostcc.system import whole_file
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
    raw = whole_file.read(path, MAX_BYTES)
    if raw is None:
        return []
    try:
        return _DECODER.decode(raw).jobs
    except UNDECODABLE as error:
        raise InputError(f"{path}: expected remembered jobs, got: {error}") from None


def write(path: Path, jobs: Sequence[RememberedJob]) -> None:
    """Replace the file at once by one of these jobs.  Raises OSError and leaves the old one."""
    whole_file.replace(path, msgspec.json.encode(_Content(FORM, list(jobs))))
