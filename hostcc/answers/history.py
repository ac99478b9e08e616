"""What an agent answers about the last hour: `hostcc report`, `hostcc top`."""

from __future__ import annotations

from msgspec import Struct

from hostcc.answers.fields import BytesPerSecond, Epoch, Seconds

HISTORY = "hostcc.history/1"


class JobHistory(Struct, frozen=True, kw_only=True):
    """One job; also one that has ended meanwhile."""

    name: str
    """Of the job."""
    sent: list[BytesPerSecond | None]
    """Mean rate at which this host sent in each step, the oldest first; None: unknown."""
    iteration_s: list[Seconds | None]
    """Mean time of the iterations that ended in each step; None: none did, or it is unknown."""


class ModeChange(Struct, frozen=True):
    """When jobs began to share in another way."""

    at: Epoch
    """When."""
    mode: str
    """`off`, `mltcp` or `static`."""


class History(Struct, frozen=True, kw_only=True):
    """What jobs of this host did lately, step by step."""

    schema: str = HISTORY
    """Names this form."""
    step_s: Seconds
    """Length of a step."""
    end: Epoch
    """When the last step ended."""
    total: int
    """Jobs that are remembered."""
    jobs: list[JobHistory]
    """The first `limit` of them, by name; with `job` that one."""
    modes: list[ModeChange]
    """The latest changes of the mode, at most 32."""
