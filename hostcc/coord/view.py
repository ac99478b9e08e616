"""Builds the ClusterView for the planner from the store: equal records give equal bytes.

Leaves out everything for which the planner would refuse the view: claimants that take no part in
the job, flows of unknown jobs, paths over links of undeclared capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import msgspec

from hostcc.coord.core.merge import capacity, merge
from hostcc.coord.core.participants import participants
from hostcc.coord.core.payloads import (
    FLOWS,
    PATHS,
    PROFILE,
    FlowEntry,
    Flows,
    Links,
    Paths,
    Profile,
)
from hostcc.coord.core.store import Store
from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable, SizeClass

DIGEST_BYTES = 16
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


@dataclass
class _LiveRecords:
    """Contents of the records of live members, sorted by kind."""

    members: list[str] = field(default_factory=list)
    profiles: dict[str, dict[str, Profile]] = field(default_factory=dict)
    flows: dict[tuple[str, str], Flows] = field(default_factory=dict)
    """By (job, writer)."""
    paths: dict[tuple[str, str], Paths] = field(default_factory=dict)
    """By (writer, destination)."""
    links: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class MergedJob:
    """A job's merged profile, with the profiles it was merged from."""

    parts: Mapping[str, Profile]
    """Profiles by claimant."""
    hosts: frozenset[str]
    """Claimants that take part in the job."""
    profile: JobProfile


@dataclass(frozen=True)
class _KnownTable:
    """A path table, with the record that it was made from."""

    content: Paths
    table: PathTable
    links: frozenset[str]
    """Of all its paths."""


@dataclass
class ViewMemory:
    """Parts of the latest view, to be taken over where their records are the same.

    Few of many records change from one view to the next. Parts that are taken over are the same
    objects, by which the planner recognises them.
    """

    jobs: dict[str, MergedJob] = field(default_factory=dict)
    flows: dict[tuple[str, str], tuple[Flows, tuple[Flow, ...]]] = field(default_factory=dict)
    """By (job, writer)."""
    tables: dict[tuple[str, str], _KnownTable] = field(default_factory=dict)
    """By (source, destination)."""
    links: frozenset[str] = frozenset()
    """Links of declared capacity, on which the tables depend."""


@dataclass(frozen=True)
class Snapshot:
    """A view, with the members that take part in each job."""

    view: ClusterView
    hosts: Mapping[str, frozenset[str]]
    """Job -> members that run a part of it."""


def build(
    store: Store,
    is_dead: Callable[[str], bool],
    rules: str,
    memory: ViewMemory | None = None,
) -> Snapshot:
    """Return the view of all members that are not dead.

    `rules` is everything else that the plan depends on, as text: the scheduler's version and
    options. It is part of the digest, so equal digests mean equal plans. `memory` is that of the
    view before, of the same store or not; it is brought up to date.
    """
    records = _gather(store, is_dead)
    memory = ViewMemory() if memory is None else memory
    before, merged = memory.jobs, {}
    for job in sorted(records.profiles):
        parts, known = records.profiles[job], before.get(job)
        merged[job] = known if known is not None and known.parts == parts else _merged(job, parts)
    memory.jobs = merged
    hosts = {job: one.hosts for job, one in merged.items()}
    capacities = {link: capacity(values) for link, values in records.links.items()}
    if memory.links != capacities.keys():
        memory.links, memory.tables = frozenset(capacities), {}
    flows = _flows(records, hosts, memory)
    memory.tables = _tables(records, {(flow.src, flow.dst) for flow in flows}, memory)
    used = frozenset[str]().union(*(known.links for known in memory.tables.values()))
    view = ClusterView(
        jobs=tuple(one.profile for one in merged.values()),
        flows=flows,
        tables=tuple(known.table for known in memory.tables.values()),
        links=tuple((link, capacities[link]) for link in sorted(used)),
        members=tuple(sorted(records.members)),
    )
    return Snapshot(replace(view, digest=digest(view, rules)), hosts)


