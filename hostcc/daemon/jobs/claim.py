"""A process's wish to be part of a job."""

from __future__ import annotations

from typing import NamedTuple

from hostcc.config.sections.job import JobRequest
from hostcc.system.quota import Owner


class Claim(NamedTuple):
    """What `hostcc run` asks for, or discovery has found."""

    job: str
    pid: int
    why: str = "hostcc run"
    wishes: JobRequest = JobRequest()
    owner: Owner = None
    """In whose quota the job counts, if it is new."""


def journal_fields(
    wishes: JobRequest, owner: Owner, *, nested: bool = False
) -> dict[str, float | int | str | None]:
    """Fields that the journal keeps of a job for the next agent."""
    whose = {} if owner is None else {"uid": owner}
    return {**wishes.shown(), **whose, **({"nested": True} if nested else {})}
