"""Makes a job's profile of all that is known of it, for plans and for people.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec.structs import asdict
from msgspec.structs import replace as replaced

from hostcc.answers.jobs import ProfileFigures
from hostcc.daemon.profiling.guess import Guess, guess
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.routes import Route, used
from hostcc.daemon.profiling.tracks import Track
from hostcc.daemon.profiling.turns.local import ENOUGH
from hostcc.measure.destinations import Address
from hostcc.measure.measured_profile import Link, MeasuredProfile, assemble
from hostcc.measure.meter import TX
from hostcc.measure.plain import plain
from hostcc.measure.series import NS
from hostcc.measure.work import Interval, Work, activity, work_per_iteration
from hostcc.model import JobProfile
from hostcc.schedule.assumed_work import ASSUMED_HOST_FLOP_PER_S

UNEVEN_SPREAD = 0.03
"""Iterations whose times differ by a larger fraction (MeasuredProfile.spread) cannot be folded."""

SAME_PERIOD = 0.1
"""Periods that differ by at most this fraction are of the same iterations."""


@dataclass(frozen=True)
class JobFacts:
    """What is known of a job besides its traffic."""

    intervals: Sequence[Interval] = ()
    """Its work on GPUs."""
    why: str = ""
    """Why that is not known."""
    assumed_flops: float = 0.0
    """FLOP/s that a GPU is assumed to reach where that is not known; 0: by its model."""
    boundaries_s: Sequence[float] = ()
    """When its iterations ended, by its iteration marks; CLOCK_MONOTONIC."""
    ways: Mapping[Address, Route] = field(default_factory=dict)
    links: Sequence[Link] = ()
    """The links that its traffic is on, where that has no addresses (RDMA)."""


@dataclass(frozen=True, eq=False)
class JobKnowledge:
    """All that is known of a job now."""

    job: LiveJob
    track: Track
    facts: JobFacts
    work: Work
    measured: MeasuredProfile


def known(job: LiveJob, track: Track, facts: JobFacts) -> JobKnowledge:
    """Put together what is known of a job: folds its iterations, which takes some milliseconds."""
    of, found = track.pattern(facts.boundaries_s)
    work = work_per_iteration(
        facts.intervals,
        period_s=found.period_s,
        boundaries_s=facts.boundaries_s,
        declared=job.flops,
        why=facts.why,
        assumed_flops=facts.assumed_flops,
    )
    measured = assemble(
        job.name,
        of,
        found,
        links=facts.links or used(of, track.shares(), facts.ways),
        activity=activity(facts.intervals) if facts.intervals else None,
        flop=work.flop,
    )
    return JobKnowledge(job, track, facts, work, measured)


def to_share(of: JobKnowledge, host: str, wall_minus_monotonic_s: float) -> JobProfile | None:
    """Return the profile to publish of a job; None before it has sent enough for a guess.

    A guess has a confidence of 0; so has a measurement until the job counts as known.  The period
    of an irregular job is its mean one, so that bytes over time are right.  `work` is 0 while it
    is unknown.
    """
    measured = _measured(of, host, wall_minus_monotonic_s)
    sure = measured is not None and measured.confidence >= ENOUGH
    watch = of.track.watch
    found = guess(watch.levels) if watch is not None else None
    if measured is not None and sure:
        silent_s = _silent_s(measured, found, uneven=_uneven(of.measured))
        hidden_s = measured.compute_s - measured.comm_start_s
        return replace(measured, compute_s=silent_s + hidden_s, comm_start_s=silent_s)
    if measured is not None and (found is None or not found.silent_s):
        return replace(measured, confidence=0.0)
    if found is None or watch is None:
        return None
    at = watch.levels[0].end_ns / NS + wall_minus_monotonic_s
    return _guessed(of, host, found, at)


def _silent_s(measured: JobProfile, found: Guess | None, *, uneven: bool) -> float:
    """Return how long the job computes before it sends.

    Folded, iterations that others make longer have no silence that all share, or a short one; each
    by itself has the whole.
    """
    folded_s, period_s = measured.comm_start_s, measured.period_s
    if found is None or not 0 < found.silent_s < period_s:
        return folded_s
    if abs(found.period_s - period_s) <= SAME_PERIOD * period_s:
        return max(folded_s, found.silent_s)
    return found.silent_s if uneven else folded_s


def _uneven(of: MeasuredProfile) -> bool:
    return of.irregular or (of.spread or 0.0) > UNEVEN_SPREAD


def _measured(of: JobKnowledge, host: str, wall_minus_monotonic_s: float) -> JobProfile | None:
    got = of.measured
    if got.period_s is None or got.fold is None:
        return None
    period_s = got.mean_period_s if got.irregular and got.mean_period_s else got.period_s
    hidden = got.overlap.ratio or 0.0
    begin_s = float(got.fold.begins_ns[-1]) / NS + wall_minus_monotonic_s
    return JobProfile(
        job=of.job.name,
        host=host,
        compute_s=got.fold.communication_start_s + hidden * got.fold.communication_s,
        comm_start_s=got.fold.communication_start_s,
        work=of.work.flop or 0.0,
        gpus=float(len(of.work.gpus)),
        period_s=period_s,
        comm_s=got.link_time_s or 0.0,
        bytes_to=_bytes_to(of, got.tx_bytes or 0.0),
        weight=of.job.weight,
        slowdown=slowdown(of),
        phase_s=begin_s % period_s,
        confidence=got.confidence,
        assumed_flop_per_s=of.work.assumed_flop_per_s,
        at=got.measured_ns / NS + wall_minus_monotonic_s,
    )


def _guessed(of: JobKnowledge, host: str, found: Guess, at: float) -> JobProfile:
    facts = of.facts
    work = work_per_iteration(
        facts.intervals,
        period_s=found.period_s,
        declared=of.job.flops,
        why=facts.why,
        assumed_flops=facts.assumed_flops,
    )
    return JobProfile(
        job=of.job.name,
        host=host,
        compute_s=found.silent_s or found.period_s,
        comm_start_s=found.silent_s,
        work=work.flop or 0.0,
        gpus=float(len(work.gpus)),
        period_s=found.period_s,
        bytes_to=_bytes_to(of, found.tx_bytes),
        weight=of.job.weight,
        slowdown=slowdown(of),
        confidence=0.0,
        assumed_flop_per_s=work.assumed_flop_per_s,
        at=at,
    )


def slowdown(of: JobKnowledge) -> float:
    """Return iteration time over that in its profiling turn; 1 where that is not known."""
    mean, alone = of.measured.mean_period_s, of.track.alone_s
    return max(1.0, mean / alone) if mean and alone else 1.0


def summary(of: JobKnowledge) -> ProfileFigures:
    """Return the profile as `hostcc jobs --detail --json` shows it (docs/answers.md)."""
    nominal = {way.link for way in of.facts.ways.values() if way.nominal}
    shown = asdict(plain(of.measured))
    links = [replaced(one, nominal=one.name in nominal) for one in shown.pop("links")]
    watch = of.track.watch
    return ProfileFigures(
        **shown,
        links=links,
        bytes_to=dict(sorted(_bytes_to(of, of.measured.tx_bytes or 0.0), key=lambda p: -p[1])),
        flop_source=str(of.work.source),
        flop_reason=of.work.why or None,
        assumed_flop_per_s=_assumed(of.work),
        gpus=list(of.work.gpus),
        slowdown=slowdown(of),
        marks=len(of.facts.boundaries_s),
        changes=watch.changes if watch else 0,
        total_tx_bytes=of.track.total[0],
        total_rx_bytes=of.track.total[1],
    )


def _assumed(work: Work) -> float | None:
    return (work.assumed_flop_per_s or ASSUMED_HOST_FLOP_PER_S) if work.flop is None else None


def _bytes_to(of: JobKnowledge, sent: float) -> tuple[tuple[str, float], ...]:
    shares = of.track.shares().items()
    return tuple(sorted((str(to), sent * share[TX]) for to, share in shares if share[TX]))
