"""What the status says of each part of the agent: a row of `parts`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct, ValidationError, convert

from hostcc.answers.fields import (
    JOB_LABEL,
    Bytes,
    BytesPerSecond,
    Counter,
    Gauge,
    Label,
    Seconds,
)


class Part(Struct, frozen=True, kw_only=True):
    """Name and state of a part. One that fails is tried again after 2 s to 5 min; nothing else
    depends on it."""

    name: str = ""
    """Of the part."""
    state: str = ""
    """`running`, `off` or `failed`."""
    reason: str | None = None
    """Why it does not run, or what it cannot find out."""


class RefusedClaims(Struct, frozen=True, kw_only=True):
    """Claims of one user over the [quota](discovery.md#quotas-per-user)."""

    uid: int = 0
    """The user."""
    claims: int = 0
    """How many were refused."""
    why: str = ""
    """Which quota has no room."""


class DiscoveryPart(Part, frozen=True, kw_only=True):
    """`discovery`: jobs that nobody started with `hostcc run`."""

    found: int = 0
    """Jobs that are found."""
    complete: bool = False
    """Whether all processes could be looked at."""
    look_s: Seconds = 0.0
    """Processor time of the latest look."""
    unmanaged: dict[str, str] = {}
    """Job to the reason why it gets no congestion control."""
    refused: list[RefusedClaims] = []
    """Refused claims, of the first 16 users."""
    claims_refused: Annotated[
        int | None,
        Gauge("hostcc_claims_refused", "Jobs claimed by processes that no quota has room for"),
    ] = None
    """Refused claims of all users."""
    waiting: int = 0
    """Processes that are not registered yet."""


class GpuPart(Part, frozen=True, kw_only=True):
    """`gpu`: work on GPUs."""

    gpus: int = 0
    """GPUs that are read."""


class MarksPart(Part, frozen=True, kw_only=True):
    """`marks`: iteration marks of jobs."""

    socket: str = ""
    """Where it listens."""
    senders: int = 0
    """Processes that have sent some."""
    refused: int = 0
    """Messages that were not taken."""
    over_quota: Annotated[
        int | None,
        Counter("hostcc_marks_over_quota", "Messages of processes that no quota lets send marks"),
    ] = None
    """Of these messages, those over the quota."""


class RdmaPart(Part, frozen=True, kw_only=True):
    """`rdma`: bytes of RDMA jobs."""

    ports: int = 0
    """Ports whose bytes are counted."""
    by_shim: list[str] = []
    """Jobs whose bytes are counted by the transport shim, queue pair by queue pair."""
    unknown: dict[str, str] = {}
    """Port to the reason why nothing is known of it."""


class MemoryPart(Part, frozen=True, kw_only=True):
    """`memory`: what is remembered of jobs that ran before."""

    jobs: int = 0
    """Jobs that are remembered."""
    recalled: Annotated[
        int | None,
        Gauge("hostcc_jobs_recalled", "Jobs planned by what they were like before"),
    ] = None
    """Jobs that are planned by that now, because they are not measured yet."""


class TrafficPart(Part, frozen=True, kw_only=True):
    """`traffic`: the byte meter, and the analysis of jobs."""

    watched: int = 0
    """Jobs that are looked at."""
    lost_bins: int = 0
    """Bins that were not read in time."""
    lost_packets: int = 0
    """Packets that found no bin."""
    profiling: str | None = None
    """The job that has the profiling turn."""
    last_turn_job: str | None = None
    """The job whose turn ended last; None: there was none. What it cost others is in the block
    `plan`."""
    last_turn_s: Seconds | None = None
    """How long that turn lasted; None: there was none."""


class ToldRdma(Struct, frozen=True, kw_only=True, rename={"tclass": "class"}):
    """The entry that the transport shim of a job reads."""

    level: int = 0
    """Priority level."""
    tclass: int | None = None
    """The whole byte; None: as the job has it."""
    ports: str | None = None
    """Source ports by destination; None: as the device likes."""
    links: str | None = None
    """PCIe links at which it takes turns, by device; None: none."""
    rate: BytesPerSecond | None = None
    """At most F times this; None: no bound."""


class QueuePair(Struct, frozen=True, kw_only=True, rename={"tclass": "class"}):
    """One of the largest queue pairs of a job."""

    qpn: int = 0
    """Its number."""
    device: str = ""
    """RDMA device."""
    source: str | None = None
    """Own address."""
    destination: str = ""
    """The other one."""
    port: int | None = None
    """Source port; None: as the device likes."""
    path: str | None = None
    """Id of its path; None: unknown."""
    tclass: int = 0
    """The whole byte that it sends with."""
    bytes: Bytes = 0
    """Sent so far."""
    moves: int = 0
    """Live changes."""
    failed: int = 0
    """Live changes that failed."""
    longest: Bytes | None = None
    """Its longest message; None: none yet, or unknown."""
    elephant: bool = True
    """Whether path and class are for it; false: its messages are short, it stays where it is."""


class RdmaJob(Struct, frozen=True, kw_only=True):
    """The entry of one job, and the counters of its processes."""

    job: str = ""
    """Its name."""
    told: ToldRdma | None = None
    """None: it has no entry."""
    processes: int = 0
    """Processes with the shim."""
    queue_pairs: int = 0
    """That these have."""
    short: int = 0
    """Of these, how many sent short messages only, and stay where they are."""
    bytes: Bytes = 0
    """Sent so far."""
    iterations: int = 0
    """Iterations so far."""
    moves: int = 0
    """Live changes."""
    failed: int = 0
    """Live changes that failed."""
    left_alone: int = 0
    """Queue pairs that the shim had no room for."""
    largest: list[QueuePair] = []
    """Its largest queue pairs."""
    elsewhere: dict[str, str] = {}
    """Destination to the reason why queue pairs there are not on the planned path."""


class RdmaPlanPart(Part, frozen=True, kw_only=True):
    """`rdma-plan`: what jobs with the [transport shim](internals/shim.md) are given."""

    rdma: list[RdmaJob] = []
    """One for each job."""
    unknown: dict[str, str] = {}
    """Ends of a path to the reason why nothing is known of it."""
    prepared: int = 0
    """Failures for which other paths are prepared."""
    ahead: int = 0
    """Routes (job, device, own address, destination) that have such a path, ahead of a plan."""
    moved: Annotated[
        int | None,
        Counter("hostcc_queue_pairs_moved", "Live moves of queue pairs that came about"),
    ] = None
    """Live changes of path or class that came about."""
    fell_back: Annotated[
        int | None,
        Counter(
            "hostcc_queue_pairs_fell_back",
            "Routes of queue pairs that went back to the path that they had",
        ),
    ] = None
    """Routes that went back to the path that they had, because they fared badly."""


class SharedLink(Struct, frozen=True, kw_only=True):
    """A PCIe link at which jobs take turns."""

    link: str = ""
    """Its device."""
    jobs: list[str] = []
    """Jobs that share it."""
    participants: int = 0
    """Processes that take turns."""
    handovers: int = 0
    """Turns so far."""
    rescues: int = 0
    """Turns taken from processes that were dead or silent."""
    given_up: int = 0
    """Processes that went ahead after their patience."""
    utilisation: float | None = None
    """0 to 1; None: unknown."""
    contended: bool | None = None
    """Whether jobs slow each other down there; None: unknown."""


class PciePart(Part, frozen=True, kw_only=True):
    """`pcie`: turns at PCIe links."""

    shared_links: list[SharedLink] = []
    """Links that several jobs use."""


class DcqcnPart(Part, frozen=True, kw_only=True):
    """`dcqcn`: rate-increase parameters of RoCE NICs."""

    ports: int = 0
    """Ports that there are."""
    set: dict[str, int | None] = {}
    """Parameter to the value that it has."""
    left_alone: dict[str, str] = {}
    """Port to the reason why it is left alone."""


class TelemetryPart(Part, frozen=True, kw_only=True):
    """`telemetry`: records of switches."""

    socket: str = ""
    """Where it listens."""
    records: int = 0
    """Records that are kept."""
    refused: int = 0
    """Lines that were not taken."""


class PathsPart(Part, frozen=True, kw_only=True):
    """`paths`: looking for paths."""

    looks: int = 0
    """Looks so far."""
    failed: int = 0
    """Looks that failed."""
    hints: int = 0
    """Reasons to doubt what is known."""
    untold: dict[str, str] = {}
    """Record to the reason why the others would not take it."""


class SteeringPart(Part, frozen=True, kw_only=True):
    """`steering`: moving flows between paths."""

    devices: list[str] = []
    """Network devices that have programs."""
    on_planned_paths: int = 0
    """Flows on the path of the plan."""
    on_ecmp: int = 0
    """Flows where switches put them."""
    moving: int = 0
    """Flows that are being moved."""
    waiting: int = 0
    """Moves that wait for their job's pause."""
    elsewhere: int = 0
    """Flows on the path of a plan that no longer names it."""
    translated: int = 0
    """Flows that arrive rewritten."""
    new_connections: dict[str, int] = {}
    """Connections that got a port of the planned path when they were opened (`bound`), and those
    that did not (`left`)."""
    prepared: int = 0
    """Flows for which a path is prepared, should theirs fail."""
    ahead: int = 0
    """Flows that were moved so, ahead of a plan."""
    strays: dict[str, int] = {}
    """Packets that fit no moved flow and ended none: `resets` and `syns`; `over`, fitting resets
    above 1,024 a second."""
    move_s: dict[str, Seconds] = {}
    """`p50` and `p99` of the time from a decision until the flow left with its new port, of the
    latest 1,000 moves; empty before the first."""
    moved: Annotated[
        int | None,
        Counter("hostcc_flows_moved", "Moves of flows to another path that came about"),
    ] = None
    """Moves that came about."""
    fell_back: Annotated[
        int | None,
        Counter("hostcc_flows_fell_back", "Flows that went back to ECMP because they fared badly"),
    ] = None
    """Flows that went back to ECMP because they got slower."""
    refused: Annotated[
        int | None, Counter("hostcc_flows_refused", "Moves that did not come about")
    ] = None
    """Moves that did not come about."""
    goodbyes: int = 0
    """Flows whose translation a peer has taken back."""


class EgressPart(Part, frozen=True, kw_only=True):
    """`egress`: queues by level."""

    devices: list[str] = []
    """Devices with queues by level."""
    left_alone: dict[str, str] = {}
    """Device to the reason why it has none."""


class MarkingPart(Part, frozen=True, kw_only=True):
    """`marking`: DSCP by level."""

    dscp: dict[str, int] = {}
    """Job to DSCP."""
    held: dict[str, dict[str, float]] = {}
    """Job to pace and bound of its window."""
    left_alone: int = 0
    """Connections that their applications have marked."""
    failed: int = 0
    """Connections that could not be marked."""


class GatedJob(Struct, frozen=True, kw_only=True):
    """A job, with whom it takes turns, and for how long it was held."""

    job: Annotated[str, Label(JOB_LABEL)] = ""
    """Its name."""
    rdma: bool = False
    """Whether its queue pairs are held, by the shim; else its connections are."""
    rivals: list[str] = []
    """Jobs that it waits for, and that wait for it."""
    reason: str | None = None
    """Why it takes no turns, or does not wait at present; None: it does, or meets no other job."""
    turns_for_s: Seconds | None = None
    """For how long it has taken turns; None: it takes none."""
    turns_waited: Annotated[
        int, Counter("hostcc_job_turns_waited", "Bursts that waited for another job")
    ] = 0
    """Its bursts that waited."""
    held_s: Annotated[
        Seconds, Counter("hostcc_job_held_seconds", "Time for which bursts waited, seconds")
    ] = 0.0
    """For how long they waited in all."""
    held_per_iteration_s: Seconds | None = None
    """The same by iteration; None before the first."""


class GatesPart(Part, frozen=True, kw_only=True):
    """`gates`: jobs that share a link send one after the other
    ([shifts.md](internals/shifts.md))."""

    local: bool = False
    """Whether this host alone decides about some of its jobs: no plan knows their paths."""
    gated: list[GatedJob] = []
    """One for each job of this host."""
    held_s: Seconds = 0.0
    """For how long jobs of this host waited in all, those that have ended among them."""
    turns_waited: int = 0
    """How many of their bursts waited."""


class ComparePart(Part, frozen=True, kw_only=True):
    """`compare`: a mode that `hostcc compare` has borrowed."""

    mode: str | None = None
    """Which one; null: none is borrowed."""
    by: str | None = None
    """Who compares."""


PARTS: dict[str, type[Part]] = {
    "discovery": DiscoveryPart,
    "gpu": GpuPart,
    "marks": MarksPart,
    "rdma": RdmaPart,
    "memory": MemoryPart,
    "traffic": TrafficPart,
    "rdma-plan": RdmaPlanPart,
    "pcie": PciePart,
    "dcqcn": DcqcnPart,
    "telemetry": TelemetryPart,
    "paths": PathsPart,
    "steering": SteeringPart,
    "egress": EgressPart,
    "marking": MarkingPart,
    "gates": GatesPart,
    "compare": ComparePart,
}
"""Name of a part to its figures; a part that is not here has none."""


if TYPE_CHECKING:
    Row = Part | dict[str, Any]
    """As the agent makes it, or as it comes over the socket."""
else:
    Row = dict[str, Any]  # read by msgspec, which cannot tell the two apart


def part_of(row: Row) -> Part:
    """A row of `parts`, with its figures if they are as declared; those of an agent of another
    version may not be, and an archive of an agent's answers may have anything."""
    if isinstance(row, Part):
        return row
    for kind in (PARTS.get(str(row.get("name")), Part), Part):
        with suppress(ValidationError):
            return convert(row, kind)
    return Part()
