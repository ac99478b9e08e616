"""Scores placements of new jobs against the jobs that run: what a plan of all of them predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hostcc.errors import InputError
from hostcc.model import ClusterView, Flow, JobProfile
from hostcc.schedule import utilisation
from hostcc.schedule.pair_tables import PairTables
from hostcc.schedule.plan import Options, Solution, solve_for_agents
from hostcc.schedule.problem import Floats

MAX_SLOWED = 8
"""Jobs that are named as slowed down, those that lose most work first."""
LEAST_SLOWED = 0.01
"""Fraction of its speed alone from which on a job counts as slowed down."""


@dataclass(frozen=True)
class Placement:
    """Where new jobs would run."""

    name: str
    flows: tuple[Flow, ...]
    """Flows of the new jobs; those that stay on a host use no link."""


@dataclass(frozen=True)
class SlowedJob:
    """A running job that a placement slows down."""

    job: str
    before: float
    """Predicted speed over that alone, without the new jobs."""
    after: float
    """The same with them."""


@dataclass(frozen=True)
class ScoredPlacement:
    """What is predicted of a placement."""

    name: str
    utilisation: float | None = None
    """Of running and new jobs (utilisation.py); None: rejected, or of no job a path is known."""
    running: float | None = None
    """Of the running jobs alone."""
    speeds: tuple[tuple[str, float], ...] = ()
    """(New job, predicted speed over that alone)."""
    slowed: tuple[SlowedJob, ...] = ()
    """Running jobs that it slows down by a hundredth or more, the first MAX_SLOWED."""
    slowed_count: int = 0
    """How many there are."""
    rejected: str = ""
    """Why it cannot be scored; empty: it is."""


@dataclass(frozen=True)
class Ranking:
    """All placements, the best first."""

    before: float | None
    """Utilisation as predicted without the new jobs; None: of no running job a path is known."""
    jobs: int
    """Running jobs that this is of."""
    placements: tuple[ScoredPlacement, ...]


def rank(
    view: ClusterView,
    new: Sequence[JobProfile],
    placements: Sequence[Placement],
    options: Options,
) -> Ranking:
    """Return the placements by the utilisation that is predicted with them, the highest first.

    Running flows start on their present paths. Raises InputError for a job that runs already, and
    what solve() raises.
    """
    running = {job.job for job in view.jobs}
    if again := sorted(job.job for job in new if job.job in running):
        raise InputError(f"job: {again[0]}: expected a new one, but it runs already")
    profiles = {job.job: job for job in new}
    base = solve_for_agents(view, options)
    speed = utilisation.predicted_speeds(base)
    before = dict(zip(base.problem.job_ids, speed.tolist(), strict=True))
    tables = PairTables(view.tables)
    scored = [_scored(one, view, profiles, options, base, before, tables) for one in placements]
    scored.sort(key=lambda one: (bool(one.rejected), *map(_falling, (one.utilisation, one.running)),
                                 one.name))  # fmt: skip
    value, _ = utilisation.values(base)
    known = int((speed >= 0).sum())
    return Ranking(utilisation.share(value, speed), known, tuple(scored))


def _falling(value: float | None) -> float:
    return 1.0 if value is None else -value


def _scored(
    of: Placement,
    view: ClusterView,
    new: Mapping[str, JobProfile],
    options: Options,
    base: Solution,
    before: Mapping[str, float],
    tables: PairTables,
) -> ScoredPlacement:
    flows = [flow for flow in of.flows if flow.src != flow.dst]
    there = {(table.src, table.dst) for table in view.tables}
    more = {}
    for flow in flows:
        ends = flow.src, flow.dst
        table = tables.table(*ends)
        if table is None:
            return ScoredPlacement(
                of.name, rejected=f"no path is known from {ends[0]} to {ends[1]}"
            )
        if ends not in there:
            more[ends] = table
    placed = {flow.job for flow in of.flows}
    with_new = replace(
        view,
        jobs=(*view.jobs, *(new[job] for job in sorted(placed))),
        flows=(*view.flows, *flows),
        tables=(*view.tables, *more.values()),
    )
    found = solve_for_agents(with_new, options, base)
    names = found.problem.job_ids
    is_new = np.fromiter((name in placed for name in names), np.bool_, len(names))
    value, _ = utilisation.values(found)
    speed = utilisation.predicted_speeds(found)
    speed[is_new & np.isnan(speed)] = 1.0  # it stays on its host
    slowed = _slowed(names, speed, value, before)
    return ScoredPlacement(
        of.name,
        utilisation.share(value, speed),
        utilisation.share(value[~is_new], speed[~is_new]),
        tuple((names[job], float(speed[job])) for job in np.flatnonzero(is_new).tolist()),
        tuple(slowed[:MAX_SLOWED]),
        len(slowed),
    )


def _slowed(
    names: Sequence[str], speed: Floats, value: Floats, before: Mapping[str, float]
) -> list[SlowedJob]:
    was = np.array([before.get(name, np.nan) for name in names], np.float64)
    lost = np.nan_to_num(was - speed)
    most = np.argsort(-lost * value, kind="stable")
    return [
        SlowedJob(names[job], float(was[job]), float(speed[job]))
        for job in most.tolist()
        if lost[job] >= LEAST_SLOWED
    ]
