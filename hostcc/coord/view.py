"""The store as the ClusterView that a plan is made of: the same bytes for the same records.

Everything that would make a plan refuse the view is left out here: claimants that are no part
of a job, flows of unknown jobs, paths over links that nobody has declared.
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
"""What of a job's profile a plan depends on."""


@dataclass
class _LiveRecords:
    """What live members say, sorted by what it is about."""

    members: list[str] = field(default_factory=list)
    profiles: dict[str, dict[str, Profile]] = field(default_factory=dict)
    flows: dict[tuple[str, str], Flows] = field(default_factory=dict)
    """By (job, writer)."""
    paths: dict[tuple[str, str], Paths] = field(default_factory=dict)
    """By (writer, destination)."""
    links: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class MergedJob:
    """A job, and what it was merged from."""

    parts: Mapping[str, Profile]
    """By claimant."""
    hosts: frozenset[str]
    """The claimants that take part."""
    profile: JobProfile


@dataclass(frozen=True)
class Snapshot:
    """A view, and who takes part in its jobs."""

    view: ClusterView
    hosts: Mapping[str, frozenset[str]]
    """Job -> members that run a part of it."""


def build(
    store: Store,
    is_dead: Callable[[str], bool],
    rules: str,
    memory: dict[str, MergedJob] | None = None,
) -> Snapshot:
    """The view of the members that are not dead.

    `rules` is everything else that the plan depends on, as text: the scheduler's version and
    options.  It is a part of the digest, so that equal digests mean equal plans.  `memory`
    keeps the jobs as they were merged last: of many jobs few change from one view to the next.
    """
    said = _gather(store, is_dead)
    before = {} if memory is None else memory
    merged = {}
    for job in sorted(said.profiles):
        parts, known = said.profiles[job], before.get(job)
        merged[job] = known if known is not None and known.parts == parts else _merged(job, parts)
    if memory is not None:
        memory.clear()
        memory.update(merged)
    hosts = {job: one.hosts for job, one in merged.items()}
    capacities = {link: capacity(values) for link, values in said.links.items()}
    flows = _flows(said, hosts)
    tables = _tables(said, {(flow.src, flow.dst) for flow in flows}, capacities)
    used = sorted({link for table in tables for path in table.paths for link in path.links})
    view = ClusterView(
        jobs=tuple(one.profile for one in merged.values()),
        flows=flows,
        tables=tables,
        links=tuple((link, capacities[link]) for link in used),
        members=tuple(sorted(said.members)),
    )
    return Snapshot(replace(view, digest=digest(view, rules)), hosts)


def digest(view: ClusterView, rules: str) -> str:
    """Over exactly what a plan depends on (schedule.problem.Problem), and the rules."""
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
    """Members that share jobs with one, then those whose flows may share links with its own.

    When there are more than `most`, those of the links are thinned out, differently for each
    member but always in the same way.
    """
    mates: set[str] = set()
    for hosts in snapshot.hosts.values():
        if member in hosts:
            mates |= hosts
    mates.discard(member)
    found = sorted(mates)[:most]
    others = _sharing(snapshot.view, member) - mates - {member}
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
    said = _LiveRecords()
    for writer in store.writers():
        if is_dead(writer) or store.member(writer) is None:
            continue
        said.members.append(writer)
        for (kind, key), held in store.of(writer).items():
            content = held.content
            if kind == PROFILE and isinstance(content, Profile):
                said.profiles.setdefault(key, {})[writer] = content
            elif kind == FLOWS and isinstance(content, Flows):
                said.flows[key, writer] = content
            elif kind == PATHS and isinstance(content, Paths):
                said.paths[writer, key] = content
            elif isinstance(content, Links):
                for link, value in content.links:
                    said.links.setdefault(link, []).append(value)
    return said


def _flows(said: _LiveRecords, hosts: Mapping[str, frozenset[str]]) -> tuple[Flow, ...]:
    """Of the hosts that take part in a job; of two of one name those of the first job."""
    found: dict[str, Flow] = {}
    for (job, writer), content in sorted(said.flows.items()):
        if writer in hosts.get(job, ()):
            for entry in sorted(content.flows, key=lambda entry: entry.id):
                flow = _flow(entry, job, writer)
                found.setdefault(flow.id, flow)
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
    said: _LiveRecords, ends: Iterable[tuple[str, str]], known: Mapping[str, float]
) -> tuple[PathTable, ...]:
    tables = []
    for src, dst in sorted(ends):
        content = said.paths.get((src, dst))
        if content is None:
            continue
        paths = tuple(
            Path(entry.id, entry.links, entry.ports)
            for entry in sorted(content.paths, key=lambda entry: entry.id)
            if known.keys() >= set(entry.links)
        )
        tables.append(PathTable(src, dst, paths))
    return tuple(tables)
