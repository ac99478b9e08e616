"""The nouns of the agent: frozen, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import fsum

Value = bool | int | float | str | Mapping[str, bool | int | float | str | None] | None
"""What a Change says that something was, or becomes: fit for JSON, readable."""


@dataclass(frozen=True)
class Place:
    """What a journal says of where a change is.  Numbers of namespaces are used again."""

    net: int
    """Inode of the network namespace."""
    cookie: int = 0
    """The kernel's other number for it, never used again before the next boot; 0: not told."""
    mnt: int = 0
    """Inode of the mount namespace."""
    folder: tuple[int, int] | None = None
    """Device and inode of the directory that the target is in; None: it is in none."""

    def is_network(self, other: Place) -> bool:
        """Whether both are in one network namespace, as far as their numbers tell."""
        same = self.net == other.net
        return same and (self.cookie == other.cookie or not self.cookie or not other.cookie)


@dataclass(frozen=True)
class Change:
    """One reversible edit of this host."""

    id: str
    """Stable: the same edit has the same identifier in every run and in a dry run."""
    what: str
    """Kind of edit: "job-cgroup", "job-attach", "sockets" ... (docs/control.md lists them)."""
    target: str
    """What is edited: a path, a job, a congestion control."""
    before: Value
    after: Value
    why: str
    undo: str
    """How to undo it, for a person."""
    at: float = 0.0
    """Seconds since the epoch; 0 while it is only planned."""
    place: Place | None = None
    """Where it is; None while it is only planned, and in a journal of an older version."""


@dataclass(frozen=True)
class Note:
    """Something that the agent saw and leaves alone, such as an administrator's own edit."""

    at: float
    """Seconds since the epoch."""
    target: str
    text: str


@dataclass(frozen=True)
class Difference:
    """A change that is no longer in force, as `verify` reports it."""

    id: str
    """Of the change."""
    target: str
    """What was changed."""
    expected: str
    """How the agent left it."""
    found: str
    """How it is."""


class SizeClass(StrEnum):
    """Whether a flow is worth a path of its own."""

    ELEPHANT = "elephant"
    MOUSE = "mouse"


@dataclass(frozen=True, slots=True)
class JobProfile:
    """What one job does in an iteration: measured by one host, or merged over all of them."""

    job: str
    compute_s: float
    """Seconds that the GPUs compute in an iteration."""
    comm_start_s: float
    """Seconds from the start of an iteration to its communication, at most compute_s: the
    rest of the computation overlaps with the communication."""
    work: float
    """W: FLOP of an iteration, summed over the job's GPUs; 0: unknown."""
    gpus: float
    host: str = ""
    """Who measured; empty: merged over all hosts."""
    period_s: float = 0.0
    """Seconds from one iteration to the next, as measured; 0: unknown."""
    comm_s: float = 0.0
    """t: the longest time that any one link needs for the job's traffic of an iteration, alone, or
    that its hosts took while no rival sent; 0: unknown, follows from bytes and capacities."""
    bytes_to: tuple[tuple[str, float], ...] = ()
    """(Destination, bytes per iteration)."""
    weight: float = 1.0
    """Its owner's wish: how much its slow-down counts beside the others'."""
    slowdown: float = 1.0
    """Recent iteration time over the time alone; at least 1."""
    phase_s: float | None = None
    """When an iteration of it started, on the clock that the members share, modulo period_s; None:
    unknown, as in what hosts agree on, because it drifts."""
    confidence: float = 1.0
    """0: a guess, 1: measured over many iterations."""
    at: float = 0.0
    """When it was measured, seconds since the epoch."""
    assumed: str = ""
    """How `work` is assumed, in words; empty: it is measured or declared on every host."""
    assumed_flop_per_s: float = 0.0
    """FLOP/s that the job's GPUs are assumed to reach while they compute, where `work` is unknown;
    0: they are unknown too."""
    recalled: bool = False
    """Whether it is what was measured when the job ran before, and not this time."""

    @property
    def tx_bytes(self) -> float:
        """That the job sends in an iteration, to all destinations."""
        return fsum(size for _, size in self.bytes_to)


@dataclass(frozen=True)
class BoundaryHint:
    """How the kernel recognises where a job's iterations end on this host; from its profile."""

    period_s: float
    """From one iteration to the next, seconds."""
    silence_s: float
    """Longer than silences within an iteration, shorter than those between two, seconds."""
    pause_s: float
    """A silence of at least this ends an iteration whose bytes are sent; at most `silence_s`."""
    bytes: float
    """That this host sends in an iteration."""
    margin_bytes: float
    """What has been sent when an iteration ends differs from `bytes` by less; 0: not known so
    well, or no more than at other silences."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One connection or queue pair of a job."""

    id: str
    """The same on every host."""
    job: str
    src: str
    dst: str
    bytes: float
    """Per iteration of its job."""
    size: SizeClass = SizeClass.ELEPHANT
    protocol: str = "tcp"
    src_port: int = 0
    dst_port: int = 0
    path: str = ""
    """Id of the path that it is on, in the table of (src, dst); empty: unknown."""


@dataclass(frozen=True, slots=True)
class Path:
    """One way through the fabric."""

    id: str
    links: tuple[str, ...]
    """Directed links in the order of the hops; empty: both ends are on one host."""
    ports: tuple[int, ...] = ()
    """Source ports that reach it."""


@dataclass(frozen=True, slots=True)
class PathTable:
    """The paths from one host (or ToR) to another."""

    src: str
    dst: str
    paths: tuple[Path, ...]
    probed_at: float = 0.0
    """Seconds since the epoch."""


@dataclass(frozen=True)
class ClusterView:
    """One snapshot of the cluster; hosts that agree hold the same.

    Nothing depends on the order of its parts: they are sets, kept as tuples.
    """

    jobs: tuple[JobProfile, ...] = ()
    """One per job, merged over hosts: W summed, t the maximum over links."""
    flows: tuple[Flow, ...] = ()
    tables: tuple[PathTable, ...] = ()
    links: tuple[tuple[str, float], ...] = ()
    """(Directed link, bytes per second)."""
    members: tuple[str, ...] = ()
    """Hosts that take part."""
    digest: str = ""
    """Names the content; equal digests mean equal plans."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What is decided for one job."""

    job: str
    """Its name."""
    rank: int
    """0 is the most important of its component (schedule/coupling.py)."""
    level: int
    """Of the network's priority levels, 0 the highest."""
    priority: float
    """The figure that the algorithm orders by, where it has one: Crux's P = k I, or I = W/t."""
    shift_s: float = 0.0
    """Seconds to delay the start of its communication phases by."""
    parameters: tuple[tuple[str, float], ...] = ()
    """Congestion-control parameters by name; those not named stay as they are."""
    reason: str = ""
    """For a person."""


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """Which path one flow takes."""

    flow: str
    """Id of the flow, the same on every host."""
    path: str
    """Id in the table of the flow's (src, dst)."""


@dataclass(frozen=True)
class Plan:
    """What every host does from now on: a pure function of a ClusterView."""

    digest: str
    """Of the view that it came from."""
    jobs: tuple[JobPlan, ...] = ()
    """By job id."""
    flows: tuple[FlowPlan, ...] = ()
    """Elephants with a path table, by flow id."""
    reason: str = ""
    """What was done and why, for a person."""
