"""Carries intermediate results of one solution over to the next: pairs, their losses, the cut.

Each is a function of the jobs, pairs or graph that it concerns, so a reused value equals a
recomputed one. The cut is unique, wherever its search starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.contention_graph import ContentionGraph
from hostcc.schedule.intensity import Crossings
from hostcc.schedule.job_pairs import MAX_PAIRS, Pairs, pairs_on_links
from hostcc.schedule.kcut import Cut
from hostcc.schedule.name_list import places
from hostcc.schedule.order import KnownLosses
from hostcc.schedule.problem import Floats, Ints, Problem

MIN_JOBS_PER_CHANGE = 8
"""Reuse pays while fewer than one in this many jobs have changed."""


@dataclass(frozen=True)
class IntermediateResults:
    """Intermediate results of a solution."""

    problem: Problem
    times: Floats
    """(J,) t, seconds."""
    waiting: Crossings
    """The crossings on links that can be filled."""
    met: Pairs
    """The pairs that meet, or some of them."""
    followed: KnownLosses | None
    contention: ContentionGraph | None
    cut: Cut | None
    every_pair: bool = True
    """Whether `met` has all pairs that meet."""

    def reduced(self) -> IntermediateResults | None:
        """Return what pays to be kept of very many pairs: those with known losses. None: nothing.

        The others are found anew about as quickly, and take megabytes.
        """
        if self.cut is not None:
            return self
        if self.followed is None or not len(self.followed.at):
            return None
        half, at = len(self.met.one), self.followed.at
        back = at >= half
        kept = sorting.distinct(at - half * back)
        place = np.searchsorted(kept, at - half * back) + len(kept) * back
        followed = KnownLosses(place, self.followed.exact)
        return replace(self, met=self.met.only(kept), followed=followed, every_pair=False)


class ReusedWork:
    """Results of `before` that hold for a problem with these crossings; `waiting` are contended."""

    def __init__(
        self,
        before: IntermediateResults,
        problem: Problem,
        crossings: Crossings,
        waiting: Crossings,
    ) -> None:
        self.before, self.crossings, self.waiting = before, crossings, waiting
        self.jobs = problem.job_count
        self.now = places(before.problem.job_ids, problem.job_ids)
        """(Previous jobs,) present index; -1: gone."""
        self.changed = self._changed(problem)
        """(J,) jobs that are new, load links differently, or have other times."""

    def pairs(self) -> tuple[Pairs, Ints]:
        """Return the pairs that meet, and the previous index of each; -1: new."""
        found = self.waiting
        few = int(self.changed.sum()) * MIN_JOBS_PER_CHANGE < self.jobs
        if not few or _thinned(found) or _thinned(self.before.waiting):
            every = pairs_on_links(found.job, found.link, found.seconds, self.jobs)
            return every, np.full(len(every.one), -1)
        met = self.before.met
        one, other = self.now[met.one], self.now[met.other]
        still = np.flatnonzero(
            (one >= 0) & (other >= 0) & ~self.changed[one] & ~self.changed[other]
        )
        one, other = one[still], other[still]
        if not self.before.every_pair:
            every = pairs_on_links(found.job, found.link, found.seconds, self.jobs)
            source = np.full(len(every.one), -1)
            at = np.searchsorted(every.one * self.jobs + every.other, one * self.jobs + other)
            source[at] = still
            return every, source
        # Of the others one of each pair has changed, and meets on links that it is on.
        links = np.zeros(int(found.link.max(initial=0)) + 1, np.bool_)
        links[found.link[self.changed[found.job]]] = True
        on = links[found.link]
        new = pairs_on_links(found.job[on], found.link[on], found.seconds[on], self.jobs)
        fresh = np.flatnonzero(self.changed[new.one] | self.changed[new.other])
        at = np.searchsorted(one * self.jobs + other, new.one[fresh] * self.jobs + new.other[fresh])
        pairs = Pairs(
            np.insert(one, at, new.one[fresh]),
            np.insert(other, at, new.other[fresh]),
            np.insert(met.one_seconds[still], at, new.one_seconds[fresh]),
            np.insert(met.other_seconds[still], at, new.other_seconds[fresh]),
        )
        return pairs, np.insert(still, at, -1)

    def followed(self, source: Ints) -> KnownLosses | None:
        """Return known losses of pairs by their previous index `source`; -1: new."""
        known = self.before.followed
        if known is None:
            return None
        half = len(self.before.met.one)
        now = np.full(2 * half, -1)
        still = np.flatnonzero(source >= 0)
        now[source[still]], now[half + source[still]] = still, len(source) + still
        at = now[known.at]
        return KnownLosses(at[at >= 0], known.exact[at >= 0])

    def cut(self, graph: ContentionGraph) -> Cut | None:
        """Return the previous cut as one of `graph`, to start the search from."""
        old, cut = self.before.contention, self.before.cut
        if old is None or cut is None or not len(old.first):
            return None
        level = np.full(self.jobs, -1)
        level[self.now[self.now >= 0]] = cut.level[self.now >= 0]
        one, other = self.now[old.first], self.now[old.second]
        here = (one >= 0) & (other >= 0)
        # Edges stand in the order of their ends, then and now.
        key = one[here] * self.jobs + other[here]
        wanted = graph.first * self.jobs + graph.second
        at = np.minimum(np.searchsorted(key, wanted), max(0, len(key) - 1))
        if not len(key):
            return Cut(level, graph.weight)
        return Cut(level, np.where(key[at] == wanted, cut.x[here][at], graph.weight))

    def _changed(self, problem: Problem) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        before, old = self.before.problem, self.before.waiting
        here = np.flatnonzero(self.now >= 0)
        there = self.now[here]
        changed = np.ones(self.jobs, np.bool_)
        times = self.before.times, self.crossings.times(self.jobs)
        changed[there] = (
            (before.compute[here] != problem.compute[there])
            | (before.comm_start[here] != problem.comm_start[there])
            | (times[0][here] != times[1][there])
        )
        link = places(before.link_ids, problem.link_ids)
        job, on = self.now[old.job], link[old.link]
        gone = (job >= 0) & (on < 0)
        changed[job[gone]] = True
        both = (job >= 0) & (on >= 0)
        width = max(1, problem.link_count)
        key = job[both] * width + on[both]
        wanted = self.waiting.job * width + self.waiting.link
        at = np.minimum(np.searchsorted(key, wanted), max(0, len(key) - 1))
        if not len(key):
            return np.ones(self.jobs, np.bool_)
        same = (key[at] == wanted) & (old.seconds[both][at] == self.waiting.seconds)
        changed[self.waiting.job[~same]] = True
        left = np.bincount(job[both], minlength=self.jobs)
        left -= np.bincount(self.waiting.job[same], minlength=self.jobs)
        changed[left > 0] = True
        return changed


def _thinned(found: Crossings) -> bool:
    """Return whether links have so many jobs that not all pairs were considered."""
    jobs = np.bincount(found.link)
    return int((jobs * (jobs - 1) // 2).sum()) > MAX_PAIRS
