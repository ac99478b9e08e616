"""Time-shifts for the jobs of a plan: whose bursts can be interleaved, and how long to wait.

Cassini (NSDI'24; thesis, chapter 4), applied to running jobs. Links with more demand than capacity
are joined into parts. In a part without a loop each link is rotated by itself, and Algorithm 1
joins the links. In a part with a loop all jobs are rotated as if they met on one link. Shifts are
given only where the demand then fits and did not before. If the view does not say when iterations
begin, the reason says what would fit, and no job has to wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.cassini import affinity, compatibility
from hostcc.schedule.cassini.affinity import Affinity
from hostcc.schedule.cassini.circle import MAX_SECONDS, Pattern
from hostcc.schedule.errors import ViewError
from hostcc.schedule.intensity import Crossings, fillable
from hostcc.schedule.problem import TINY_S, Floats, Ints, Problem

MIN_COMPATIBLE_SCORE = 0.98
"""Score from which jobs count as interleaved: the fraction of the demand that finds room."""
MAX_PART_JOBS = 8
"""Jobs in one part; with more, shifts do not hold for long."""
MAX_PARTS = 16
"""Parts that are considered, by the names of their first jobs: a bound on the work."""
MAX_TURNS = 32
"""Iterations of a job in the unified circle; more means no useful common multiple."""
MAX_ROTATIONS = 60
"""Partial rotations that the optimiser tries for a link."""
MIN_CONFIDENCE = 0.5
"""Confidence of a profile that a shift may rely on."""
MIN_SHIFT_FRACTION = 0.005
"""Fraction of an iteration below which a shift is ignored."""


@dataclass(frozen=True)
class Shifts:
    """Time-shift and reason by job."""

    seconds: Floats
    """(J,) seconds to wait."""
    reason: tuple[str, ...]
    """(J,) empty for jobs whose links always have room."""


@dataclass(frozen=True)
class _Link:
    """Demand of jobs on a link, as fractions of its capacity."""

    name: str
    demand: dict[int, float]


def shifts(problem: Problem, found: Crossings) -> Shifts:
    """Return the time-shifts of jobs with these crossings."""
    seconds = np.zeros(problem.job_count)
    reason = [""] * problem.job_count
    job, link = found.job, found.link
    comm = found.times(problem.job_count)
    demand = found.asked(problem.job_count)
    on = fillable(link, demand)[link]
    job, link, demand = job[on], link[on], demand[on]
    parts = 0
    for members in _parts(problem.job_count, job, link):
        small = len(members) <= MAX_PART_JOBS
        if small and parts < MAX_PARTS:
            parts += 1
            links = _links(problem, members, job, link, demand)
            phase = _phases(problem, members)
            shifted, words = _part(problem, comm, members, links, phase)
            if phase is None and shifted is not None:
                for member in members:
                    reason[member] = _unknown_phase_reason(problem, members, shifted, member)
                continue
            for member, shift in (shifted or {}).items():
                seconds[member] = shift
        elif small:
            words = "no time-shift: looked for among the first jobs only"
        else:
            words = f"no time-shift: more than {MAX_PART_JOBS} jobs compete, too many to interleave"
        for member in members:
            reason[member] = words
    return Shifts(seconds, tuple(reason))


def _parts(jobs: int, job: Ints, link: Ints) -> list[list[int]]:
    """Return groups of jobs that share full links, directly or through others.

    `job` must not decrease; groups are in the order of their first members.
    """
    if not len(job):
        return []
    by_link = sorting.order(link)
    of_link, of_job = (
        np.flatnonzero(np.append(True, key[1:] != key[:-1])) for key in (link[by_link], job)
    )
    which = np.empty(len(link), np.int64)
    which[by_link] = np.repeat(np.arange(len(of_link)), np.diff(np.append(of_link, len(link))))
    members, on = job[of_job], job[by_link]
    label = np.arange(jobs)
    while True:
        least = np.minimum.reduceat(label[on], of_link)
        fresh = label.copy()
        fresh[members] = np.minimum(label[members], np.minimum.reduceat(least[which], of_job))
        fresh = fresh[fresh]
        if np.array_equal(fresh, label):
            break
        label = fresh
    members = members[np.argsort(label[members], kind="stable")]
    starts = np.flatnonzero(np.diff(label[members])) + 1
    return [part.tolist() for part in np.split(members, starts)]


def _links(
    problem: Problem, members: list[int], job: Ints, link: Ints, demand: Floats
) -> list[_Link]:
    """Return the links of a part; links with the same jobs are merged, with the largest demand."""
    inside = np.isin(job, members)
    on: dict[int, dict[int, float]] = {}
    for one, where, much in zip(job[inside], link[inside], demand[inside], strict=True):
        on.setdefault(int(where), {})[int(one)] = float(much)
    merged: dict[tuple[int, ...], _Link] = {}
    for where, jobs in sorted(on.items()):
        key = tuple(sorted(jobs))
        before = merged.get(key)
        if before is None:
            merged[key] = _Link(problem.link_ids[where], jobs)
        else:
            merged[key] = _Link(
                before.name, {one: max(jobs[one], before.demand[one]) for one in key}
            )
    return list(merged.values())


def _part(
    problem: Problem, comm: Floats, members: list[int], links: list[_Link], phase: Floats | None
) -> tuple[dict[int, float] | None, str]:
    """Return the shifts of one part, None for none, and the reason.

    Without a phase: relative to iterations that all begin at once.
    """
    for member in members:
        name = problem.job_ids[member]
        period = float(problem.period[member])
        if not TINY_S < period <= MAX_SECONDS:
            return None, f"no time-shift: the iteration time of {name} is unknown"
        if problem.confidence[member] < MIN_CONFIDENCE:
            return None, f"no time-shift: {name} was not measured long enough"
    loop = affinity.has_loop([[str(one) for one in link.demand] for link in links])
    if loop:
        most = {one: max(link.demand.get(one, 0.0) for link in links) for one in members}
        links = [_Link(links[0].name, most)]
    graph, worst = [], 1.0
    still = True
    for link in links:
        patterns = {
            one: _pattern(
                problem, comm, one, link.demand[one], 0.0 if phase is None else phase[one]
            )
            for one in link.demand
        }
        try:
            found = compatibility.fit(list(patterns.values()), 1.0, nodes=MAX_ROTATIONS)
        except ViewError:
            return None, "no time-shift: the iteration times have no common multiple"
        if max(found.circle.turns) > MAX_TURNS:
            return None, "no time-shift: the iteration times have no short common multiple"
        now = compatibility.score(list(patterns.values()), 1.0, found.circle)
        still &= now >= MIN_COMPATIBLE_SCORE
        worst = min(worst, found.score)
        names = (pattern.job for pattern in patterns.values())
        graph.append(Affinity(link.name, dict(zip(names, found.shifts, strict=True))))
    if worst < MIN_COMPATIBLE_SCORE:
        return None, f"no time-shift: at best {worst:.2f} of the traffic finds room at once"
    if still and phase is not None:
        return None, "no time-shift: the bursts are interleaved already"
    periods = {problem.job_ids[one]: _isolated_period(problem, comm, one) for one in members}
    found_shifts = affinity.time_shifts(graph, periods)
    shifted = {
        one: shift
        for one in members
        if (shift := found_shifts[problem.job_ids[one]])
        > MIN_SHIFT_FRACTION * periods[problem.job_ids[one]]
    }
    return shifted, f"interleaved: {worst:.2f} of the traffic finds room at once"


def _phases(problem: Problem, members: list[int]) -> Floats | None:
    """Return when iterations began; None unless it is known of all jobs in the part."""
    return None if np.isnan(problem.phase[members]).any() else problem.phase


def _unknown_phase_reason(
    problem: Problem, members: list[int], shifted: dict[int, float], job: int
) -> str:
    """Say how far apart iterations would have to begin, which is unknown at present."""
    first = next((one for one in members if one not in shifted), members[0])
    if job == first:
        where = "if the others' iterations begin as far from its own as is said of them"
    else:
        later = shifted.get(job, 0.0) - shifted.get(first, 0.0)
        where = f"if its iterations begin {later:.3g} s after those of {problem.job_ids[first]}"
    return f"fits beside the others {where}; when iterations begin is not known here"


def _isolated_period(problem: Problem, comm: Floats, job: int) -> float:
    return float(max(problem.compute[job], problem.comm_start[job] + comm[job], TINY_S))


def _pattern(problem: Problem, comm: Floats, job: int, demand: float, phase: float) -> Pattern:
    """Return the job's demand over its iteration, from its present phase on.

    The measured iteration may be longer than the job's own, because of the contention that the
    shift is to end. So phases are kept as fractions of the iteration.
    """
    period = _isolated_period(problem, comm, job)
    begun = float(phase / problem.period[job] % 1.0) * period
    start = (begun + float(problem.comm_start[job])) % period
    end = start + min(float(comm[job]), period)
    name = problem.job_ids[job]
    if end <= period:
        return Pattern(name, period, ((start, end, demand),))
    return Pattern(name, period, ((0.0, end - period, demand), (start, period, demand)))
