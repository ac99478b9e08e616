"""Everything a view has, by name, brought up to date with the records that have changed.

The cost of an update grows with what has changed and not with the cluster. Parts that stay are the
same objects, by which the planner recognises them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from sys import intern

import msgspec

from hostcc.coord.core.merge import merge
from hostcc.coord.core.participants import participants
from hostcc.coord.core.payloads import FlowEntry, Flows, Paths, Profile
from hostcc.coord.core.record_checker import CheckedRecord
from hostcc.coord.core.store import Store
from hostcc.coord.digest_tree import DigestTree
from hostcc.coord.job_coupling import JobCoupling
from hostcc.coord.live_records import Ends, Key, LiveRecords
from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable, SizeClass

_PLANNED = (
    "job",
    "compute_s",
    "comm_start_s",
    "work",
    "gpus",
    "weight",
    "slowdown",
    "phase_s",
    "confidence",
)
"""Fields of a job's profile that a plan depends on."""
_NOBODY = frozenset[str]()


@dataclass(frozen=True, slots=True)
class MergedJob:
    """A job's merged profile."""

    hosts: tuple[str, ...]
    """Claimants that take part in the job, sorted."""
    profile: JobProfile


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A path table, with the links of all its paths, each once."""

    table: PathTable
    links: tuple[str, ...]
    """Those of usable paths."""
    others: tuple[str, ...]
    """Other links of the record: of paths over links of undeclared capacity, and these."""

    def mentions(self, links: Set[str]) -> bool:
        """Return whether the record has any of these links."""
        return not (links.isdisjoint(self.links) and links.isdisjoint(self.others))


@dataclass(frozen=True, slots=True)
class NearMembers:
    """The members that may share links with one."""

    member: str
    links: Set[str]
    """Links that its flows may cross."""
    sources: tuple[str, ...]
    """Members with flows that may cross one of them, in an order that each member has its own of.
    """


class ViewIndex:
    """Jobs, flows, tables and links of the view of all live members."""

    def __init__(self) -> None:
        self.jobs: dict[str, MergedJob] = {}
        self.jobs_at: dict[str, set[str]] = {}
        """By member: jobs that it takes part in."""
        self.tables: dict[Ends, KnownTable] = {}
        """Of pairs with flows between them."""
        self.updates = 0
        """Number of updates so far."""
        self._records = LiveRecords()
        self._flows: dict[str, dict[str, tuple[Flow, ...]]] = {}
        """By member, by job: of members that take part in the job."""
        self._of_job: dict[str, tuple[Flow, ...]] = {}
        """By job: all of its flows, as far as somebody asked for them since they changed."""
        self._pairs: list[Ends] = []
        """Pairs that have a table, sorted."""
        self._near: NearMembers | None = None
        """Of the member that was asked for last."""
        self._between: dict[Ends, int] = {}
        """By pair: number of flows between the two."""
        self._crossed: dict[str, int] = {}
        """By link: number of tables with a path over it."""
        self._tree = DigestTree()
        self._coupling = JobCoupling(self.flows, self._links_of)

    def update(self, store: Store, dead: Collection[str]) -> None:
        """Read what has changed since the last call."""
        self.updates += 1
        changed = self._records.update(store, dead)
        writers = changed.writers
        for job in changed.jobs:
            writers |= self._merge(job)
        ends = changed.ends & self._between.keys()
        for writer in writers:
            ends |= self._read_flows(writer)
        links = changed.links
        if links:
            ends |= {pair for pair, one in self.tables.items() if one.mentions(links)}
        for pair in ends:
            links |= self._read_table(pair)
        near = self._near
        if near is not None and (
            near.member in writers
            or any(source == near.member for source, _ in ends)
            or not links.isdisjoint(near.links)
        ):
            self._near = None
        for link in links:
            value = self._records.capacities.get(link) if link in self._crossed else None
            self._tree.put(b"link " + link.encode(), None if value is None else _packed(value))

    def digest(self, rules: str) -> str:
        """Return the hash of exactly what a plan depends on (schedule.problem.Problem), and of the
        rules."""
        return self._tree.digest(rules)

    def view(self, digest: str, jobs: Collection[str] | None = None) -> ClusterView:
        """Return the view; `jobs`: with these alone, and what belongs to them."""
        chosen = sorted(self.jobs if jobs is None else jobs)
        flows = tuple(chain.from_iterable(map(self.flows, chosen)))
        used: Collection[str]
        if len(chosen) == len(self.jobs):
            pairs, used = self._pairs, self._crossed.keys()
            tables = [self.tables[pair] for pair in pairs]
        else:
            pairs = sorted({(flow.src, flow.dst) for flow in flows} & self.tables.keys())
            tables = [self.tables[pair] for pair in pairs]
            used = set[str]().union(*(one.links for one in tables))
        return ClusterView(
            jobs=tuple(self.jobs[job].profile for job in chosen),
            flows=flows,
            tables=tuple(one.table for one in tables),
            links=tuple((link, self._records.capacities[link]) for link in sorted(used)),
            members=tuple(sorted(self._records.members)) if jobs is None else (),
            digest=digest,
        )

    def flows(self, job: str) -> tuple[Flow, ...]:
        """Return a job's flows."""
        found = self._of_job.get(job)
        if found is None:
            hosts = [host for host in self.jobs[job].hosts if host in self._flows]
            found = tuple(chain.from_iterable(self._flows[host].get(job, ()) for host in hosts))
            self._of_job[job] = found
        return found

    def near(self, member: str) -> NearMembers:
        """Return the members that may share links with a member; it may be among them."""
        if self._near is None or self._near.member != member:
            flows = chain.from_iterable(self._flows.get(member, {}).values())
            pairs = {(flow.src, flow.dst) for flow in flows} & self.tables.keys()
            links = set[str]().union(*(self.tables[pair].links for pair in pairs))
            sources = {
                pair[0] for pair, one in self.tables.items() if not links.isdisjoint(one.links)
            }
            ranked = sorted(sources, key=lambda other: _rank(member, other))
            self._near = NearMembers(member, links, tuple(ranked))
        return self._near

    def coupled(self, jobs: Iterable[str]) -> set[str]:
        """Return the jobs whose plan affects that of `jobs`, which are among them.

        Two jobs are coupled if an elephant of each has a path over the same link, used now or not;
        returned is what is coupled directly or through others (schedule/coupling.py).
        """
        return self._coupling.of(jobs, self.jobs, len(self._crossed))

    def _links_of(self, pair: Ends) -> tuple[str, ...]:
        return self.tables[pair].links if pair in self.tables else ()

    def _merge(self, job: str) -> frozenset[str]:
        """Merge a job's profiles; return members that have begun or ceased to take part."""
        before, parts = self.jobs.get(job), self._records.profiles.get(job)
        if parts is None:
            self.jobs.pop(job, None)
            self._flows_changed(job)
            self._tree.put(b"job " + job.encode(), None)
            hosts = _NOBODY
        else:
            now = _merged(job, parts)
            hosts = frozenset(now.hosts)
            if before is None or now.profile != before.profile:
                values = [getattr(now.profile, name) for name in _PLANNED]
                self._tree.put(b"job " + job.encode(), _packed(values))
            self.jobs[job] = now
        were = _NOBODY if before is None else frozenset(before.hosts)
        for host in hosts - were:
            self.jobs_at.setdefault(host, set()).add(job)
        for host in were - hosts:
            self.jobs_at[host].discard(job)
            if not self.jobs_at[host]:
                del self.jobs_at[host]
        return hosts ^ were

    def _read_flows(self, writer: str) -> set[Ends]:
        """Read a member's flows again; return pairs whose table may come or go.

        Of two flows with one id the first job's is kept.
        """
        records = self._records.flows.get(writer, {})
        before, now = self._flows.pop(writer, {}), dict[str, tuple[Flow, ...]]()
        seen = set[str]()
        for job in sorted(records.keys() & self.jobs_at.get(writer, _NOBODY)):
            own = _flows(records[job], job, writer)
            if not seen.isdisjoint(flow.id for flow in own):
                own = tuple(flow for flow in own if flow.id not in seen)
            seen.update(flow.id for flow in own)
            now[job] = before[job] if before.get(job) == own else own
        if now:
            self._flows[writer] = now
        changed = [job for job in before.keys() | now.keys() if before.get(job) != now.get(job)]
        old = [flow for job in changed for flow in before.get(job, ())]
        new = [flow for job in changed for flow in now.get(job, ())]
        for job in changed:
            self._flows_changed(job)
        for flow in old:
            self._tree.put(b"flow " + flow.id.encode(), None)
        for flow in new:
            size = flow.size is SizeClass.ELEPHANT
            values = flow.job, flow.dst, flow.bytes, size, flow.path
            self._tree.put(b"flow " + flow.id.encode(), _packed(values))
        pairs = set[Ends]()
        for flows, more in ((old, -1), (new, 1)):
            ends = [(flow.src, flow.dst) for flow in flows]
            _count_each(self._between, ends, more)
            pairs.update(ends)
        return {pair for pair in pairs if (pair in self._between) != (pair in self.tables)}

    def _flows_changed(self, job: str) -> None:
        self._of_job.pop(job, None)
        self._coupling.flows_changed(job)

    def _read_table(self, pair: Ends) -> set[str]:
        """Read a path table again; return the links that it had and has."""
        before, name = self.tables.pop(pair, None), b"table " + "\0".join(pair).encode()
        self._coupling.table_changed(pair)
        links: frozenset[str] = _NOBODY
        if before is not None:
            links = frozenset(before.links)
            _count_each(self._crossed, before.links, -1)
        content = self._records.paths.get(pair) if pair in self._between else None
        if (content is None) != (before is None):
            place = bisect_left(self._pairs, pair)
            self._pairs[place : place + (before is not None)] = [] if content is None else [pair]
        if content is None:
            self._tree.put(name, None)
            return set(links)
        now = _table(pair, content, self._records.capacities.keys())
        if before is not None and now == before:
            now = before
        self.tables[pair] = now
        _count_each(self._crossed, now.links, 1)
        self._tree.put(name, _packed([(path.id, path.links) for path in now.table.paths]))
        return {*links, *now.links}


