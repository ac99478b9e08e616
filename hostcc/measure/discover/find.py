"""From a snapshot of a host to the jobs on it.  Pure.

Each process belongs to at most one job: its cgroup decides, then the configuration's
rules, then who started it, then its environment.  A job's id never depends on the host,
unless the job says that it lives on one host only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from hostcc.limits import MAX_JOBS
from hostcc.measure.discover import cgroup_paths
from hostcc.measure.discover.names import address, is_loopback, job_id, number
from hostcc.system.processes import (
    FLOPS,
    MAX_CMDLINE,
    MAX_SAID,
    ROOT_UID,
    WEIGHT,
    FoundJob,
    Kind,
    Pods,
    Process,
    Rules,
    Said,
    Snapshot,
)

OWN = "/hostcc/"
"""In a v2 path: a group of `hostcc run`, by this agent or another one, which needs no finding."""
MAX_EVIDENCE = 4
_STEPD = re.compile(r"slurmstepd: \[([0-9]{1,10})\.[^\]]{1,64}\]")
_ANCESTORS = 64


@dataclass(frozen=True)
class Claim:
    """That a process belongs to a job, and why."""

    id: str
    kind: Kind
    why: str
    group: str = ""
    """The v2 group that is the job's alone, if there is one."""
    v1_group: str = ""
    ruled: bool = False
    """Whether the job is one that root's configuration names."""


@dataclass
class _Job:
    kind: Kind
    ruled: bool
    groups: set[str] = field(default_factory=set)
    v1_groups: set[str] = field(default_factory=set)
    members: dict[int, Process] = field(default_factory=dict)
    evidence: dict[str, None] = field(default_factory=dict)


class _Jobs(dict[str, _Job]):
    """By id; of one user, as far as a job's first process tells, at most MAX_JOBS - 1."""

    def __init__(self) -> None:
        super().__init__()
        self.by_user = Counter[int]()


def find(snapshot: Snapshot, rules: Rules) -> tuple[FoundJob, ...]:
    """The jobs on this host by id, at most MAX_JOBS - 1 of each user."""
    table = {process.pid: process for process in snapshot.processes}
    jobs = _Jobs()
    rest: list[Process] = []
    masters = _pod_masters(snapshot, rules)
    for process in snapshot.processes:
        if OWN in f"{process.group}/":
            continue
        claim = _by_group(process, rules, masters) or _by_rule(process, rules)
        if claim is None:
            claim = _by_ancestor(process, table, rules)
        if claim is None:
            rest.append(process)
        else:
            _take(jobs, claim, process)
    if rules.environ:
        _by_environ(jobs, rest, snapshot, rules)
    return tuple(_found(name, jobs[name]) for name in sorted(jobs))


def _take(jobs: _Jobs, claim: Claim, process: Process) -> None:
    job = jobs.get(claim.id)
    if job is None:
        if jobs.by_user[process.uid] >= MAX_JOBS - 1:
            return
        jobs.by_user[process.uid] += 1
        job = jobs[claim.id] = _Job(claim.kind, claim.ruled)
    job.members[process.pid] = process
    if claim.group:
        job.groups.add(claim.group)
    if claim.v1_group:
        job.v1_groups.add(claim.v1_group)
    if len(job.evidence) < MAX_EVIDENCE:
        job.evidence[claim.why] = None


def _found(name: str, job: _Job) -> FoundJob:
    inside = tuple(f"{group}/" for group in job.groups)
    loose = [p.ref for p in job.members.values() if not f"{p.group}/".startswith(inside)]
    return FoundJob(
        id=name,
        kind=job.kind,
        groups=tuple(sorted(job.groups)),
        v1_groups=tuple(sorted(job.v1_groups)),
        pids=tuple(sorted(job.members)),
        loose=tuple(sorted(loose)),
        evidence=tuple(job.evidence),
        owner=None if job.ruled else _owner(job),
        said=tuple(_said(job)),
    )


