"""Time-shifts for the jobs of a plan: whose bursts can be interleaved, and by how much to wait.

Cassini (NSDI'24; thesis, chapter 4) for jobs that run already: links on which jobs together ask
for more than there is, joined into parts; in a part without a loop each link is rotated by
itself and Algorithm 1 joins the links, in one with a loop all its jobs are rotated as if they
met on one link.  Shifts are given only where what is asked for then fits, and did not before.
Where the view does not say when iterations begin, what fits is said, but nobody is told to wait.
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

COMPATIBLE = 0.98
"""Score from which jobs count as interleaved: of what is asked for, so much finds room."""
MOST_JOBS = 8
"""In one part: with more, shifts do not hold for long."""
MOST_PARTS = 16
"""Parts that are looked at, in the order of their first jobs' names: a bound on the work."""
MOST_TURNS = 32
"""Iterations of a job in the circle: a longer one means no common multiple worth the name."""
NODES = 60
"""Partial rotations that the optimiser looks at for a link."""
CONFIDENT = 0.5
"""Of a measurement that a shift may rest on."""
SHORT = 0.005
"""Part of an iteration below which a shift is none."""


@dataclass(frozen=True)
class Shifts:
    """Seconds to wait, and why, by job."""

    seconds: Floats
    """(J,)"""
    reason: tuple[str, ...]
    """(J,) empty for jobs that are never short of room."""


@dataclass(frozen=True)
class _Link:
    """What the jobs of a link ask for, in parts of its capacity."""

    name: str
    asked: dict[int, float]


def shifts(problem: Problem, found: Crossings) -> Shifts:
    """Time-shifts of jobs that put so much on the links."""
    seconds = np.zeros(problem.job_count)
    reason = [""] * problem.job_count
    job, link = found.job, found.link
    comm = found.times(problem.job_count)
    asked = found.asked(problem.job_count)
    on = fillable(link, asked)[link]
    job, link, asked = job[on], link[on], asked[on]
    parts = 0
    for members in _parts(problem.job_count, job, link):
        small = len(members) <= MOST_JOBS
        if small and parts < MOST_PARTS:
            parts += 1
            links = _links(problem, members, job, link, asked)
            phase = _phases(problem, members)
            shifted, words = _part(problem, comm, members, links, phase)
            if phase is None and shifted is not None:
                for member in members:
                    reason[member] = _apart(problem, members, shifted, member)
                continue
            for member, shift in (shifted or {}).items():
                seconds[member] = shift
        elif small:
            words = "no time-shift: looked for among the first jobs only"
        else:
            words = f"no time-shift: more than {MOST_JOBS} jobs compete, too many to interleave"
        for member in members:
            reason[member] = words
    return Shifts(seconds, tuple(reason))


def _parts(jobs: int, job: Ints, link: Ints) -> list[list[int]]:
    """Jobs that share full links, directly or through others, by their first members.  `job`
    does not decrease."""
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
    problem: Problem, members: list[int], job: Ints, link: Ints, asked: Floats
) -> list[_Link]:
    """The part's links; those with the same jobs are one, what is asked for the most on any."""
    inside = np.isin(job, members)
    on: dict[int, dict[int, float]] = {}
    for one, where, much in zip(job[inside], link[inside], asked[inside], strict=True):
        on.setdefault(int(where), {})[int(one)] = float(much)
    merged: dict[tuple[int, ...], _Link] = {}
    for where, jobs in sorted(on.items()):
        key = tuple(sorted(jobs))
        before = merged.get(key)
        if before is None:
            merged[key] = _Link(problem.link_ids[where], jobs)
        else:
            merged[key] = _Link(
                before.name, {one: max(jobs[one], before.asked[one]) for one in key}
            )
    return list(merged.values())


def _part(
    problem: Problem, comm: Floats, members: list[int], links: list[_Link], phase: Floats | None
) -> tuple[dict[int, float] | None, str]:
    """Shifts of one part, None for none, and why.  Without a phase: against iterations that all
    begin at once."""
    for member in members:
        name = problem.job_ids[member]
        period = float(problem.period[member])
        if not TINY_S < period <= MAX_SECONDS:
            return None, f"no time-shift: the iteration time of {name} is unknown"
        if problem.confidence[member] < CONFIDENT:
            return None, f"no time-shift: {name} was not measured long enough"
    loop = affinity.has_loop([[str(one) for one in link.asked] for link in links])
    if loop:
        most = {one: max(link.asked.get(one, 0.0) for link in links) for one in members}
        links = [_Link(links[0].name, most)]
    graph, worst = [], 1.0
    still = True
    for link in links:
        patterns = {
            one: _pattern(problem, comm, one, link.asked[one], 0.0 if phase is None else phase[one])
            for one in link.asked
        }
        try:
            found = compatibility.fit(list(patterns.values()), 1.0, nodes=NODES)
        except ViewError:
            return None, "no time-shift: the iteration times have no common multiple"
        if max(found.circle.turns) > MOST_TURNS:
            return None, "no time-shift: the iteration times have no short common multiple"
        now = compatibility.score(list(patterns.values()), 1.0, found.circle)
        still &= now >= COMPATIBLE
        worst = min(worst, found.score)
        names = (pattern.job for pattern in patterns.values())
        graph.append(Affinity(link.name, dict(zip(names, found.shifts, strict=True))))
    if worst < COMPATIBLE:
        return None, f"no time-shift: at best {worst:.2f} of the traffic finds room at once"
    if still and phase is not None:
        return None, "no time-shift: the bursts are interleaved already"
    periods = {problem.job_ids[one]: _alone(problem, comm, one) for one in members}
    found_shifts = affinity.time_shifts(graph, periods)
    shifted = {
        one: shift
        for one in members
        if (shift := found_shifts[problem.job_ids[one]]) > SHORT * periods[problem.job_ids[one]]
    }
    return shifted, f"interleaved: {worst:.2f} of the traffic finds room at once"


def _phases(problem: Problem, members: list[int]) -> Floats | None:
    """When iterations began, by job; None where that is not known of all of a part."""
    return None if np.isnan(problem.phase[members]).any() else problem.phase


def _apart(problem: Problem, members: list[int], shifted: dict[int, float], job: int) -> str:
    """How far apart the iterations would have to begin, which nobody knows of them now."""
    first = next((one for one in members if one not in shifted), members[0])
    if job == first:
        where = "if the others' iterations begin as far from its own as is said of them"
    else:
        later = shifted.get(job, 0.0) - shifted.get(first, 0.0)
        where = f"if its iterations begin {later:.3g} s after those of {problem.job_ids[first]}"
    return f"fits beside the others {where}; when iterations begin is not known here"


def _alone(problem: Problem, comm: Floats, job: int) -> float:
    """Iteration time without the others."""
    return float(max(problem.compute[job], problem.comm_start[job] + comm[job], TINY_S))


def _pattern(problem: Problem, comm: Floats, job: int, asked: float, phase: float) -> Pattern:
    """When the job sends, at the place in its iteration where it is now.

    The measured iteration may be longer than the job's own, by the very contention that is to
    end: places are kept as parts of the iteration.
    """
    period = _alone(problem, comm, job)
    begun = float(phase / problem.period[job] % 1.0) * period
    start = (begun + float(problem.comm_start[job])) % period
    end = start + min(float(comm[job]), period)
    name = problem.job_ids[job]
    if end <= period:
        return Pattern(name, period, ((start, end, asked),))
    return Pattern(name, period, ((0.0, end - period, asked), (start, period, asked)))
