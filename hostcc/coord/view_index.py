"""Everything a view has, by name, brought up to date with the records that have changed.

The cost of an update grows with what has changed and not with the cluster. Parts that stay are the
same objects, by which the planner recognises them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import msgspec

from hostcc.coord.core.merge import merge
from hostcc.coord.core.participants import participants
from hostcc.coord.core.payloads import FlowEntry, Flows, Paths, Profile
from hostcc.coord.core.store import Store
from hostcc.coord.digest_tree import DigestTree
from hostcc.coord.live_records import Ends, LiveRecords
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
    """A job's merged profile, with the profiles it was merged from."""

    parts: Mapping[str, Profile]
    """Profiles by claimant."""
    hosts: frozenset[str]
    """Claimants that take part in the job."""
    profile: JobProfile


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A path table, with the links of all its paths."""

    table: PathTable
    links: frozenset[str]
    mentioned: frozenset[str]
    """Links of the record, also those of undeclared capacity."""


class ViewIndex:
    """Jobs, flows, tables and links of the view of all live members."""

    def __init__(self) -> None:
        self.jobs: dict[str, MergedJob] = {}
        self.jobs_at: dict[str, set[str]] = {}
        """By member: jobs that it takes part in."""
        self.tables: dict[Ends, KnownTable] = {}
        """Of pairs with flows between them."""
        self.ends_on: dict[str, set[Ends]] = {}
        """By link: tables with a path over it."""
        self.updates = 0
        """Number of updates so far."""
        self._records = LiveRecords()
        self._flows: dict[str, dict[str, tuple[Flow, ...]]] = {}
        """By member, by job: of members that take part in the job."""
        self._made: dict[str, dict[str, tuple[Flows, tuple[Flow, ...]]]] = {}
        """By member, by job: records, and all flows made of each."""
        self._between: dict[Ends, dict[str, int]] = {}
        """By pair: jobs with flows between the two, and how many."""
        self._elephants: dict[Ends, dict[str, int]] = {}
        """The same, of flows that may meet others on links."""
        self._mentions: dict[str, set[Ends]] = {}
        """By link, declared or not: tables whose record has it."""
        self._tree = DigestTree()

    def update(self, store: Store, is_dead: Callable[[str], bool]) -> None:
        """Read what has changed since the last call."""
        self.updates += 1
        changed = self._records.update(store, is_dead)
        writers = changed.writers
        for job in changed.jobs:
            writers |= self._merge(job)
        ends = changed.ends & self._between.keys()
        for writer in writers:
            ends |= self._read_flows(writer)
        for link in changed.links:
            ends |= self._mentions.get(link, set())
        links = changed.links
        for pair in ends:
            links |= self._read_table(pair)
        for link in links:
            value = self._records.capacities.get(link) if link in self.ends_on else None
            self._tree.put(b"link " + link.encode(), None if value is None else _packed(value))

    def digest(self, rules: str) -> str:
        """Return the hash of exactly what a plan depends on (schedule.problem.Problem), and of the
        rules."""
        return self._tree.digest(rules)

    def view(self, digest: str, jobs: Collection[str] | None = None) -> ClusterView:
        """Return the view; `jobs`: with these alone, and what belongs to them."""
        chosen = sorted(self.jobs if jobs is None else jobs)
        flows = tuple(chain.from_iterable(map(self.flows, chosen)))
        pairs = {(flow.src, flow.dst) for flow in flows} & self.tables.keys()
        tables = [self.tables[pair] for pair in sorted(pairs)]
        used = frozenset[str]().union(*(one.links for one in tables))
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
        hosts = sorted(self.jobs[job].hosts & self._flows.keys())
        return tuple(chain.from_iterable(self._flows[host].get(job, ()) for host in hosts))

    def links_from(self, member: str) -> set[str]:
        """Return the links that flows of a member may cross."""
        flows = chain.from_iterable(self._flows.get(member, {}).values())
        pairs = {(flow.src, flow.dst) for flow in flows} & self.tables.keys()
        return set().union(*(self.tables[pair].links for pair in pairs))

    def coupled(self, jobs: Iterable[str]) -> set[str]:
        """Return the jobs whose plan affects that of `jobs`, which are among them.

        Two jobs are coupled if an elephant of each has a path over the same link, used now or not;
        returned is what is coupled directly or through others (schedule/coupling.py).
        """
        found = set(jobs)
        waiting = sorted(found)
        links, near = set[str](), set[Ends]()
        while waiting:
            for pair in self._elephant_pairs(waiting.pop()):
                fresh = self.tables[pair].links - links
                if not fresh and pair in near:
                    continue
                links |= fresh
                pairs = {pair}.union(*(self.ends_on[link] for link in fresh)) - near
                near |= pairs
                others = set[str]().union(*(self._elephants.get(one, ()) for one in pairs)) - found
                found |= others
                waiting += others
        return found

    def _elephant_pairs(self, job: str) -> Iterator[Ends]:
        for flow in self.flows(job):
            pair = flow.src, flow.dst
            if _couples(flow) and pair in self.tables:
                yield pair

    def _merge(self, job: str) -> frozenset[str]:
        """Merge a job's profiles; return members that have begun or ceased to take part."""
        before, parts = self.jobs.get(job), self._records.profiles.get(job)
        if parts is None:
            self.jobs.pop(job, None)
            self._tree.put(b"job " + job.encode(), None)
            hosts = _NOBODY
        else:
            now = _merged(job, parts)
            hosts = now.hosts
            if before is None or now.profile != before.profile:
                values = [getattr(now.profile, name) for name in _PLANNED]
                self._tree.put(b"job " + job.encode(), _packed(values))
            self.jobs[job] = now
        were = _NOBODY if before is None else before.hosts
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
        records, known = self._records.flows.get(writer, {}), self._made.pop(writer, {})
        before, now = self._flows.pop(writer, {}), dict[str, tuple[Flow, ...]]()
        seen = set[str]()
        made: dict[str, tuple[Flows, tuple[Flow, ...]]] = {}
        for job in sorted(records.keys() & self.jobs_at.get(writer, _NOBODY)):
            one = known.get(job)
            if one is None or one[0] is not records[job]:
                one = records[job], _flows(records[job], job, writer)
            made[job] = one
            own = one[1]
            if not seen.isdisjoint(flow.id for flow in own):
                own = tuple(flow for flow in own if flow.id not in seen)
            seen.update(flow.id for flow in own)
            now[job] = before[job] if before.get(job) == own else own
        if now:
            self._flows[writer], self._made[writer] = now, made
        changed = [job for job in before.keys() | now.keys() if before.get(job) != now.get(job)]
        pairs = set[Ends]()
        for job in changed:
            for flow in before.get(job, ()):
                pairs.add((flow.src, flow.dst))
                self._count(flow, -1)
                self._tree.put(b"flow " + flow.id.encode(), None)
        had = pairs - self._between.keys()
        for job in changed:
            for flow in now.get(job, ()):
                pairs.add((flow.src, flow.dst))
                self._count(flow, 1)
                size = flow.size is SizeClass.ELEPHANT
                values = flow.job, flow.dst, flow.bytes, size, flow.path
                self._tree.put(b"flow " + flow.id.encode(), _packed(values))
        return had | {pair for pair in pairs if pair not in self.tables}

    def _count(self, flow: Flow, more: int) -> None:
        _add(self._between, flow, more)
        if _couples(flow):
            _add(self._elephants, flow, more)

    def _read_table(self, pair: Ends) -> set[str]:
        """Read a path table again; return the links that it had and has."""
        before, name = self.tables.pop(pair, None), b"table " + "\0".join(pair).encode()
        links: frozenset[str] = _NOBODY
        if before is not None:
            links = before.links
            _remove(self.ends_on, before.links, pair)
            _remove(self._mentions, before.mentioned, pair)
        content = self._records.paths.get(pair) if pair in self._between else None
        if content is None:
            self._tree.put(name, None)
            return set(links)
        now = _table(pair, content, self._records.capacities.keys())
        if before is not None and now == before:
            now = before
        self.tables[pair] = now
        for index, those in ((self.ends_on, now.links), (self._mentions, now.mentioned)):
            for link in those:
                index.setdefault(link, set()).add(pair)
        self._tree.put(name, _packed([(path.id, path.links) for path in now.table.paths]))
        return {*links, *now.links}


