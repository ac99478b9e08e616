"""What an agent answers about the changes of its host, and to requests that change something."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from hostcc.answers.fields import Epoch, Seconds
from hostcc.model import Difference, Place

CHANGES, VERIFY = "hostcc.changes/1", "hostcc.verify/1"
REGISTER, JOB = "hostcc.register/1", "hostcc.job/1"
UNFAIR, ROLLBACK = "hostcc.unfair/1", "hostcc.rollback/1"
SHIFTS, BORROW = "hostcc.shifts/1", "hostcc.borrow/1"


class ChangeRow(Struct, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """One reversible edit of the host."""

    at: Epoch
    """When."""
    id: str
    """The same edit has the same id in every run and in a dry run."""
    what: str
    """Kind of edit."""
    target: str
    """What is edited: a path, a job, a congestion control."""
    before: Any = None
    """What it was."""
    after: Any = None
    """What it became."""
    why: str
    """What asked for it."""
    undo: str
    """How to undo it, for a person."""
    place: Place | None = None
    """[Where it is](control.md#undo-from-another-namespace); None: an older version wrote it."""


class Changes(Struct, frozen=True, kw_only=True):
    """The changes in force, and the latest entries of the journal
    ([kinds](control.md#hostccchanges1))."""

    schema: str = CHANGES
    """Names this form."""
    in_force: list[ChangeRow]
    """Changes that were made and not undone."""
    latest: list[dict[str, Any]]
    """Entries of the journal, the oldest first."""


class LeftAlone(Struct, frozen=True):
    """Connections that run what somebody else chose for them; no difference."""

    job: str
    """Whose they are."""
    congestion_control: str
    """What they run."""
    connections: int
    """How many are established."""


class Verification(Struct, frozen=True, kw_only=True):
    """The host compared with the journal."""

    schema: str = VERIFY
    """Names this form."""
    checked: int
    """Changes in force."""
    observing: str | None
    """Why there is nothing to check; None while the agent acts."""
    differences: tuple[Difference, ...]
    """Changes that are not as they were made; with one, the command's exit status is 1. The agent
    records them and stands aside."""
    left_alone: tuple[LeftAlone, ...] = ()
    """Connections that run what somebody else chose for them."""


class Registration(Struct, frozen=True, kw_only=True):
    """Where a command of a job belongs."""

    schema: str = REGISTER
    """Names this form."""
    job: str
    """Its name."""
    cgroup: str
    """Its cgroup, which the command is to enter."""
    joined: bool
    """Whether the agent has moved the asking process there."""
    marks: str | None
    """Socket for [marks](discovery.md#iteration-marks); None: they are not taken."""
    rdma: dict[str, str]
    """Environment for `hostcc run --rdma`; empty: there is nothing to say."""
    marked: bool = False
    """Whether the process stays in this cgroup, because it is part of that job already."""
    refused: dict[str, str] = {}
    """What the administrator does not give to jobs of users (`rdma`, `marks`), and why."""


class JobParameters(Struct, frozen=True, kw_only=True):
    """What `hostcc job` changes."""

    weight: float
    """Weight."""
    bytes_per_iteration: int | None
    """Bytes per iteration."""
    flops: float | None
    """FLOP per iteration."""


class JobChange(Struct, frozen=True, kw_only=True):
    """A job that was given other parameters."""

    schema: str = JOB
    """Names this form."""
    job: str
    """Its whole name."""
    uid: int | None
    """Whose it is; None: root's."""
    weight: float
    """Its weight from now on."""
    bytes_per_iteration: int | None
    """Bytes per iteration, as they are declared; None: learned."""
    flops: float | None
    """FLOP per iteration, as they are declared; None: measured."""
    before: JobParameters
    """The same until now."""


class Sharing(Struct, frozen=True, kw_only=True):
    """How jobs share from now on."""

    schema: str = UNFAIR
    """Names this form."""
    mode: str
    """`off`, `mltcp` or `static`."""
    before: str
    """The mode until now; `nothing`: the agent only observed."""
    jobs: list[str]
    """Jobs whose live connections were moved."""
    unknown: list[str]
    """Names with a weight that are no job here yet; their weights are kept for when they come."""


class Shifting(Struct, frozen=True, kw_only=True):
    """Whether jobs wait for each other from now on."""

    schema: str = SHIFTS
    """Names this form."""
    enabled: bool
    """What was asked for."""
    before: bool
    """What was in force until now."""
    reason: str | None
    """Why no job waits all the same; None: they do, or are not to."""


class Borrowing(Struct, frozen=True, kw_only=True):
    """A way of sharing that a comparison borrows."""

    schema: str = BORROW
    """Names this form."""
    mode: str
    """What is in force now."""
    hosts_told: int
    """Other hosts that were asked to do the same."""
    together: bool
    """Whether the jobs of this host can be made to begin together: gates are on."""
    lease_s: Seconds
    """For how long this lasts, unless it is asked for again."""


class Undone(Struct, frozen=True, kw_only=True):
    """What a roll-back did."""

    schema: str = ROLLBACK
    """Names this form."""
    undone: list[str]
    """Ids of changes that were undone."""
    gone: list[str] = []
    """Ids of changes that went with their network namespace."""
    problems: list[str]
    """What could not be undone, and why; with one, the command's exit status is 1."""
    unrecorded: dict[str, str] = {}
    """Ids of what was undone to the reason why the journal
    [does not say so](control.md#undo); with one, the command's exit status is 4."""
