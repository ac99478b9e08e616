"""What an agent answers about shared links and the cluster: `hostcc links`, part of the status."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from hostcc.answers.fields import BytesPerSecond, Gauge, Label, Seconds

LINKS = "hostcc.links/1"


class LinkJob(Struct, frozen=True):
    """A job on one link."""

    job: str
    """Its name."""
    level: int
    """Its priority level, 0 the highest."""
    load: float
    """Seconds of its traffic at full capacity per second, as if it never waited."""
    period_s: Seconds = 0.0
    """Iteration alone, by the plan."""
    start_s: Seconds = 0.0
    """From its start to its communication."""
    communication_s: Seconds = 0.0
    """Time that it communicates alone, t."""
    share: float = 0.0
    """Part of the link's capacity that it takes meanwhile, 0 to 1."""


class Wait(Struct, frozen=True):
    """A job that may wait for others on a link."""

    job: str
    """Its name."""
    lets_pass: tuple[str, ...]
    """Jobs of higher levels that it cannot send beside."""
    shares_with: tuple[str, ...]
    """Jobs of its own level that it cannot send beside at full speed."""


class Compatibility(Struct, frozen=True, kw_only=True):
    """How well the bursts of a link's jobs fit together ([more](internals/cassini.md)). The
    command adds it
    to what the agent says."""

    score: float | None
    """At the best times to begin: 1 if all bursts find room, else 1 less what is asked for beyond
    the capacity, as a mean fraction of it; None: see `reason`."""
    together: float | None
    """The same if all iterations begin at once."""
    perimeter_s: Seconds | None
    """Common period of the jobs."""
    exact: bool
    """Whether no other times are better."""
    shifts_s: dict[str, float]
    """Job to how much later it begins for that, seconds."""
    reason: str
    """Why there is no score; else empty."""


class LinkRow(Struct, frozen=True, kw_only=True):
    """A link that flows cross by the plan."""

    link: str
    """Its name, as in `hostcc probe`."""
    capacity: BytesPerSecond
    """As the hosts declare it."""
    load: float
    """Seconds of traffic at full capacity per second, as if nobody waited: above 1 it is offered
    more than it carries."""
    full: bool
    """Whether its jobs fill it when they send at the same time, so that one of them waits."""
    jobs: int
    """How many jobs cross it."""
    sharing: tuple[LinkJob, ...]
    """The first 64 of them, by their places in the plan's order."""
    waits: tuple[Wait, ...] | UnsetType = UNSET
    """Who may wait for whom; the command adds it."""
    compatibility: Compatibility | UnsetType = UNSET
    """Of the jobs in `sharing`; the command adds it."""


class Links(Struct, frozen=True, kw_only=True):
    """Links by load, the highest first."""

    schema: str = LINKS
    """Names this form."""
    digest: str
    """Of the view of the plan that holds."""
    total: int
    """How many there are of those that were asked for."""
    links: tuple[LinkRow, ...]
    """The first `limit` of them."""


class OwnLink(Struct, frozen=True, kw_only=True):
    """A link that several jobs share, one of them with a flow that begins on this host."""

    link: Annotated[str, Label("link")]
    """Its name."""
    load: Annotated[
        float,
        Gauge("hostcc_link_load", "Seconds of traffic per second on a shared link, as planned"),
    ]
    """Seconds of traffic at full capacity per second, as if nobody waited."""
    capacity: Annotated[
        BytesPerSecond, Gauge("hostcc_link_capacity_bytes_per_second", "Capacity of a shared link")
    ]
    """As the hosts declare it."""
    jobs: Annotated[int, Gauge("hostcc_link_jobs", "Jobs that share a link, as planned")]
    """How many jobs cross it."""


class ProfilingTurn(Struct, frozen=True, kw_only=True):
    """The last profiling turn of a job on this host, and what it cost the other jobs."""

    job: str
    """Whose it was."""
    length_s: Annotated[
        Seconds,
        Gauge("hostcc_profiling_turn_seconds", "Length of the last profiling turn, seconds"),
    ]
    """How long it lasted."""
    lost_s: Annotated[
        Seconds | None,
        Gauge(
            "hostcc_profiling_turn_lost_seconds",
            "Time that others lose by the last profiling turn, as predicted",
        ),
    ] = None
    """Time alone that the other jobs lose by it, summed over them, as the plan in force predicts;
    None: the plan does not know the job's paths."""
    lost_share: float | None = None
    """Share of the cluster's work alone that this is, over the length of the turn."""


class Utilisation(Struct, frozen=True, kw_only=True):
    """How the GPUs of the jobs that this host plans are used, in small clusters those of all jobs
    ([formulas](internals/planning.md#utilisation-of-the-cluster))."""

    predicted: Annotated[
        float | None,
        Gauge(
            "hostcc_cluster_utilisation_predicted", "GPU work over that of jobs alone, as planned"
        ),
    ]
    """Work of the jobs over that of the same jobs alone (U_T of Crux), as the plan predicts it;
    None: of no job the paths are known."""
    predicted_jobs: int
    """Jobs that this is of."""
    measured: Annotated[
        float | None,
        Gauge(
            "hostcc_cluster_utilisation_measured", "GPU work over that of jobs alone, as measured"
        ),
    ]
    """The same from measured iteration times; None: of no job one is known."""
    measured_jobs: int
    """Jobs that this is of."""
    by_work: bool
    """Whether jobs count by their work; else, where no job's is known, by their GPUs."""
    at_risk: Annotated[
        int,
        Gauge("hostcc_cluster_jobs_at_risk", "Jobs that could meet another one on a full link"),
    ]
    """Jobs that could meet another one on a link which both fill, if switches chose the paths."""
    relieved: Annotated[
        int,
        Gauge("hostcc_cluster_jobs_relieved", "Jobs at risk that lose at most 1 %, as planned"),
    ]
    """Those of them that lose at most 1 % of their speed by the plan."""
    links: tuple[OwnLink, ...]
    """Shared links of this host's flows by load, the first 64."""
    turn: ProfilingTurn | None = None
    """The last profiling turn here that has ended; None: there was none."""
    age_s: Seconds
    """Since these figures were worked out."""
