"""What `hostcc jobs` and `hostcc profile` answer: what jobs were given, and what was measured."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from hostcc.answers.fields import (
    BitsPerSecond,
    Bytes,
    BytesPerSecond,
    Counter,
    Flop,
    FlopPerSecond,
    Gauge,
    MeanBytes,
    Microseconds,
    Seconds,
)

JOBS, PROFILE = "hostcc.jobs/1", "hostcc.profile/1"


class Parameters(Struct, frozen=True, kw_only=True):
    """A job's congestion-control parameters."""

    variant: str
    """Of the congestion control."""
    mode: str
    """How it shares: `off`, `mltcp` or `static`."""
    ratio_scope: str
    """What bytes_ratio is of: `job` or `flow`."""
    shape: str
    """Of F: `linear`, `exponential` or `table`."""
    slope: float
    """Of F."""
    intercept: float
    """Of F."""
    table: list[float]
    """Values of F from bytes_ratio 0 to 1; empty unless `shape` is `table`."""
    weight: float
    """With what the plan makes of it."""
    static_weight: float
    """In mode static."""
    bytes_per_iteration: Bytes | None
    """None: learned."""
    silence_us: Microseconds | None = None
    """Silence that ends an iteration; None: learned."""
    delay_target_min_us: Microseconds | None = None
    """Queueing delay above which a job at the start of its iteration steps back."""
    delay_target_max_us: Microseconds | None = None
    """The same for a job about to finish."""
    plain_weight: float | None = None
    """F of the variant hostcc while the job receives as it sends."""


class JobRow(Struct, frozen=True, kw_only=True):
    """One job: what it was given, and how its sockets are found."""

    name: str
    """Of the job."""
    slot: int | None = None
    """The number by which the kernel knows it; None: it is only measured."""
    cgroup: str | None
    """Path of its cgroup; None: it has none."""
    pids: list[int]
    """Processes in its cgroup."""
    local_ports: list[int | str]
    """Local ports, or ranges of them, that its sockets are found by."""
    remote_ports: list[int | str]
    """Remote ports, or ranges of them, that its sockets are found by."""
    parameters: Parameters | None
    """None while observing, and of jobs that are only measured."""


class Link(Struct, frozen=True, kw_only=True):
    """What one iteration does to one link of this host."""

    name: str
    """Of the link."""
    bits_per_s: BitsPerSecond | None
    """Its speed; None: unknown."""
    tx_bytes: MeanBytes | None
    """Sent in an iteration."""
    rx_bytes: MeanBytes | None
    """Received in an iteration."""
    time_s: Seconds | None
    """That the iteration needs on it, alone."""
    nominal: bool | UnsetType = UNSET
    """Nothing enforces that speed; not in an `analysis`."""


class Analysis(Struct, frozen=True, kw_only=True):
    """What a series of bytes shows. What is unknown is None."""

    periodic: bool
    """Whether it repeats itself."""
    reason: str
    """Why it is taken to, or not."""
    confidence: Annotated[
        float,
        Gauge(
            "hostcc_profile_confidence",
            "How sure the measured period is, 0 to 1; 0: not periodic",
        ),
    ]
    """How sure that is, 0 to 1."""
    period_s: Annotated[
        Seconds | None,
        Gauge("hostcc_profile_iteration_seconds", "Measured length of a typical iteration"),
    ]
    """A typical iteration, start to start."""
    mean_period_s: Seconds | None
    """The mean, with stragglers."""
    spread: float | None
    """Half of the iterations are within this fraction of the period."""
    irregular: bool
    """`confidence` is that of the mean."""
    bytes_per_iteration: Annotated[
        MeanBytes | None,
        Gauge(
            "hostcc_profile_iteration_bytes",
            "Sent and received in an iteration, without the background",
        ),
    ]
    """Sent and received in an iteration."""
    tx_bytes: MeanBytes | None
    """Sent in an iteration."""
    rx_bytes: MeanBytes | None
    """Received in an iteration."""
    background_bytes_per_s: BytesPerSecond | None
    """What goes on all the time."""
    communication_s: Seconds | None
    """Time that an iteration communicates."""
    communication_start_s: Seconds | None
    """Its beginning, from the start of the iteration."""
    link_time_s: Annotated[
        Seconds | None,
        Gauge(
            "hostcc_profile_communication_seconds",
            "Longest time that an iteration's bytes need on a link, t",
        ),
    ]
    """t: longest time that an iteration's bytes need on a link."""
    bottleneck: str | None
    """The link that t is of."""
    links: list[Link]
    """Links of this host that it uses."""
    overlap: Annotated[
        float | None,
        Gauge(
            "hostcc_profile_overlap_ratio",
            "Share of the communication that is hidden under computing",
        ),
    ]
    """Share of the communication that is hidden under computing, 0 to 1."""
    overlap_reason: str | None
    """Why that is unknown."""
    flop: Annotated[
        Flop | None, Gauge("hostcc_profile_work_flop", "FLOP of an iteration on this host, W")
    ]
    """W: work of an iteration on this host."""
    intensity: Annotated[
        FlopPerSecond | None,
        Gauge("hostcc_profile_intensity", "GPU intensity W/t, FLOP per second of communication"),
    ]
    """W / t."""


