"""`hostcc run` and `hostcc job`: which job a process is of, and what its owner may ask for it.

Root's processes go where root says.  A user's process keeps its limits: one that is in a job
already, or in the cgroup of a workload manager, stays there, and that job is meant.  Others enter a
cgroup of their job below their own, or one of the agent's where cgroup v2 limits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from hostcc.answers.host import JobChange, JobParameters, Registration
from hostcc.config.sections.job import JobRequest
from hostcc.daemon.api.credentials import Peer, PeerProcess
from hostcc.daemon.api.messages import ChangeJob, Register
from hostcc.daemon.jobs import requests, rights
from hostcc.daemon.jobs.sockets import Job
from hostcc.daemon.jobs.table import JobTable
from hostcc.daemon.profiling.live_jobs import declared, host_name
from hostcc.daemon.registry import Handlers, Registry
from hostcc.daemon.supervisor import Host, in_thread
from hostcc.errors import HostccError
from hostcc.measure.discover import cgroup_paths
from hostcc.measure.discover.find import find
from hostcc.system import procfs
from hostcc.system.cgroups import BASE, find_mount, limits_nothing
from hostcc.system.process_scan import Scanner, read
from hostcc.system.processes import FoundJob, Pods, Snapshot

MAX_MEMBERS = 4096
"""Processes of a workload manager's job that are read to find its name."""


class Observing(Host, Protocol):
    """The agent, which says why it only observes."""

    @property
    def observing(self) -> str:
        """Empty while it acts."""


@dataclass(frozen=True)
class Membership:
    """The job of a process that has asked."""

    job: str
    group: Path
    joined: bool = False
    marked: bool = False


