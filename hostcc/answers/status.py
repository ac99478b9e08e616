"""What `hostcc status` answers: the agent, its parts, the jobs of this host."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from hostcc.answers.fields import (
    JOB_LABEL,
    Bytes,
    Counter,
    Epoch,
    Gauge,
    Label,
    MeanBytes,
    Seconds,
)
from hostcc.answers.gossip import Gossip
from hostcc.answers.parts import Row
from hostcc.answers.plan_status import PlanStatus

STATUS = "hostcc.status/1"


class Loop(Struct, frozen=True, kw_only=True):
    """The agent's own loop ([more](control.md#the-agents-loop))."""

    longest_stall_s: Annotated[
        Seconds | None,
        Gauge(
            "hostcc_agent_loop_longest_stall_seconds",
            "Longest turn of the agent's loop since it started, seconds",
        ),
    ]
    """Longest turn since the agent started; None: not timed."""
    longest_busy_s: Annotated[
        Seconds | None,
        Gauge(
            "hostcc_agent_loop_longest_busy_seconds",
            "Longest turn of the loop while it had a processor, seconds",
        ),
    ] = None
    """The same without the time that it waited for a processor; None: not timed."""
    failing: dict[str, str]
    """Piece of its tick (`heartbeat`, `watchdog`, `sweep`, `events` or `check`) to the reason why
    it failed at its last turn."""
    failures: Annotated[
        int,
        Counter(
            "hostcc_agent_failures", "Failures of the agent's tick, and of what nobody waited for"
        ),
    ] = 0
    """Failures of the tick so far, and of what nobody waited for."""


class JobSlots(Struct, frozen=True, kw_only=True):
    """Job slots, and the [quota](discovery.md#quotas-per-user)."""

    total: int
    """How many there are."""
    used: int
    """How many are taken."""
    root: int
    """How many of these root has."""
    per_uid: int
    """How many one user gets."""
    for_root: int
    """How many are kept for root."""


class AgentStatus(Struct, frozen=True, kw_only=True):
    """The agent."""

    version: str
    """Of its hostcc."""
    pid: int
    """Of its main process."""
    instance: str
    """Its name among agents on one machine."""
    state: str
    """`active` or `observing`."""
    reason: str | None
    """Why it only observes; None while it acts."""
    mode: str
    """How jobs share: `off`, `mltcp` or `static`."""
    held: str | None = None
    """Who has turned it off across restarts and boots, and since when; None: nobody."""
    uptime_s: Seconds
    """Since it started."""
    config: str | None = None
    """File of its configuration; None: defaults."""
    run_dir: str = ""
    """Directory of its journal."""
    cgroup_root: str | None = None
    """The cgroup below which jobs' cgroups are; None while observing."""
    default_congestion_control: str
    """Of the agent's network namespace."""
    congestion_controls: dict[str, str] = {}
    """Variant to registered name."""
    slots: JobSlots | None = None
    """Job slots; None while observing."""
    cpu_s: Annotated[Seconds, Counter("hostcc_agent_cpu_seconds", "CPU time of the agent")]
    """Processor time that it has used."""
    resident_bytes: Annotated[Bytes, Gauge("hostcc_agent_resident_bytes", "Resident memory")]
    """Resident memory."""
    differences: Annotated[
        int,
        Gauge("hostcc_verify_differences", "Changes that others edited, at the last check"),
    ] = 0
    """Changes that were no longer in force at the last check of the agent's own; `hostcc verify`
    names them."""
    loop: Loop
    """Its own loop."""


class Recent(Struct, frozen=True):
    """At most 128 intervals between ends of iterations, after the job's start-up."""

    iterations: int
    """Intervals that moved about one iteration's bytes: `p99_period_s` is of these."""
    left_out: int
    """The other intervals: an end was missed, or seen too early."""
    mean_period_s: Seconds | None
    """Mean time of an iteration over all of these intervals, by what was sent in them; as the byte
    meter measured it while there are none, None while that is not sure."""
    p99_period_s: Seconds | None
    """Their 99th percentile; None while there are none."""