def _said(job: _Job) -> Iterator[Said]:
    """What its processes ask for by their environment: root's first, then the eldest's."""
    those = [one for one in job.members.values() if WEIGHT in one.environ or FLOPS in one.environ]
    those.sort(key=lambda one: (one.uid != ROOT_UID, one.started, one.pid))
    for variable in (WEIGHT, FLOPS):
        texts: dict[tuple[str, bool], Said] = {}
        for one in those:
            if (text := one.environ.get(variable)) is not None and len(texts) < MAX_SAID:
                by_root = one.uid == ROOT_UID
                texts.setdefault((text, by_root), Said(variable, text, one.uid, one.pid))
        yield from texts.values()


def _owner(job: _Job) -> int:
    """The user whose processes it has: of a pod most of them, as there is one that keeps it; of
    other jobs all but those that root started it with."""
    uids = [process.uid for process in job.members.values()]
    if job.kind is not Kind.KUBERNETES:
        uids = [uid for uid in uids if uid != ROOT_UID] or uids
    count = Counter(uids)
    return min(count, key=lambda uid: (-count[uid], uid))


# By cgroup.


def _by_group(process: Process, rules: Rules, masters: dict[str, str]) -> Claim | None:
    for path in _paths(process):
        v2 = path == process.group
        if rules.slurm and (slurm := cgroup_paths.slurm_job(path)):
            return Claim(
                _slurm_id(slurm.name, rules),
                Kind.SLURM,
                f"cgroup {slurm.group}",
                slurm.group if v2 else "",
                "" if v2 else slurm.group,
            )
        if rules.kubernetes is not Pods.OFF and (pod := cgroup_paths.pod(path)):
            name = masters.get(pod.uid)
            if name is None and rules.kubernetes is Pods.TRAINING:
                return None
            why = f"pod {pod.uid}" + ("" if name is None else ", joined by its MASTER_ADDR")
            return Claim(
                name or job_id("k8s", "pod", pod.uid),
                Kind.KUBERNETES,
                why,
                pod.group if v2 else "",
                "" if v2 else pod.group,
            )
    return None


def _paths(process: Process) -> Iterator[str]:
    if process.group:
        yield process.group
    yield from process.v1_groups


def _slurm_id(name: str, rules: Rules) -> str:
    parts = (rules.slurm_cluster, name) if rules.slurm_cluster else (name,)
    return job_id("slurm", *parts)


def _pod_masters(snapshot: Snapshot, rules: Rules) -> dict[str, str]:
    """Pod uid -> id of the job that the pod is a part of, for pods that train together."""
    if rules.kubernetes is Pods.OFF:
        return {}
    found: dict[str, str] = {}
    for process in sorted(snapshot.processes, key=lambda p: p.pid):
        if "MASTER_ADDR" not in process.environ:
            continue
        pod = next((pod for path in _paths(process) if (pod := cgroup_paths.pod(path))), None)
        meeting = _meeting_point(process) if pod is not None else None
        if pod is None or meeting is None or pod.uid in found:
            continue
        host, port = meeting
        if is_loopback(host):
            # Some operators tell the first pod "localhost" and all others its name.
            own = address(process.environ.get("HOSTNAME"))
            alone = (number(process.environ.get("WORLD_SIZE")) or 1) == 1
            name = job_id("k8s", "pod", pod.uid)
            if own is not None and not alone and rules.environ:
                name = job_id("k8s", own, port)
            found[pod.uid] = name
        elif rules.environ:
            found[pod.uid] = job_id("k8s", host, port)
        else:
            found[pod.uid] = job_id("k8s", "pod", pod.uid)
    return found


# By rule.


