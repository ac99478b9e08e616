"""Builds the ClusterView for the planner from the store: equal records give equal bytes.

Leaves out everything for which the planner would refuse the view: claimants that take no part in
the job, flows of unknown jobs, paths over links of undeclared capacity.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from hostcc.coord.core.store import Store
from hostcc.coord.view_index import ViewIndex
from hostcc.model import ClusterView, JobProfile

MAX_WHOLE_JOBS = 256
"""Jobs up to which every host plans the whole view, so that each can show all of it. More take a
member too much time: it plans its own jobs, and what is coupled with them."""


class Snapshot:
    """The view as of one update of its index; valid until the next one."""

    def __init__(self, index: ViewIndex, rules: str = "") -> None:
        self.index = index
        self.digest = index.digest(rules) if index.updates else ""
        """Names what a plan depends on: equal digests mean equal plans. Empty: nothing is known."""
        self._update = index.updates

    @cached_property
    def view(self) -> ClusterView:
        """The view of all jobs, made when it is first asked for."""
        return self._current().view(self.digest)

    def view_for(self, member: str, local: Collection[str] = ()) -> ClusterView:
        """Return what a member plans: the whole view up to MAX_WHOLE_JOBS, else the part that
        decides about its jobs (ViewIndex.coupled).

        `local`: jobs that run on the member, whether it publishes them or not.
        """
        index = self._current()
        if len(index.jobs) <= MAX_WHOLE_JOBS:
            return self.view
        return index.view(self.digest, index.coupled(self.jobs_of(member, local)))

    def jobs_of(self, member: str, local: Collection[str] = ()) -> set[str]:
        """Return the jobs of the view that a member takes part in, or has among `local` ones."""
        index = self._current()
        return index.jobs_at.get(member, set()).union(index.jobs.keys() & set(local))

    def job(self, name: str) -> JobProfile | None:
        """Return the merged profile of a job; None: no member publishes one."""
        found = self._current().jobs.get(name)
        return None if found is None else found.profile

    def _current(self) -> ViewIndex:
        if self.index.updates != self._update:
            raise RuntimeError("the index of this snapshot has been updated since")
        return self.index


def build(
    store: Store,
    dead: Collection[str],
    rules: str,
    index: ViewIndex | None = None,
) -> Snapshot:
    """Return the view of all members that are not `dead`.

    `rules` is everything else that the plan depends on, as text: the scheduler's revision and
    options. It is part of the digest, so equal digests mean equal plans. `index` is that of the
    view before, of the same store or not; it is brought up to date.
    """
    index = ViewIndex() if index is None else index
    index.update(store, dead)
    return Snapshot(index, rules)


def neighbours(
    snapshot: Snapshot, member: str, most: int, local: Collection[str] = ()
) -> tuple[str, ...]:
    """Return members that share a job with `member`, then those whose flows may share its links.

    `local`: as for Snapshot.view_for. At most `most`. Members that share only links are then
    sampled: deterministically, but differently for each member.
    """
    index = snapshot.index
    jobs = snapshot.jobs_of(member, local)
    job_peers = set[str]().union(*(index.jobs[job].hosts for job in jobs)) - {member}
    found = sorted(job_peers)[:most]
    known = job_peers | {member}
    others = [one for one in index.near(member).sources if one not in known]
    return (*found, *sorted(others[: most - len(found)]))