def digest(view: ClusterView, rules: str) -> str:
    """Return the hash of exactly what a plan depends on (schedule.problem.Problem), and of the
    rules."""
    content = (
        rules,
        [
            tuple(getattr(job, name) for name in _PLANNED)
            for job in sorted(view.jobs, key=lambda job: job.job)
        ],
        [
            (flow.id, flow.job, flow.src, flow.dst, flow.bytes, flow.size, flow.path)
            for flow in sorted(view.flows, key=lambda flow: flow.id)
        ],
        [
            (table.src, table.dst, sorted((path.id, path.links) for path in table.paths))
            for table in sorted(view.tables, key=lambda table: (table.src, table.dst))
        ],
        sorted(view.links),
    )
    return blake2b(msgspec.msgpack.encode(content), digest_size=DIGEST_BYTES).hexdigest()


def neighbours(snapshot: Snapshot, member: str, most: int) -> tuple[str, ...]:
    """Return members that share a job with `member`, then those whose flows may share its links.

    At most `most`. Members that share only links are then sampled: deterministically, but
    differently for each member.
    """
    job_peers: set[str] = set()
    for hosts in snapshot.hosts.values():
        if member in hosts:
            job_peers |= hosts
    job_peers.discard(member)
    found = sorted(job_peers)[:most]
    others = _sharing(snapshot.view, member) - job_peers - {member}
    if len(found) + len(others) > most:
        chosen = sorted(others, key=lambda other: _rank(member, other))
        return (*found, *sorted(chosen[: most - len(found)]))
    return (*found, *sorted(others))


def _merged(job: str, parts: dict[str, Profile]) -> MergedJob:
    claims = {host: frozenset(name for name, _ in one.to) for host, one in parts.items()}
    hosts = participants(claims)
    return MergedJob(parts, hosts, merge(job, {host: parts[host] for host in hosts}))


def _sharing(view: ClusterView, member: str) -> set[str]:
    own = {
        link
        for table in view.tables
        if table.src == member
        for path in table.paths
        for link in path.links
    }
    if not own:
        return set()
    return {
        table.src
        for table in view.tables
        if any(not own.isdisjoint(path.links) for path in table.paths)
    }


def _rank(member: str, other: str) -> bytes:
    return blake2b("/".join(sorted((member, other))).encode(), digest_size=8).digest()


def _gather(store: Store, is_dead: Callable[[str], bool]) -> _LiveRecords:
    records = _LiveRecords()
    for writer in store.writers():
        if is_dead(writer) or store.member(writer) is None:
            continue
        records.members.append(writer)
        for (kind, key), held in store.of(writer).items():
            content = held.content
            if kind == PROFILE and isinstance(content, Profile):
                records.profiles.setdefault(key, {})[writer] = content
            elif kind == FLOWS and isinstance(content, Flows):
                records.flows[key, writer] = content
            elif kind == PATHS and isinstance(content, Paths):
                records.paths[writer, key] = content
            elif isinstance(content, Links):
                for link, value in content.links:
                    records.links.setdefault(link, []).append(value)
    return records


def _flows(
    records: _LiveRecords, hosts: Mapping[str, frozenset[str]], memory: ViewMemory
) -> tuple[Flow, ...]:
    # Only of hosts that take part in the job; of two flows with one id the first job's is kept.
    found: dict[str, Flow] = {}
    made: dict[tuple[str, str], tuple[Flows, tuple[Flow, ...]]] = {}
    for at in sorted(records.flows):
        job, writer = at
        if writer not in hosts.get(job, ()):
            continue
        content, before = records.flows[at], memory.flows.get(at)
        if before is None or before[0] is not content:
            entries = sorted(content.flows, key=lambda entry: entry.id)
            before = content, tuple(_flow(entry, job, writer) for entry in entries)
        made[at] = before
        for flow in before[1]:
            found.setdefault(flow.id, flow)
    memory.flows = made
    return tuple(found.values())


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


def _tables(
    records: _LiveRecords, ends: Iterable[tuple[str, str]], memory: ViewMemory
) -> dict[tuple[str, str], _KnownTable]:
    tables = {}
    for at in sorted(ends):
        content, before = records.paths.get(at), memory.tables.get(at)
        if content is None:
            continue
        if before is None or before.content is not content:
            before = _table(at, content, memory.links)
        tables[at] = before
    return tables


def _table(ends: tuple[str, str], content: Paths, known: frozenset[str]) -> _KnownTable:
    paths = tuple(
        Path(entry.id, entry.links, entry.ports)
        for entry in sorted(content.paths, key=lambda entry: entry.id)
        if known.issuperset(entry.links)
    )
    links = frozenset(link for path in paths for link in path.links)
    return _KnownTable(content, PathTable(*ends, paths), links)