class JobMembership:
    """Answers `register` and `job`."""

    def __init__(self, host: Observing, roster: Registry) -> None:
        self._host, self._roster = host, roster

    @property
    def handlers(self) -> Handlers:
        """The requests that it answers."""
        return {Register: self._register, ChangeJob: self._change}

    async def _register(self, request: Register, peer: Peer) -> Registration:
        wishes = _wishes(request)
        rights.check_request(wishes, self._host.config.users, peer.uid)
        if peer.uid == 0 and peer.pid <= 0:  # of another PID namespace: it enters by itself
            group = self._table().register(request.job, wishes, peer.pid)
            found = Membership(request.job, group)
        else:
            with PeerProcess(peer) as process:
                home = self._table().tree.home_of(peer.pid)
                found = await self._joined(request, wishes, peer, home)
                try:
                    process.check()
                except HostccError:  # whoever has its number now was moved in its place
                    if found.joined:
                        self._table().tree.enter(Path(home), peer.pid)
                    raise
        table = self._table()
        self._roster.parts.wake()  # its bytes count from the first one, or its start is not known
        owner = requests.owner(table, found.job)
        refused = rights.refused(self._host.config.users, owner)
        marks = "" if "marks" in refused else self._roster.measurement.marking.socket
        return Registration(
            job=found.job,
            cgroup=str(found.group),
            joined=found.joined,
            marks=marks or None,
            rdma={} if "rdma" in refused else self._roster.rdma.joined(),
            marked=found.marked,
            refused=refused,
        )

    async def _joined(
        self, request: Register, wishes: JobRequest, peer: Peer, home: str
    ) -> Membership:
        pid, uid, table = peer.pid, peer.uid, self._table()
        inside = _job_at(table, home)
        fresh = inside is None or (uid != 0 and requests.owner(table, inside.name) == 0)
        ours = Path(home).is_relative_to(table.tree.root)
        managers = _group_of_manager(pid) if fresh and (ours or uid != 0) else None
        if managers is not None:
            if not ours:
                raise HostccError(f"{home} is outside of agent.cgroup_root, {table.tree.root}")
            found = await in_thread(self._managed, pid, managers)
            table = self._table()
            return self._marked(table, self._follow(table, found, pid), wishes, peer)
        if inside is not None and _stays(inside, home, uid):
            return self._marked(table, inside, wishes, peer)
        name = rights.full_name(request.job, uid)
        if name in table.jobs and not wishes.empty:
            rights.check_earlier(name, table.jobs[name].wishes, uid)
        if uid != 0:
            self._place(table, name, home, inside)
        owner = None if uid == 0 else uid
        if uid == 0 and rights.user_in(name) is not None:
            wishes = replace(wishes, by_root=not wishes.empty)
        group = table.register(name, wishes, pid, f"hostcc run, by uid {uid}", owner)
        joined = request.join and table.enter(name, pid)
        if uid != 0 and not joined:
            raise HostccError(f"process {pid} could not enter {group}")
        return Membership(name, group, joined=joined)

    def _marked(self, table: JobTable, job: Job, wishes: JobRequest, peer: Peer) -> Membership:
        """Let a process stay in the job that it is in."""
        if not wishes.empty:
            self._ask(table, job.name, wishes, peer)
        home = Path(table.tree.home_of(peer.pid))
        group = next((one for one in job.groups if home.is_relative_to(one)), home)
        return Membership(job.name, group, marked=True)

    def _place(self, table: JobTable, name: str, home: str, inside: Job | None) -> None:
        """Choose where a user's job has its cgroup: where its processes keep their limits."""
        tree, mount = table.tree, find_mount()
        if not home or mount is None:
            raise HostccError("the cgroup of the process that connected is not seen by the agent")
        free = self._host.config.discover.move == "auto" and limits_nothing(mount)
        leaf = Path(home)
        if inside is not None and inside.group is not None:
            nested = inside.name in tree.nested
            leaf = inside.group.parent.parent if nested else mount
        wanted = tree.base / name if free or leaf == mount else leaf / BASE / name
        if wanted.parent != tree.base and not leaf.is_relative_to(tree.root):
            raise HostccError(f"{leaf} is outside of agent.cgroup_root, {tree.root}")
        there = tree.path(name)
        if name in table.jobs and there != wanted and wanted.parent != tree.base:
            raise HostccError(
                f"job {name} runs in {there.parent}, and a process of {leaf} would leave its limits"
                " to join it: use another name"
            )
        if name not in table.jobs:
            tree.nested.pop(name, None)
            tree.nested |= {} if wanted.parent == tree.base else {name: wanted}

    # Jobs of workload managers.

    def _managed(self, pid: int, group: str) -> FoundJob:
        """The job of a workload manager's cgroup, which discovery has not seen yet.  Blocks."""
        config, mount = self._host.config, find_mount()
        scanner = Scanner(host=host_name(config), environ=config.discover.environ)
        rules = config.discover.rules
        if rules.kubernetes is Pods.TRAINING:  # whoever asks says that it is a job
            rules = replace(rules, kubernetes=Pods.ALL)
        pids = [] if mount is None else self._table().tree.pids(mount / group.lstrip("/"))
        those = (scanner.process(one) for one in dict.fromkeys((pid, *pids[:MAX_MEMBERS])))
        members = tuple(one for one in those if one is not None)
        for found in find(Snapshot(host_name(config), members), rules):
            if pid in found.pids and config.discover.manage:
                return found
        raise HostccError(
            f"process {pid} is in {group}, which [discover] lets no job be: it stays as it is"
        )

    def _follow(self, table: JobTable, found: FoundJob, pid: int) -> Job:
        mount, why = find_mount(), f"hostcc run, in {found.evidence[0]}"
        if found.groups and mount is not None:
            groups = [mount / group.lstrip("/") for group in found.groups]
            known = table.jobs.get(found.id)
            table.follow(found.id, {*groups, *(known.followed if known else ())}, why, found.owner)
        elif limits_nothing(mount):
            table.register(found.id, JobRequest(), pid, why, found.owner)
            table.enter(found.id, pid)
            table.jobs[found.id].how = why
        else:
            raise HostccError(f"job {found.id} has no cgroup v2 of its own, so it is not managed")
        if found.id not in table.jobs:
            raise HostccError(f"job {found.id} has ended")
        return table.jobs[found.id]

    # Parameters.

    def _change(self, request: ChangeJob, peer: Peer) -> JobChange:
        table, wishes = self._table(), _wishes(request)
        name = rights.named(request.job, peer.uid, table.jobs)
        rights.check_request(wishes, self._host.config.users, peer.uid)
        before = self._parameters(table, name)
        if not wishes.empty:
            self._ask(table, name, wishes, peer)
            self._roster.parts.wake()
        now = self._parameters(table, name)
        return JobChange(
            job=name,
            uid=requests.owner(table, name),
            weight=now.weight,
            bytes_per_iteration=now.bytes_per_iteration,
            flops=now.flops,
            before=before,
        )

    def _ask(self, table: JobTable, name: str, wishes: JobRequest, peer: Peer) -> None:
        owner, uid = requests.owner(table, name), peer.uid
        rights.check_owner(name, owner, uid)
        rights.check_earlier(name, table.jobs[name].wishes, uid)
        by_root = uid == 0 and owner is not None
        why = f"asked for by uid {uid}, pid {peer.pid}"
        requests.ask(table, name, replace(wishes, by_root=by_root), why)

    def _parameters(self, table: JobTable, name: str) -> JobParameters:
        job = table.jobs[name]
        flops = job.asked.flops
        return JobParameters(
            weight=table.weight_of(job),
            bytes_per_iteration=job.params.bytes_per_iteration if job.params else None,
            flops=declared(table.config, name) if flops is None else flops,
        )

    def _table(self) -> JobTable:
        if self._host.engine is None:
            raise HostccError(f"the agent only observes: {self._host.observing}")
        return self._host.engine.table


def _wishes(request: Any) -> JobRequest:
    return JobRequest(request.weight, request.bytes_per_iteration, request.flops)


def _job_at(table: JobTable, home: str) -> Job | None:
    """The job whose cgroup this is, or is in; the innermost one."""
    at = Path(home)
    those = [(group, job) for job in table.jobs.values() for group in job.groups]
    inside = [(len(group.parts), job.name) for group, job in those if at.is_relative_to(group)]
    return table.jobs[max(inside)[1]] if home and inside else None


def _stays(job: Job, home: str, uid: int) -> bool:
    """Whether a process of this job is not to leave it by `hostcc run`."""
    followed = any(Path(home).is_relative_to(group) for group in job.followed)
    return followed or bool(job.how) or (uid != 0 and rights.user_in(job.name) != uid)


def _group_of_manager(pid: int) -> str | None:
    """The cgroup of Slurm's or Kubernetes' that a process is in; v2 first."""
    second, first = procfs.cgroups(read(f"/proc/{pid}/cgroup", 65536))
    for path in (second, *first):
        slurm, pod = cgroup_paths.slurm_job(path), cgroup_paths.pod(path)
        if slurm is not None:
            return slurm.group
        if pod is not None:
            return pod.group
    return None
