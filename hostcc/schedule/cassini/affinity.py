"""The Affinity graph and Algorithm 1: one time-shift for each job from those of its links.

Jobs and links are the nodes; a job that shares a link is joined to it by an edge that carries
its shift on that link.  Only differences of shifts on a link matter, so a connected graph
without loops fixes all jobs once one is fixed (Theorem 1): t_k = t_j - t_j^l + t_k^l.  With a
loop two ways to the same job may disagree, so loops are refused.

Theorem 1 takes differences modulo the link's perimeter and shifts modulo the iteration time.
What is preserved in fact is each pair's difference modulo the common divisor of their iteration
times, and with it the demand on the link, rotated as a whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hostcc.errors import InputError


class LoopError(InputError):
    """An Affinity graph with a loop has no unique time-shifts."""


@dataclass(frozen=True)
class Affinity:
    """A link that two or more jobs share, and each one's shift on it."""

    link: str
    shifts: Mapping[str, float]
    """Job -> seconds (t_j^l)."""


def has_loop(groups: Sequence[Sequence[str]]) -> bool:
    """Whether the graph of links (the jobs of each) has a loop; links of one job are none."""
    parent: dict[str, str] = {}

    def root(job: str) -> str:
        while parent.setdefault(job, job) != job:
            parent[job] = parent[parent[job]]
            job = parent[job]
        return job

    for jobs in groups:
        first = root(jobs[0]) if jobs else ""
        for job in jobs[1:]:
            if root(job) == first:
                return True
            parent[root(job)] = first
    return False


def time_shifts(links: Sequence[Affinity], periods: Mapping[str, float]) -> dict[str, float]:
    """Algorithm 1: (job, seconds) for every job of `periods`, 0 for those that share nothing.

    The first job by name of each connected part has 0.  Raises LoopError.
    """
    shared = sorted((link for link in links if len(link.shifts) > 1), key=lambda one: one.link)
    if has_loop([sorted(link.shifts) for link in shared]):
        raise LoopError("Affinity graph: expected no loop: jobs meet on links in more than one way")
    of_job: dict[str, list[Affinity]] = {}
    for link in shared:
        for job in link.shifts:
            of_job.setdefault(job, []).append(link)
    found: dict[str, float] = {}
    for start in sorted(periods):
        if start in found:
            continue
        found[start] = 0.0
        waiting = deque([start])
        while waiting:
            job = waiting.popleft()
            for link in of_job.get(job, []):
                for other in sorted(link.shifts):
                    if other not in found:
                        shift = found[job] - link.shifts[job] + link.shifts[other]
                        found[other] = shift % periods[other]
                        waiting.append(other)
    return found