def _merged(job: str, records: Iterable[CheckedRecord]) -> MergedJob:
    contents = {held.writer: held.content for held in records}
    parts = {host: one for host, one in contents.items() if isinstance(one, Profile)}
    claims = {host: frozenset(name for name, _ in one.to) for host, one in parts.items()}
    hosts = participants(claims)
    return MergedJob(tuple(sorted(hosts)), merge(job, {host: parts[host] for host in hosts}))


def _flows(held: CheckedRecord, job: str, writer: str) -> tuple[Flow, ...]:
    content = held.content
    if not isinstance(content, Flows):
        return ()
    entries = sorted(content.flows, key=lambda entry: entry.id)
    return tuple(_flow(entry, job, writer) for entry in entries)


def _flow(entry: FlowEntry, job: str, writer: str) -> Flow:
    return Flow(
        id=f"{writer}/{entry.id}",
        job=job,
        src=writer,
        dst=intern(entry.dst),
        bytes=entry.bytes,
        size=SizeClass.ELEPHANT if entry.elephant else SizeClass.MOUSE,
        protocol=intern(entry.protocol),
        src_port=entry.src_port,
        dst_port=entry.dst_port,
        path=intern(entry.path),
    )


def _table(ends: Ends, held: CheckedRecord, known: Collection[str]) -> KnownTable:
    content = held.content
    entries = content.paths if isinstance(content, Paths) else ()
    paths = tuple(
        Path(entry.id, entry.links)  # no plan depends on its ports
        for entry in sorted(entries, key=lambda entry: entry.id)
        if all(link in known for link in entry.links)
    )
    used = dict.fromkeys(chain.from_iterable(path.links for path in paths))
    named = dict.fromkeys(chain.from_iterable(entry.links for entry in entries))
    links = tuple(used)
    if len(paths) == 1 and links == paths[0].links:
        links = paths[0].links  # most tables
    others = tuple(link for link in named if link not in used)
    return KnownTable(PathTable(*ends, paths), links, others)


def _count_each(count: dict[Key, int], keys: Iterable[Key], more: int) -> None:
    for key in keys:
        count[key] = count.get(key, 0) + more
        if not count[key]:
            del count[key]


def _rank(member: str, other: str) -> bytes:
    return blake2b("/".join(sorted((member, other))).encode(), digest_size=8).digest()


def _packed(value: object) -> bytes:
    return msgspec.msgpack.encode(value)
