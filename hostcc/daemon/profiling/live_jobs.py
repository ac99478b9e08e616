"""Lists the jobs that are measured here, managed or found, and which job each process is of."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hostcc.config.schema import Config, port_rules
from hostcc.config.sections.agent import AgentConfig
from hostcc.daemon.jobs.table import JobTable
from hostcc.daemon.supervisor import Host
from hostcc.errors import HostccError
from hostcc.limits import MAX_JOBS, is_job_name
from hostcc.measure.discover.owners import Owners
from hostcc.system.cgroups import CgroupTree, find_mount, resolve_root
from hostcc.system.processes import FoundJob, ProcessRef

PORT_RULE = "port rule"


class LiveJob(NamedTuple):
    """A job as the measuring parts see it; a tuple, as all are made and compared at each tick."""

    name: str
    slot: int = 0
    """Its number in the flow tracker; 0: it is not managed."""
    groups: tuple[Path, ...] = ()
    """cgroup v2 directories that hold its processes only."""
    how: str = "hostcc run"
    """How it was found: `hostcc run`, a port rule or a kind of group."""
    weight: float = 1.0
    flops: float | None = None
    """FLOP of one iteration, as its owner declared; None: not declared."""
    uid: int | None = None
    """The user in whose quota it counts, 0 for what root asked for; None: nobody's, such as the
    job of a port rule, or not known."""

    @property
    def countable(self) -> bool:
        """Whether its bytes can be told from those of others: by slot, cgroups or ports."""
        return bool(self.slot or self.groups) or self.how == PORT_RULE


@dataclass
class DiscoveryResult:
    """What discovery found last; empty where it does not run."""

    found: tuple[FoundJob, ...] = ()
    mount: Path | None = None
    """Where cgroup v2 is mounted."""
    unmanaged: Mapping[str, str] = field(default_factory=dict)
    """Job -> why it, or some of its processes, is not managed."""


def live_jobs(host: Host, seen: DiscoveryResult) -> list[LiveJob]:
    """Return all jobs of this host that can be measured, by name."""
    config, engine = host.config, host.engine
    jobs = of_table(engine.table) if engine is not None else observed(config)
    for found in seen.found:
        if found.id not in jobs and seen.mount is not None:
            groups = tuple(seen.mount / group.lstrip("/") for group in found.groups)
            flops = declared(config, found.id)
            jobs[found.id] = LiveJob(
                found.id, 0, groups, str(found.kind), flops=flops, uid=found.owner or 0
            )
    return [jobs[name] for name in sorted(jobs)][: MAX_JOBS - 1]


def of_table(table: JobTable) -> dict[str, LiveJob]:
    """Return name -> job, of the jobs that are managed."""
    return {
        job.name: LiveJob(
            job.name,
            job.slot,
            job.groups,
            job.how or ("hostcc run" if job.group else PORT_RULE),
            table.weight_of(job),
            declared(table.config, job.name) if job.asked.flops is None else job.asked.flops,
            (table.slots.owner(job.slot) or 0) if job.groups else None,
        )
        for job in table.jobs.values()
    }


def observed(config: Config) -> dict[str, LiveJob]:
    """Return name -> job for an agent that only observes: of port rules, and of cgroups that an
    earlier agent left."""
    try:
        tree = CgroupTree(resolve_root(config.agent.cgroup_root))
        live = filter(tree.populated, tree.children())
        groups = {path.name: (path,) for path in live if is_job_name(path.name)}
    except HostccError:
        groups = {}
    names = {*groups, *port_rules(config).values()}
    return {
        name: LiveJob(
            name,
            groups=groups.get(name, ()),
            how="hostcc run" if name in groups else PORT_RULE,
            flops=declared(config, name),
        )
        for name in names
    }


def host_name(config: Config) -> str:
    """Return the name of this host; agents on one machine have names of their own."""
    own = config.agent.instance
    return socket.gethostname() if own == AgentConfig().instance else own


def declared(config: Config, name: str) -> float | None:
    """Return FLOP of one iteration from the configuration; None: not declared."""
    job = config.job_named(name)
    return job.flops if job is not None else None


def owners(jobs: Iterable[LiveJob], found: Iterable[FoundJob]) -> Owners:
    """Return which job each process belongs to, by cgroup first."""
    mount = find_mount()
    groups = {
        f"/{group.relative_to(mount)}": job.name
        for job in jobs
        for group in job.groups
        if mount is not None and group.is_relative_to(mount)
    }
    v1_groups: dict[str, str] = {}
    loose: dict[ProcessRef, str] = {}
    for one in found:
        v1_groups.update(dict.fromkeys(one.v1_groups, one.id))
        loose.update(dict.fromkeys(one.loose, one.id))
    return Owners(groups, v1_groups, loose)
