"""The part that gives jobs' sockets the DSCP of their level in the plan, and holds connections to
their share of the planned paths where the configuration asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostcc.answers.parts import MarkingPart
from hostcc.bpf.loader.errors import BpfError
from hostcc.config.schema import port_rules
from hostcc.daemon.changes import path_kinds
from hostcc.daemon.enforcement import Engine
from hostcc.daemon.jobs.sockets import Job, Sockets, copies
from hostcc.daemon.jobs.table import JobTable
from hostcc.daemon.marking.guard import Guard
from hostcc.daemon.marking.rate_shares import RateShares, shown
from hostcc.daemon.planning import levels
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.supervisor import Host, in_thread
from hostcc.log import get_logger
from hostcc.model import Change, Difference
from hostcc.paths.mark_kernel import JobMark, MarkKernel, WalkResult
from hostcc.paths.shares import Hold

log = get_logger("marking")

TICK_S = 0.25
WALK_INTERVAL_S = 10.0
"""Seconds between two walks over all sockets; a new plan causes one at once."""
STRAYS_S = 60.0
"""Seconds in which jobs of an agent that died are found again, and its marks taken away."""
NO_WALK = WalkResult(0, 0, 0, 0)


class LevelMarks:
    """Marks sockets of jobs."""

    name = "marking"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        plans: PlanStore,
        make_kernel: Callable[[Any], MarkKernel] = MarkKernel,
        make_guard: Callable[..., Guard] = Guard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._plans = host, plans
        self._shares = RateShares(host, plans)
        self._make_kernel = make_kernel
        self._make_guard = make_guard
        self._clock = clock
        self._kernel: MarkKernel | None = None
        self._guard: Guard | None = None
        self._table: JobTable | None = None
        self._told: dict[int, tuple[str, JobMark]] = {}
        """Slot -> its job and mark."""
        self._groups: set[tuple[int, Path]] = set()
        self._rules: dict[tuple[int, bool], int] = {}
        self._rooted = False
        self._strays: dict[str, JobMark] = {}
        """Job -> what an agent which died has left on its sockets."""
        self._walk_due = self._strays_until = 0.0
        self._walked = NO_WALK

    def disabled_reason(self) -> str:
        """Why it does not run: off in the configuration, or nothing may be changed."""
        if self._host.engine is None:
            return "nothing is changed on this host"
        # Marks that an agent which died has left are taken away all the same.
        config = self._host.config
        wanted = config.marking.enabled or Hold(config.paths.shares) is not Hold.OFF
        return "" if wanted or self._left() else "marking.enabled is false"

    async def start(self) -> None:
        """Load the programs, and start the guard, which takes marks away if the agent dies."""
        assert self._host.engine is not None
        self._table = self._host.engine.table
        self._told, self._groups, self._rules = {}, set(), {}
        self._rooted, self._walk_due, self._walked = False, 0.0, NO_WALK
        self._strays = {path_kinds.job_of(one): path_kinds.stray_of(one) for one in self._left()}
        self._strays_until = self._clock() + STRAYS_S
        await in_thread(self._load, self._host.engine)

    def _load(self, engine: Engine) -> None:
        everywhere = self._host.config.agent.network_namespaces == "all"
        self._kernel = self._make_kernel(engine.backend.shared_maps.get("flows"))
        self._guard = self._make_guard(self._kernel, everywhere=everywhere)

    async def tick(self) -> None:
        """Bring marks in line with the plan and the jobs."""
        engine = self._host.engine
        if engine is None or engine.table is not self._table:
            await self.stop()
            if engine is None:
                return
            await self.start()
        assert self._guard is not None
        if not self._guard.alive:
            await in_thread(self._replace_guard, self._guard)
        wanted = await self._wanted()
        let_go = self._let_go(engine.table)
        back = self._strays.keys() & engine.table.jobs.keys()
        changed = self._sync(wanted | {name: self._strays[name] for name in back})
        if changed or let_go or self._clock() >= self._walk_due:
            await self._walk(everywhere=let_go)
            for name in [*self._strays] if self._clock() >= self._strays_until else back:
                del self._strays[name]
            marked = {name for name, _ in self._told.values()} | self._strays.keys()
            over = [change.id for change in self._left() if path_kinds.job_of(change) not in marked]
            self._host.journal.undone(over, "no level, or the job ended")

    async def stop(self) -> None:
        """Take all marks away."""
        kernel, self._kernel = self._kernel, None
        guard, self._guard = self._guard, None
        if kernel is None:
            return
        cleared = False
        try:
            for slot in self._told:
                kernel.set_job(slot, None)
            await self._visit(kernel, everywhere=True)
            cleared = True
            self._host.journal.undone([change.id for change in self._left()], "marking ended")
        finally:
            await in_thread(_unload, kernel, guard, cleared)

    def verify(self) -> list[Difference]:
        """Check that jobs' cgroups still have the programs, and that the guard runs."""
        if self._kernel is None:  # it begins anew, or ends
            return []
        found = [
            Difference(
                f"{path_kinds.MARKS}:{self._told[slot][0]}", str(group), "attached", "detached"
            )
            for slot, group in self._groups
            if slot in self._told and self._kernel.detached(slot, group)
        ]
        if self._guard is None or not self._guard.alive:
            found.append(Difference("marking-guard", "its process", "running", "gone"))
        return found

    def view(self) -> MarkingPart:
        """DSCP by job; how many connections their applications have marked."""
        others = self._walked.foreign
        override = self._host.config.marking.override
        words = f"left alone {others} connections that their applications have marked"
        return MarkingPart(
            dscp={n: mark.tos >> 2 for n, mark in self._told.values() if mark.tos is not None},
            held={name: held for name, mark in self._told.values() if (held := shown(mark))},
            left_alone=others,
            failed=self._walked.failed,
            reason=words if others and not override else None,
        )

    def _left(self) -> list[Change]:
        """Marks in force by the journal, also those of an agent that died."""
        return [one for one in self._host.journal.active.values() if one.what == path_kinds.MARKS]

    # One turn.

    async def _wanted(self) -> dict[str, JobMark]:
        config, marks = self._host.config, dict[str, JobMark]()
        if config.marking.enabled:
            table, engine = levels.table(config.plan, config.marking), self._host.engine
            first = engine.table.preference.first if engine is not None else ""
            planned = levels.marks(self._plans.current("marks"), table)
            dscp = levels.with_turn(planned, first, table)
            force = config.marking.override
            marks = {name: JobMark(value << 2, force) for name, value in dscp.items()}
        return await self._shares.over(marks, self._clock())

    def _sync(self, wanted: Mapping[str, JobMark]) -> bool:
        """Write marks to journal and kernel; returns whether existing sockets have to be marked."""
        assert self._kernel is not None
        assert self._table is not None
        jobs = self._table.jobs
        marked = {jobs[name].slot: (name, mark) for name, mark in wanted.items() if name in jobs}
        before = self._told
        for slot in [slot for slot in before if marked.get(slot, ("",))[0] != before[slot][0]]:
            self._kernel.set_job(slot, None)
        for slot, (name, mark) in marked.items():
            if before.get(slot) != (name, mark):
                if name not in self._strays:  # what was left is in the journal until it is gone
                    parts = mark.tos, "the plan", mark.pace_bps, mark.clamp_packets
                    self._host.journal.begin(path_kinds.mark(name, *parts))
                self._kernel.set_job(slot, mark)
        self._told = marked
        attached = self._attach([jobs[name] for name, _ in marked.values()])
        return before != marked or attached

    def _attach(self, jobs: list[Job]) -> bool:
        """Attach programs to these jobs' cgroups and ports only; returns whether some are new."""
        assert self._kernel is not None
        assert self._table is not None
        groups = {(job.slot, group) for job in jobs for group in job.groups}
        for slot, group in self._groups - groups:
            self._kernel.detach(slot, group)
        fresh = groups - self._groups
        self._groups &= groups
        for slot, group in sorted(fresh):
            try:
                self._kernel.attach(slot, group)
            except (BpfError, OSError):
                if self._table.tree.exists(group):
                    raise
                continue  # it has ended meanwhile
            self._groups.add((slot, group))
        slots = {job.name: job.slot for job in jobs}
        named = port_rules(self._host.config).items()
        rules = {key: slots[name] for key, name in named if name in slots}
        if rules == self._rules:
            return bool(fresh)
        if rules and not self._rooted:
            self._kernel.attach_rules(self._table.tree.root)
            self._rooted = True
        self._kernel.set_ports(rules)
        self._rules = rules
        return True

    def _let_go(self, table: JobTable) -> bool:
        """Whether a cgroup that is still there, or a port, is no job's any more: no job tells in
        which network namespaces its sockets are."""
        known = {(job.slot, group) for job in table.jobs.values() for group in job.groups}
        ports = self._rules.keys() - port_rules(self._host.config).keys()
        return bool(ports) or any(table.tree.exists(path) for _, path in self._groups - known)

    async def _walk(self, *, everywhere: bool) -> None:
        """Mark existing sockets."""
        assert self._kernel is not None
        self._walk_due = self._clock() + WALK_INTERVAL_S
        self._walked = await self._visit(self._kernel, everywhere=everywhere)
        if self._walked.failed:
            log.warning("could not mark sockets", failed=self._walked.failed)

    async def _visit(self, kernel: MarkKernel, *, everywhere: bool) -> WalkResult:
        assert self._table is not None
        jobs = copies(self._table.jobs.values())
        return await in_thread(_visit, kernel, self._table.sockets, jobs, everywhere)

    def _replace_guard(self, old: Guard) -> None:
        assert self._kernel is not None
        old.dismiss()
        log.warning("the guard of the marks was gone, there is a new one")
        everywhere = self._host.config.agent.network_namespaces == "all"
        self._guard = self._make_guard(self._kernel, everywhere=everywhere)


def _visit(kernel: MarkKernel, sockets: Sockets, jobs: list[Job], everywhere: bool) -> WalkResult:
    kernel.set_cgroup_ids(sockets.groups(jobs))
    with sockets.namespaces(jobs, others=everywhere) as where:
        return kernel.walk(where)


def _unload(kernel: MarkKernel, guard: Guard | None, cleared: bool) -> None:
    try:
        kernel.close()
    finally:
        if guard is not None:
            guard.dismiss() if cleared else guard.take_over()
