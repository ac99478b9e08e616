"""The Affinity graph and Algorithm 1: one time-shift per job from its shifts on each link.

Nodes are jobs and links; an edge joins a job to a link that it shares, and carries its shift there.
Only differences of shifts on a link matter. So a connected graph without loops fixes all jobs once
one is fixed (Theorem 1): t_k = t_j - t_j^l + t_k^l. In a loop two ways to the same job may
disagree, so loops are refused.

Theorem 1 takes differences modulo the link's perimeter, and shifts modulo the iteration time. What
is preserved in fact is each pair's difference modulo the common divisor of their iteration times.
With it the demand on the link is preserved, rotated as a whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hostcc.errors import InputError


class LoopError(InputError):
    """An Affinity graph with a loop, which has no unique time-shifts."""


@dataclass(frozen=True)
class Affinity:
    """A link that two or more jobs share, with each one's shift on it."""

    link: str
    shifts: Mapping[str, float]
    """Job -> seconds (t_j^l)."""


def has_loop(groups: Sequence[Sequence[str]]) -> bool:
    """Return whether the graph of links (given the jobs of each) has a loop."""
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
    """Return the shift in seconds of every job in `periods` (Algorithm 1); 0 if it shares nothing.

    The first job by name in each connected part has 0. Raises LoopError.
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