class ProfileFigures(Analysis, frozen=True, kw_only=True):
    """What was measured of a job."""

    bytes_to: dict[str, float] = {}
    """Destination to bytes sent in an iteration, the most first."""
    flop_source: str | None = None
    """Of W: `declared`, `counters`, `utilisation` or `unknown`."""
    flop_reason: str | None = None
    """Why W is unknown."""
    assumed_flop_per_s: FlopPerSecond | None = None
    """Where W is unknown: assumed while the job computes, unless other hosts of it know theirs."""
    gpus: list[str] = []
    """GPUs that it computes on."""
    slowdown: float = 1.0
    """Over the time while it went first; at least 1."""
    marks: int = 0
    """Iteration marks that are known."""
    changes: Annotated[
        int,
        Counter("hostcc_profile_pattern_changes", "Changes of the pattern that were noticed"),
    ] = 0
    """Changes of its pattern so far."""
    total_tx_bytes: Bytes = 0
    """Sent in all."""
    total_rx_bytes: Bytes = 0
    """Received in all."""


class RememberedFigures(Struct, frozen=True, kw_only=True):
    """What a job was like when it ran before on this host."""

    period_s: Seconds
    """A typical iteration, start to start."""
    tx_bytes: MeanBytes
    """Sent in an iteration."""


class DetailedJob(JobRow, frozen=True, kw_only=True):
    """One job with how it was found and what was measured of it."""

    how: str | None
    """What it was recognised by."""
    weight: float | None
    """Its owner's."""
    managed: bool = False
    """Whether the agent gives it a congestion control."""
    unmanaged_reason: str | None
    """Why not."""
    profiling: bool
    """Whether it has the profiling turn."""
    profile: ProfileFigures | None
    """None: nothing was measured."""
    profile_reason: str | None = None
    """Why nothing was; else None."""
    remembered: RememberedFigures | None = None
    """What it is planned by until it is measured; None: it was not seen before, or is measured."""


class Jobs(Struct, frozen=True, kw_only=True):
    """What every job was given, and where its processes are."""

    schema: str = JOBS
    """Names this form."""
    jobs: list[JobRow]
    """By name, those that are only measured last."""


class DetailedJobs(Struct, frozen=True, kw_only=True):
    """The same with `detail`: also what was measured of them."""

    schema: str = JOBS
    """Names this form."""
    jobs: list[DetailedJob]
    """By name, those that are only measured last."""


class Circle(Struct, frozen=True, kw_only=True):
    """The folded iteration: bytes per second over 128 phases."""

    period_s: Seconds
    """That it is folded by."""
    iterations: int
    """How many lie on each other."""
    mean: list[float]
    """Mean rates."""
    low: list[float]
    """Rates that a tenth of the iterations stays below."""
    median: list[float]
    """Median rates."""
    high: list[float]
    """Rates that a tenth of the iterations is above."""


class RecordedSeries(Struct, frozen=True, kw_only=True):
    """The bins that a profile comes from; arrays are little-endian int64 and float64 in base64."""

    bin_ns: int
    """Length of a bin, nanoseconds."""
    start_ns: int
    """Start of the first one, CLOCK_MONOTONIC, nanoseconds."""
    tx: str
    """Bytes sent, by bin (int64)."""
    rx: str
    """Bytes received, by bin (int64)."""
    links: dict[str, float]
    """Link to its speed, bits/s."""
    flop: Flop | None
    """W: work of an iteration on this host."""
    busy_start_s: str
    """Starts of the intervals of GPU activity, seconds (float64)."""
    busy_end_s: str
    """Their ends, seconds (float64)."""
    busy: str
    """Activity in them, 0 to 1 (float64)."""


class Profile(Struct, frozen=True, kw_only=True):
    """One job with how it was found and what was measured of it."""

    schema: str = PROFILE
    """Names this form."""
    job: str
    """Its name."""
    how: str | None = None
    """What it was recognised by."""
    weight: float | None = None
    """Its owner's."""
    managed: bool = False
    """Whether the agent gives it a congestion control."""
    unmanaged_reason: str | None = None
    """Why not."""
    profiling: bool = False
    """Whether it has the profiling turn."""
    profile: ProfileFigures | None
    """None: nothing was measured."""
    profile_reason: str | None = None
    """Why nothing was; else None."""
    remembered: RememberedFigures | None = None
    """What it is planned by until it is measured; None: it was not seen before, or is measured."""
    circle: Circle | None = None
    """The folded iteration; None without a period."""
    recording: RecordedSeries | None = None
    """Only if the request wants the `series`, and not before the first byte."""
    analysis: Analysis | UnsetType = UNSET
    """What the series alone shows: the command adds it with `--record`, `--plot` and
    `--replay`."""