class JobStatus(Struct, frozen=True, kw_only=True):
    """One job of this host."""

    name: Annotated[str, Label(JOB_LABEL)]
    """Of the job."""
    mode: str
    """How it shares: `off`, `mltcp` or `static`."""
    variant: str
    """Of the congestion control."""
    congestion_control: str | None
    """Registered name of its congestion control; None in mode off."""
    weight: Annotated[float, Gauge("hostcc_job_weight", "The owner's weight")]
    """Its owner's weight."""
    static_weight: float | None
    """Its weight in static mode; None in other modes."""
    profiling: bool = False
    """Whether it has the profiling turn."""
    processes: Annotated[int, Gauge("hostcc_job_processes", "Processes in the job's cgroup")]
    """Processes in its cgroup."""
    flows: Annotated[int | None, Gauge("hostcc_job_flows", "Open connections")]
    """Open connections; None in mode off, where only `hostcc flows` knows."""
    bytes_acked: Annotated[Bytes | None, Counter("hostcc_job_bytes_acked", "Bytes acknowledged")]
    """Acknowledged since it appeared; None in mode off."""
    iterations: Annotated[int, Counter("hostcc_job_iterations", "Iterations seen")]
    """Ends that the congestion control took for an iteration's."""
    bytes_per_iteration: Bytes | None
    """Learned or given; None before."""
    period_s: Annotated[
        Seconds | None,
        Gauge("hostcc_job_period_seconds", "Last iteration, start to start, seconds"),
    ]
    """Last iteration, start to start; None before."""
    communication_s: Annotated[
        Seconds | None,
        Gauge(
            "hostcc_job_communication_seconds",
            "Communication time of the last iteration, seconds",
        ),
    ]
    """Communication time of the last iteration; None before."""
    best_communication_s: Seconds | None = None
    """Shortest communication time of late; None before."""
    yielded_s: Annotated[
        Seconds,
        Gauge("hostcc_job_yielded_seconds", "Time spent yielding in this iteration, seconds"),
    ] = 0.0
    """Time that it has yielded in this iteration."""
    stance: str
    """`learning`: no trusted iteration yet, plain; `scaled`: periodic, scaled by F; `plain`:
    yielding did not pay, tried again later."""
    direction: str
    """`one-way`; `two-way`: it receives while it sends; `unknown`: what it receives is not
    counted."""
    plain_reason: str | None
    """Why its sockets ran the plain algorithm at the last acknowledgement
    ([reasons](internals/mltcp.md#reasons-for-the-plain-algorithm)); None when they did not."""
    recent: Recent
    """Its iterations of late."""
    iterations_by_bytes: int | None
    """Iterations that it has made by what it sent; None while its bytes of an iteration are not
    known."""
    alone_s: Annotated[
        Seconds | None,
        Gauge("hostcc_job_alone_seconds", "Estimated iteration time without contention, seconds"),
    ] = None
    """Estimated iteration time without contention; None: unknown
    ([more](look.md#the-time-alone-and-the-gain))."""
    alone_how: str | None = None
    """How that was found."""
    off_s: Seconds | None = None
    """Mean iteration time in the last period of mode off; None: there was none of late."""
    off_iterations: int | None = None
    """Iterations that this is of."""
    gain: float | None = None
    """What hostcc gains it, as `gain_over` says; None: unknown."""
    gain_over: str | None = None
    """`off`: `off_s` over the present mean iteration time; `alone`: `alone_s` over it, 1 at
    best."""


class Destination(Struct, frozen=True, kw_only=True):
    """Paths from this host to one address."""

    src: str
    """Own address."""
    dst: str
    """The other one."""
    dst_port: int = 0
    """Port that the paths are of."""
    paths: int
    """How many paths are known."""
    ports: int = 0
    """How many source ports lead to them."""
    confidence: float
    """0 to 1."""
    age_s: Seconds | None
    """Since it was confirmed; None: it never was."""
    reason: str | None
    """Why nothing is known, or what makes it doubtful."""


class LargeFlow(Struct, frozen=True, kw_only=True):
    """One flow that is worth a path."""

    id: str = ""
    """The same on every host."""
    job: str
    """Whose it is."""
    local: str
    """ADDRESS:PORT."""
    remote: str
    """ADDRESS:PORT."""
    host: str = ""
    """Member of the gossip at its other end."""
    bytes_per_iteration: MeanBytes = 0.0
    """Bytes that it sends in an iteration of its job."""
    path: str | None = None
    """Id of the path that it is on; None: unknown."""
    wire_port: int = 0
    """Source port that switches see."""
    state: str
    """`planned`, `moving`, `ecmp`, or `elsewhere`: on the path of a plan that no longer names
    it."""
    reason: str | None
    """Why it is not on its planned path."""


class Routing(Struct, frozen=True, kw_only=True):
    """Paths, and the flows that are worth one ([steering.md](internals/steering.md)); at most
    1,000 of
    each."""

    destinations: tuple[Destination, ...]
    """Where paths are looked for."""
    flows: tuple[LargeFlow, ...]
    """Flows that are worth a path."""


class Note(Struct, frozen=True):
    """Something that the agent saw and leaves alone."""

    at: Epoch
    """When."""
    target: str
    """What it is about."""
    text: str
    """What was seen."""


class Status(Struct, frozen=True, kw_only=True):
    """Figures of the agent and of every job."""

    schema: str = STATUS
    """Names this form."""
    agent: AgentStatus
    """The agent itself."""
    gossip: Gossip | None = None
    """None while this host does not take part ([gossip.md](internals/gossip.md))."""
    plan: PlanStatus | None = None
    """None while this host follows none by its configuration
    ([planning.md](internals/planning.md))."""
    routing: Routing | None = None
    """None while no paths are looked for."""
    parts: tuple[Row, ...] = ()
    """One for each part of the agent beside the engine: `name`, `state`, `reason` and, while it
    runs, figures of its own (below)."""
    jobs: tuple[JobStatus, ...]
    """By name."""
    notes: tuple[Note, ...]
    """The latest ten."""
