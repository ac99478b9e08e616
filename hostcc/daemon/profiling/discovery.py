"""Discovery of jobs that were not started with `hostcc run`; the agent manages them like others.

Any user can claim that a process belongs to a job.  So each user's claims are bounded by a quota,
claims of different users are served in turn, and the loop handles a few at a time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hostcc.answers.parts import DiscoveryPart, RefusedClaims
from hostcc.bpf.loader.errors import BpfError
from hostcc.daemon.jobs import requests, rights
from hostcc.daemon.jobs.claim import Claim
from hostcc.daemon.jobs.table import JobTable
from hostcc.daemon.log_limit import LogLimit
from hostcc.daemon.profiling.live_jobs import DiscoveryResult, host_name
from hostcc.daemon.supervisor import Host
from hostcc.errors import HostccError, one_line
from hostcc.log import get_logger
from hostcc.measure.discover.find import OWN, find
from hostcc.model import Difference
from hostcc.system import procfs
from hostcc.system.cgroups import find_mount, limits_nothing, resolve_root
from hostcc.system.process_scan import Scanner, read
from hostcc.system.processes import FoundJob, ProcessRef, Rules, Snapshot
from hostcc.system.quota import Owner, Quota, Refused, admit, in_turns
from hostcc.system.slices import at_once, in_slices

log = get_logger("discovery")

MAX_TIME_FRACTION, MAX_TIME_FRACTION_FULL = 1 / 100, 1 / 500
"""Scans take at most this share of wall time, and full ones the second: after a long scan the next
comes later..."""
MAX_INTERVAL_S = 60.0
"""...but after so many seconds at the latest."""
MAX_MOVED_PER_SCAN = 64
"""Processes of one job that are moved after one scan, at most."""
REGISTRATIONS_PER_WRITE = 16
"""Registrations that are put on disk together."""
MAX_SHOWN_USERS = 16
"""Users with refused claims that `status` names, at most."""
BUSY_GROUP = "its processes share a cgroup with others', whose limits they would leave"


class Discovery:
    """Keeps `seen` current and, where the agent acts, the table of jobs with it."""

    name = "discovery"

    def __init__(
        self,
        host: Host,
        seen: DiscoveryResult,
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._seen = seen
        self._proc = proc
        self._scanner: Scanner | None = None
        self._scanner_environ = True
        self._followed: set[str] = set()
        self._table: JobTable | None = None
        self._told: dict[str, str] = {}
        self._odd: dict[str, str] = {}
        self._clock = clock
        self._cost_s = self._look_s = 0.0
        """Processor time of the last scan that was not full, and of the last one, seconds."""
        self._full_due_s = 0.0
        self._complete = True
        self._refused: tuple[Refused, ...] = ()
        self._waiting = 0
        self._rarely = LogLimit(clock)

    @property
    def every_s(self) -> float:
        """Seconds between scans: as configured, and more where a scan is expensive."""
        asked = self._host.config.discover.every_s
        return max(asked, min(self._cost_s / MAX_TIME_FRACTION, MAX_INTERVAL_S))

    def disabled_reason(self) -> str:
        """Configured away?"""
        return "" if self._host.config.discover.enabled else "discover.enabled is false"

    def start(self) -> None:
        """Nothing is known yet."""
        self._scanner = None

    async def tick(self) -> None:
        """Look, decide, manage."""
        discover = self._host.config.discover
        if self._scanner is None or self._scanner_environ != discover.environ:
            self._scanner_environ = discover.environ
            host = host_name(self._host.config)
            self._scanner = Scanner(self._proc, host, discover.environ)
            self._full_due_s = 0.0
        mount = find_mount()
        inside = _below(mount, self._host.config.agent.cgroup_root)
        every = await asyncio.to_thread(self._look, self._scanner, discover.rules, inside)
        if self._host.engine is not None and self._host.engine.table.returning.pending:
            return  # processes of its jobs look like others'; all have a turn when they are back
        found = self._admitted(every)
        self._seen.found, self._seen.mount = found, mount
        with closing(self._managing(found, mount)) as steps:
            await in_slices(steps)
        engine = self._host.engine
        if engine is not None and self._host.config.discover.manage:
            self._declare(engine.table, found)
            if self._complete:
                requests.forget_ended(engine.table)

    def stop(self) -> None:
        """Jobs that were found are no longer followed."""
        self._seen.found = ()
        self._manage((), None)
        self._scanner = None

    def verify(self) -> list[Difference]:
        """The engine checks what is attached."""
        return []

    def view(self) -> DiscoveryPart:
        """How many there are, which are not managed, and whose claims were refused."""
        claims = sum(one.claims for one in self._refused)
        worst = f"{claims} claims refused: {self._refused[0].why}" if self._refused else None
        return DiscoveryPart(
            reason=worst,
            found=len(self._seen.found),
            complete=self._complete,
            look_s=self._look_s,
            unmanaged=dict(self._seen.unmanaged),
            refused=[
                RefusedClaims(uid=one.uid, claims=one.claims, why=one.why)
                for one in self._refused[:MAX_SHOWN_USERS]
            ],
            claims_refused=claims,
            waiting=self._waiting,
        )

    def _look(self, scanner: Scanner, rules: Rules, inside: str) -> tuple[FoundJob, ...]:
        """In a thread: a process that is stuck in the kernel can hold this up."""
        began = time.thread_time()
        full = self._clock() >= self._full_due_s
        snapshot = scanner.snapshot(full=full)
        self._complete = snapshot.complete
        found = find(within(snapshot, inside), rules)
        cost_s = self._look_s = time.thread_time() - began
        if full:
            wait_s = min(cost_s / MAX_TIME_FRACTION_FULL, MAX_INTERVAL_S)
            self._full_due_s = self._clock() + wait_s
        else:
            self._cost_s = cost_s
        return found

    def _admitted(self, found: Sequence[FoundJob]) -> tuple[FoundJob, ...]:
        """Those that the quota lets their users have: first what they have already."""
        engine, before = self._host.engine, {one.id for one in self._seen.found}
        there: Collection[str] = engine.table.jobs if engine is not None else ()
        held: Mapping[Owner, int] = engine.table.slots.held if engine is not None else {}
        fresh = [(one.id, one.owner) for one in found if one.id not in there]
        fresh.sort(key=lambda claim: claim[0] not in before)
        admission = admit(fresh, held, self._host.config.quota())
        self._refused = admission.refused
        for one in admission.refused[:MAX_SHOWN_USERS]:
            if self._rarely.due(one.uid):
                log.warning("claims refused", uid=one.uid, claims=one.claims, reason=one.why)
        names = {*admission.admitted, *there}
        return tuple(one for one in found if one.id in names)

    def _manage(self, found: Sequence[FoundJob], mount: Path | None) -> None:
        at_once(self._managing(found, mount))

    def _managing(
        self, found: Sequence[FoundJob], mount: Path | None
    ) -> Generator[None, None, None]:
        """Have the table manage these, one job or process at each step."""
        engine = self._host.engine
        table = engine.table if engine is not None else None
        if table is not self._table:
            self._table, self._followed = table, set()
        wanted = found if self._host.config.discover.manage else ()
        unmanaged: dict[str, str] = {}
        if table is not None:
            movable = self._host.config.discover.move == "auto" and limits_nothing(mount)
            for one, _ in in_turns((one, one.owner) for one in wanted):
                if self._gone(table):
                    return
                if why := self._follow(table, one, mount, movable):
                    unmanaged[one.id] = why
                yield
            for name in self._followed - {one.id for one in wanted if one.groups}:
                self._followed.discard(name)
                if name in table.jobs and not self._gone(table):
                    table.follow(name, (), "no longer found")
                yield
            loose = [one for one in wanted if one.loose and one.id not in unmanaged]
            yield from self._gather(table, loose, unmanaged)
        self._seen.unmanaged = unmanaged
        for name, why in unmanaged.items():
            if self._told.get(name) != why:  # once
                log.warning("job is not managed", job=name, reason=why)
        self._told = unmanaged

    def _declare(self, table: JobTable, wanted: Sequence[FoundJob]) -> None:
        """Take what the jobs' environments ask for, and say once what is wrong with it."""
        odd = dict[str, str]()
        for one in wanted:
            asked, why = rights.declared(one.said, one.kind, self._host.config.users)
            try:
                requests.declare(table, one.id, asked, "HOSTCC_WEIGHT, HOSTCC_FLOPS")
            except (BpfError, HostccError, OSError) as error:
                why = one_line(str(error))
            if why:
                odd[one.id] = why
            if why and self._odd.get(one.id) != why:
                log.warning("environment of a job", job=one.id, reason=why)
        self._odd = odd

    def _gone(self, table: JobTable) -> bool:
        """Whether the agent has let go of this table meanwhile."""
        engine = self._host.engine
        return engine is None or engine.table is not table

    def _follow(self, table: JobTable, one: FoundJob, mount: Path | None, movable: bool) -> str:
        """Have a found job's cgroups followed; why it is not managed as a whole, or empty."""
        try:
            if one.groups and mount is not None:
                if one.id not in table.jobs:
                    log.info("job found", job=one.id, kind=one.kind, why=_why(one))
                groups = [mount / group.lstrip("/") for group in one.groups]
                table.follow(one.id, groups, _why(one), one.owner)
                self._followed.add(one.id)
        except (BpfError, HostccError, OSError) as error:
            return one_line(str(error))
        return BUSY_GROUP if one.loose and not movable else ""

    def _gather(
        self, table: JobTable, those: Sequence[FoundJob], unmanaged: dict[str, str]
    ) -> Generator[None, None, None]:
        """Move processes without a cgroup of their own into one for their job: of each user so
        many, the first of every job first."""
        ranked = [
            (rank, one, ref)
            for one in those
            for rank, ref in enumerate(one.loose[:MAX_MOVED_PER_SCAN])
        ]
        ranked.sort(key=lambda entry: entry[0])
        quota = Quota(sys.maxsize, self._host.config.agent.per_uid, 0)
        claims = (((one, ref), one.owner) for _, one, ref in ranked)
        admitted = admit(claims, {}, quota).admitted
        self._waiting = sum(len(one.loose) for one in those) - len(admitted)
        for at in range(0, len(admitted), REGISTRATIONS_PER_WRITE):
            batch = [
                Claim(one.id, ref.pid, _why(one), owner=one.owner)
                for one, ref in admitted[at : at + REGISTRATIONS_PER_WRITE]
                if self._is_loose(ref)
            ]
            try:
                table.prepare(batch)
                yield
                while batch and not self._gone(table):
                    self._register(table, batch.pop(0), unmanaged)
                    yield
            except (HostccError, OSError) as error:
                unmanaged.update(dict.fromkeys((one.job for one in batch), one_line(str(error))))
            finally:
                table.forgo(batch)
            if self._gone(table):
                return

    def _register(self, table: JobTable, claim: Claim, unmanaged: dict[str, str]) -> None:
        job, pid, why, wishes, owner = claim
        try:
            table.register(job, wishes, pid, why, owner)
            table.enter(job, pid)
            table.jobs[job].how = why
        except (BpfError, HostccError, OSError) as error:
            unmanaged[job] = one_line(str(error))
        if self._scanner is not None:
            self._scanner.forget([pid])

    def _is_loose(self, ref: ProcessRef) -> bool:
        """Whether the process still is the one that was seen, and in no group of a job's own."""
        stat = procfs.stat(read(f"{self._proc}/{ref.pid}/stat", 4096))
        group, _ = procfs.cgroups(read(f"{self._proc}/{ref.pid}/cgroup", 65536))
        return stat is not None and stat.started == ref.started and OWN not in f"{group}/"


def _why(one: FoundJob) -> str:
    return f"{one.kind}: {'; '.join(one.evidence)}"


def within(snapshot: Snapshot, inside: str) -> Snapshot:
    """The processes below one cgroup v2 path; "/": all of the agent's cgroup namespace.

    Those outside of it are seen in a container that shares the host's processes: their cgroups have
    no name here, so a process that was moved could not be moved back.
    """
    below = inside.rstrip("/")
    kept = tuple(
        process
        for process in snapshot.processes
        if not f"{process.group}/".startswith("/../")
        and (not below or f"{process.group}/".startswith(f"{below}/"))
    )
    return replace(snapshot, processes=kept)


def _below(mount: Path | None, cgroup_root: str) -> str:
    """The agent's cgroup root as a path in /proc/PID/cgroup; "/" without cgroup v2."""
    if mount is None:
        return "/"
    root = resolve_root(cgroup_root)
    return f"/{root.relative_to(mount)}".rstrip(".") if root.is_relative_to(mount) else "/"