def _by_rule(process: Process, rules: Rules) -> Claim | None:
    for path in _paths(process):
        unit = cgroup_paths.unit(path) if rules.units else None
        if unit is None:
            continue
        for rule in rules.units:
            if (unit.manager is None or rule.user) and fnmatchcase(unit.name, rule.unit):
                v2 = path == process.group
                owner = () if unit.manager is None else (f"uid{unit.manager}",)
                return Claim(
                    job_id(rule.job) if rule.job else job_id("unit", unit.name, *owner),
                    Kind.UNIT,
                    f"unit {unit.name} matches {rule.unit}",
                    unit.group if v2 else "",
                    "" if v2 else unit.group,
                    ruled=unit.manager is None or bool(rule.job),
                )
    for wanted in rules.processes:
        if wanted.uid is not None and wanted.uid != process.uid:
            continue
        line = process.cmdline[:MAX_CMDLINE]
        if line and fnmatchcase(line, wanted.command):
            why = f"command line matches {wanted.command}"
            return Claim(job_id(wanted.job), Kind.PROCESS, why, ruled=True)
    return None


# By who started it.


def _by_ancestor(process: Process, table: dict[int, Process], rules: Rules) -> Claim | None:
    """A child of root's `slurmstepd: [N.STEP]`, where Slurm tracks no cgroups."""
    at: Process | None = process
    for _ in range(_ANCESTORS if rules.slurm else 0):
        at = table.get(at.parent) if at is not None and at.parent > 1 else None
        if at is None:
            return None
        if at.uid == ROOT_UID and at.comm == "slurmstepd" and (step := _STEPD.match(at.cmdline)):
            return Claim(_slurm_id(step[1], rules), Kind.SLURM, f"started by slurmstepd {at.pid}")
    return None


# By environment.


def _by_environ(jobs: _Jobs, rest: list[Process], snapshot: Snapshot, rules: Rules) -> None:
    """Add what only environments tell.  They can hold anything, see docs/discovery.md."""
    slurm_here = any(cgroup_paths.is_slurm_root(group) for group in snapshot.groups) or any(
        job.kind is Kind.SLURM for job in jobs.values()
    )
    owners = {
        name: {p.uid for p in job.members.values()} - {ROOT_UID}
        for name, job in jobs.items()
        if job.kind is Kind.SLURM
    }
    for process in rest:
        if any(cgroup_paths.pod(path) for path in _paths(process)):
            continue  # a pod that is no job
        claim = None
        if rules.slurm:
            claim = _slurm_environ(process, owners, slurm_here, rules)
        if claim is None:
            claim = _rendezvous(process, snapshot.host)
        if claim is not None:
            _take(jobs, claim, process)


def _slurm_environ(
    process: Process, owners: dict[str, set[int]], slurm_here: bool, rules: Rules
) -> Claim | None:
    job, rank = (number(process.environ.get(key)) for key in ("SLURM_JOB_ID", "SLURM_PROCID"))
    if job is None or rank is None:
        return None
    name = _slurm_id(str(job), rules)
    why = f"SLURM_JOB_ID of process {process.pid}"
    if name in owners:
        same = process.uid in owners[name]
        return Claim(name, Kind.SLURM, f"{why}, same user") if same else None
    if slurm_here:
        return None  # Slurm tracks its jobs here, and this is none of them
    return Claim(job_id(name, f"uid{process.uid}"), Kind.SLURM, why)


def _rendezvous(process: Process, host: str) -> Claim | None:
    meeting = _meeting_point(process)
    if meeting is None:
        return None
    at, port = meeting
    owner = f"uid{process.uid}"
    parts = (host, owner, port) if is_loopback(at) else (at, owner, port)
    return Claim(job_id("rdv", *parts), Kind.RENDEZVOUS, f"MASTER_ADDR of process {process.pid}")


def _meeting_point(process: Process) -> tuple[str, str] | None:
    """(address, port) where the ranks of a job meet; None without a rank and an address."""
    if number(process.environ.get("RANK")) is None:
        return None
    host, port = address(process.environ.get("MASTER_ADDR")), process.environ.get("MASTER_PORT")
    given = number(port)
    if host is None or (port is not None and (given is None or given > 65535)):
        return None
    return host, str(given or 0)