def _merged(job: str, parts: Mapping[str, Profile]) -> MergedJob:
    claims = {host: frozenset(name for name, _ in one.to) for host, one in parts.items()}
    hosts = participants(claims)
    return MergedJob(parts, hosts, merge(job, {host: parts[host] for host in hosts}))


def _flows(content: Flows, job: str, writer: str) -> tuple[Flow, ...]:
    entries = sorted(content.flows, key=lambda entry: entry.id)
    return tuple(_flow(entry, job, writer) for entry in entries)


def _flow(entry: FlowEntry, job: str, writer: str) -> Flow:
    return Flow(
        id=f"{writer}/{entry.id}",
        job=job,
        src=writer,
        dst=entry.dst,
        bytes=entry.bytes,
        size=SizeClass.ELEPHANT if entry.elephant else SizeClass.MOUSE,
        protocol=entry.protocol,
        src_port=entry.src_port,
        dst_port=entry.dst_port,
        path=entry.path,
    )


def _table(ends: Ends, content: Paths, known: Collection[str]) -> KnownTable:
    paths = tuple(
        Path(entry.id, entry.links, entry.ports)
        for entry in sorted(content.paths, key=lambda entry: entry.id)
        if all(link in known for link in entry.links)
    )
    links = frozenset(link for path in paths for link in path.links)
    mentioned = frozenset(_links(content))
    return KnownTable(
        PathTable(*ends, paths), links, links if len(links) == len(mentioned) else mentioned
    )


def _links(content: Paths) -> Iterator[str]:
    return chain.from_iterable(entry.links for entry in content.paths)


def _couples(flow: Flow) -> bool:
    """Return whether a flow gets a path from a plan, and so may meet others on links."""
    return flow.size is SizeClass.ELEPHANT and flow.bytes > 0


def _add(count: dict[Ends, dict[str, int]], flow: Flow, more: int) -> None:
    pair = flow.src, flow.dst
    jobs = count.setdefault(pair, {})
    jobs[flow.job] = jobs.get(flow.job, 0) + more
    if not jobs[flow.job]:
        del jobs[flow.job]
    if not jobs:
        del count[pair]


def _remove(index: dict[str, set[Ends]], links: Iterable[str], pair: Ends) -> None:
    for link in links:
        index[link].discard(pair)
        if not index[link]:
            del index[link]


def _packed(value: object) -> bytes:
    return msgspec.msgpack.encode(value)
