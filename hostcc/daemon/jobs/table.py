"""The jobs of this host: their slots, cgroups, port rules, and parameters in the kernel.

A job keeps its slot while it has processes or a rule.  Every edit goes through the
journal first.  Nothing here blocks: what takes long is a generator of steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import replace
from math import inf
from pathlib import Path

from hostcc.bpf.loader.errors import BpfError
from hostcc.config.schema import Config, job_params, port_rules
from hostcc.config.sections.job import JobRequest
from hostcc.daemon.changes import kinds as changes
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.jobs import released
from hostcc.daemon.jobs.claim import Claim, journal_fields
from hostcc.daemon.jobs.group_removal import GroupRemoval
from hostcc.daemon.jobs.group_watch import GroupWatch
from hostcc.daemon.jobs.port_rules import PortRules
from hostcc.daemon.jobs.process_return import ProcessReturns
from hostcc.daemon.jobs.slots import Slots
from hostcc.daemon.jobs.sockets import InlineWalker, Job, SocketMoves, Sockets
from hostcc.daemon.jobs.start_changes import base_group
from hostcc.errors import HostccError
from hostcc.limits import is_job_name
from hostcc.log import get_logger
from hostcc.mltcp.backend import MltcpBackend
from hostcc.mltcp.params import JobParams, Mode
from hostcc.mltcp.preference import JobPreference
from hostcc.model import BoundaryHint, Change
from hostcc.system.cgroups import CgroupTree
from hostcc.system.quota import Owner
from hostcc.system.slices import SLICE_S, at_once

log = get_logger("jobs")

JOIN_GRACE_S = 10.0
"""Seconds that a command has to enter the cgroup made for it."""
JOBS_PER_SWEEP = 16
"""Jobs checked in one sweep, so that it stays cheap when many end."""


class JobTable:
    """All jobs, on one kernel backend.  Methods raise BpfError, OSError or HostccError."""

    def __init__(
        self,
        config: Config,
        backend: MltcpBackend,
        tree: CgroupTree,
        journal: Journal,
        default_ca: str,
        clock: Callable[[], float] = time.monotonic,
        walker: Executor | None = None,
    ) -> None:
        """`walker`: walks over sockets; None: in the calling thread."""
        self.config = config
        self.mode = config.mltcp.mode
        self.weights: dict[str, float] = {}
        self.jobs: dict[str, Job] = {}
        self.preference = JobPreference()
        self.tree = tree
        self._backend = backend
        self.journal = journal
        self._default = default_ca
        self._clock = clock
        self.slots = Slots(config.quota())
        self.returning = ProcessReturns(tree)
        self._rules = PortRules(backend, journal, tree.root)
        self.edition = 0
        """Changes whenever jobs, their cgroups, or what is known of them may have changed."""
        self._watch = GroupWatch()
        self._walker = walker or InlineWalker()
        self._moves = SocketMoves()
        self._sockets_released = False
        self.removal = GroupRemoval(tree, journal)
        self.sockets = self._new_sockets()

    def start(self, left_groups: released.LeftGroups | None = None) -> None:
        """Take over cgroups of an earlier agent, port rules and open sockets.

        `left_groups`: those cgroups; whoever gives them takes the steps of `come_back`, too.
        """
        self.edition += 1
        if base := base_group(self.tree):
            with self.journal.making(*base):
                self.tree.create(self.tree.base)
        found = (
            released.left_groups(self.journal.active, self.tree)
            if left_groups is None
            else left_groups
        )
        self.journal.begin(*(one for _, back in found.values() for one in back))
        with self.journal.gathering():
            for group, (known, back) in found.items():
                self._adopt(group, known, back)
            self._drop_strays()
        self._apply_rules()
        self.refresh("start")
        self._moves.wait()
        if left_groups is None:
            at_once(self.come_back())

    def come_back(self) -> Generator[None, None, None]:
        """Move processes of an earlier agent's jobs back into their cgroups, one at a step."""
        try:
            yield from self.returning.steps()
        finally:
            for job in self.jobs.values():
                job.keep_until = 0.0 if job.keep_until == inf else job.keep_until

    def prepare(self, claims: Iterable[Claim]) -> None:
        """Write the journal records of several `register` calls at once."""
        self.journal.begin(*(change for one in claims for change in self._planned(one)))

    def forgo(self, claims: Sequence[Claim]) -> None:
        """Take back the records of claims that were prepared and are not registered."""
        ids = [f"{changes.MEMBER}:{one.job}:{one.pid}" for one in claims]
        for job in {one.job for one in claims} - self.jobs.keys():
            ids += [f"{changes.GROUP}:{job}", f"{changes.SOCKETS}:{job}"]
        self.journal.undone(ids, "not registered")

    def register(
        self, name: str, wishes: JobRequest, pid: int, why: str = "hostcc run", owner: Owner = None
    ) -> Path:
        """Make a process part of a job; returns the cgroup that it is to enter."""
        self.edition += 1
        claim, job = Claim(name, pid, why, wishes, owner), self.jobs.get(name)
        if job is not None:
            if owner is None:
                self.slots.to_root(job.slot)
            return self._join(job, claim)
        job = self._new_job(name, owner)
        try:
            self.prepare([claim])
            group = self._join(job, claim)
        except BaseException:
            try:
                at_once(self._dissolving(job, "failed"))
            finally:
                self._forget(job)
                self.forgo([claim])
            raise
        log.info("job appeared", job=name, slot=job.slot, pid=pid)
        return group

    def _planned(self, claim: Claim) -> Generator[Change, None, None]:
        """The changes that `register` journals."""
        job, path = self.jobs.get(claim.job), self.tree.path(claim.job)
        if job is None:
            yield changes.job_group(
                claim.job, path, self.fields(claim.job, claim.wishes, claim.owner), claim.why
            )
            params = self._params(claim.job, claim.wishes)
            if params.mode is not Mode.OFF:
                yield self._of_sockets(params, claim.why)
        home = self.tree.home_of(claim.pid)
        yield changes.job_member(claim.job, claim.pid, home, path, claim.why)

    def _join(self, job: Job, claim: Claim) -> Path:
        _, pid, why, wishes, _ = claim
        job.wishes = wishes.over(job.wishes)
        told_before = job.params is not None
        group = self._ensure_group(job, why)
        job.keep_until = self._clock() + JOIN_GRACE_S
        gone = released.gone(self.journal.active.values(), job.name)
        self.journal.undone(gone, "the process is gone")
        self.journal.begin(changes.job_member(job.name, pid, self.tree.home_of(pid), group, why))
        # The group of a job that is new is empty: it has no socket to move yet.
        if self.tell(job, why) and told_before:
            self._switch([job], to_default=self.mode is Mode.OFF)
        return group

    def enter(self, job: str, pid: int) -> bool:
        """Move a process into its job's cgroup; returns whether it is there."""
        there = self.tree.enter(self.tree.path(job), pid)
        if there:
            self.jobs[job].keep_until = 0.0
        return there

    def follow(self, name: str, groups: Iterable[Path], why: str, owner: Owner = None) -> None:
        """Make the sockets of cgroups that others have made part of a job.

        Cgroups that an earlier call named and this one does not are no longer followed.
        """
        self.edition += 1
        job = self.jobs.get(name) or self._new_job(name, owner)
        self.slots.to_user(job.slot, owner)
        there = {path: number for path in groups if (number := self.tree.identity(path))}
        fresh = {path: n for path, n in there.items() if job.followed.get(path) != n}
        try:
            if job.followed and not there and not job.group and not job.rule:
                self._switch([job], to_default=True)  # while it is known where its sockets are
            for path in [path for path in job.followed if path not in there]:
                self._unfollow(job, path)
            if fresh:
                self.journal.begin(changes.followed(name, there, why))
                job.how = job.how or why
                self.tell(job, why)
                refused = [self._follow(job, path, number) for path, number in fresh.items()]
                self._switch([job], to_default=self.mode is Mode.OFF)
                for error in filter(None, refused):
                    raise error
        finally:
            if not job.groups and not job.rule:
                self._forget(job)

    def _follow(self, job: Job, path: Path, number: int) -> Exception | None:
        """Follow one cgroup; returns why the kernel refused it.  One that has ended is skipped."""
        try:
            self._backend.attach_cgroup(job.slot, path)
        except (BpfError, OSError) as error:
            return error if self.tree.identity(path) == number else None
        job.followed[path] = number
        return None

    def set_preferred_job(self, name: str, why: str) -> None:
        """Let one job go first, in mode mltcp; an empty name: none."""
        self._set_preference(replace(self.preference, first=name), why)

    def set_plan_factors(
        self, factors: Mapping[str, float], why: str, alone: frozenset[str] = frozenset()
    ) -> None:
        """Multiply jobs' weights by the plan's factors, in mode mltcp; the others keep their own.

        `alone`: jobs that share no link, by the plan.
        """
        self._set_preference(replace(self.preference, planned=factors, alone=alone), why)

    def set_boundary_hint(self, name: str, hint: BoundaryHint | None) -> None:
        """Give the kernel a job's boundary hint; None takes it back."""
        job = self.jobs.get(name)
        if job is not None:
            self._backend.set_hint(job.slot, hint)

    def weight_of(self, job: Job) -> float:
        """Its weight as its owner or the configuration gives it, without factors."""
        configured = self.config.job_named(job.name)
        own = configured.weight if configured else 1.0
        return own if job.asked.weight is None else job.asked.weight

    def configure(self, config: Config, toggled: bool = False, why: str = "reload") -> None:
        """Apply a new configuration; its mode too, unless somebody `toggled` that."""
        self.edition += 1
        self.config = config
        self.slots.quota = config.quota()
        if not toggled:
            self.mode = config.mltcp.mode
        self.sockets = self._new_sockets()
        self._apply_rules()
        self.refresh(why)

    def share(self, mode: Mode, weights: Mapping[str, float], who: str) -> None:
        """Change how jobs share; live connections follow (see `moved`)."""
        self.edition += 1
        change = changes.mode(self.mode, mode, weights, who)
        self.journal.begin(change, undoing=mode is Mode.OFF)
        self.mode, self.weights = mode, dict(weights)
        self.refresh(who, again=True)

    def refresh(self, why: str, again: bool = False) -> None:
        """Write parameters that are new to the kernel; move sockets where that needs it.

        `again`: move the sockets of all jobs, because an operator asked for it.
        """
        moved = [job for job in self.jobs.values() if self.tell(job, why) or again]
        for off in (True, False):
            those = [job for job in moved if job.params and (job.params.mode is Mode.OFF) is off]
            self._switch(those, to_default=off)

    def tell(self, job: Job, why: str) -> bool:
        """Write a job's parameters if they are new; returns whether its sockets have to move."""
        params, old = self._params(job.name, job.asked), job.params
        if params == old:
            return False
        if params.mode is not Mode.OFF:
            self.journal.begin(self._of_sockets(params, why))
        self._backend.set_job(job.slot, params)
        job.params = params
        if params.mode is Mode.OFF:
            self.journal.undone([f"{changes.SOCKETS}:{job.name}"], why)
        return (old.runs if old else None) is not params.runs

    def sweep(self) -> None:
        """Drop jobs whose cgroups are empty or gone; checks a few whose cgroups have changed."""
        turn = self._watch.due(self.jobs.values(), self.edition, JOBS_PER_SWEEP)
        self.edition += bool(turn)
        until = self._clock() + SLICE_S
        with self.journal.gathering():
            for job in turn:
                self._watch.inspected(job)
                try:
                    self._look_at_followed(job)
                    if job.group is not None:
                        self._look_at(job, job.group)
                except OSError:
                    self._watch.unseen(job)  # nothing to look with: it goes on until it is seen
                    raise
                if self._clock() >= until:
                    break

    async def release_sockets(self) -> None:
        """Switch all sockets to the default, so that `release` has less to wait for."""
        self._switch(list(self.jobs.values()), to_default=True)
        await self.moved()
        self._sockets_released = True

    def releasing(self, how: str) -> Generator[None, None, list[str]]:
        """Undo everything, about one process at each step; returns what could not be undone."""
        self.edition += 1
        problems: list[str] = []
        live = list(self.jobs.values())
        if live and not self._sockets_released:
            self._switch(live, to_default=True)
            self._moves.wait()
        self.journal.undone((f"{changes.SOCKETS}:{job.name}" for job in live), how)
        waiting, note = self.returning.of, self._note_of
        stays = yield from released.keeping(live, self.tree, waiting, note, how, self.journal)
        with self.journal.gathering():
            for job in live:
                try:
                    problems += yield from self._dissolving(job, how, stays=job.name in stays)
                    self._forget(job)
                except (BpfError, OSError, HostccError) as error:  # the others' go all the same
                    problems.append(f"job {job.name}: {error}")
                yield
        self._rules.drop()
        self.journal.undone([changes.RULES, changes.MODE], how)
        return problems or ([] if self.removal.ending else self.removal.remove_base(how))

    async def moved(self) -> None:
        """Wait until sockets run what they are to run.  Raises what the walks raised."""
        await self._moves.over()

    def close(self) -> None:
        """Stop watching cgroups, and leave all as it is.  Waits for a walk that is under way."""
        self._watch.close()
        self._walker.shutdown(cancel_futures=True)

    def fields(
        self, name: str, wishes: JobRequest, owner: Owner
    ) -> dict[str, float | int | str | None]:
        """What the journal keeps of a job for the next agent."""
        return journal_fields(wishes, owner, nested=name in self.tree.nested)

    def by_slot(self) -> dict[int, Job]:
        """Slot -> job."""
        return {job.slot: job for job in self.jobs.values()}

    def _new_job(self, name: str, owner: Owner = None, *, had: bool = False) -> Job:
        slot, wishes = self.slots.take(owner, had=had), released.asked(self.journal, name, owner)
        return self.jobs.setdefault(name, Job(name, slot, wishes))

    def _adopt(self, group: Path, known: released.KeptJob, back: list[Change]) -> None:
        """Take over an earlier agent's cgroup: remove an empty one, else make it a job again."""
        if not is_job_name(group.name) or not released.lives(group, back, self.tree):
            if self.tree.remove(group):
                log.info("removed an empty cgroup of an earlier agent", path=group)
                self.journal.undone(self._ids_of(group.name), "left behind, removed")
            return
        job = self._new_job(group.name, known.uid, had=True)
        job.wishes = known.wishes
        self._ensure_group(job, "found running")
        if back:
            self.returning.expect(back)
            job.keep_until = inf
        log.info("took over a job that was running", job=job.name, slot=job.slot)

    def _drop_strays(self) -> None:
        """Remove cgroups that the journal knows and that are gone, or empty below another root."""
        groups = {changes.job_of_group(one): one for one in self.journal.active.values()}
        for name, change in groups.items():
            if name and name not in self.jobs and self.tree.remove(Path(change.target)):
                self.journal.undone(self._ids_of(name), "left behind, removed")

    def _ensure_group(self, job: Job, why: str) -> Path:
        path = self.tree.path(job.name)
        change = changes.job_group(job.name, path, self._note_of(job), why)
        known = self.journal.active.get(change.id)
        if known is None or known.after != change.after:
            self.journal.begin(change)
        if job.group is not None and self.tree.identity(path) == job.group_id:
            return path
        with ExitStack() as undo:
            undo.callback(self.journal.undone, [change.id], "failed")
            self.tree.create(path)
            undo.callback(self.tree.remove, path)
            self._backend.attach_cgroup(job.slot, path)
            undo.pop_all()
        job.group, job.group_id = path, self.tree.identity(path)
        return path

    def _note_of(self, job: Job) -> dict[str, float | int | str | None]:
        return self.fields(job.name, job.wishes, self.slots.owner(job.slot))

    def _params(self, name: str, wishes: JobRequest) -> JobParams:
        static = self.weights.get(name)
        return self.preference.applied_to(job_params(self.config, name, self.mode, static, wishes))

    def _of_sockets(self, params: JobParams, why: str) -> Change:
        name = self._backend.ca_names[params.variant]
        return changes.job_sockets(params, name, self._default, why)

    def _set_preference(self, preference: JobPreference, why: str) -> None:
        before, self.preference = self.preference, preference
        for job in self.jobs.values():
            if not preference.same_for(before, job.name):
                self.tell(job, why)

    def _switch(self, those: list[Job], to_default: bool) -> None:
        self._moves.ask(self.sockets, self.jobs.values(), those, to_default)

    def _new_sockets(self) -> Sockets:
        everywhere = self.config.agent.network_namespaces == "all"
        return Sockets(self._backend, self.tree, everywhere, self._walker)

    def _look_at(self, job: Job, group: Path) -> None:
        now_there = self.tree.identity(group)
        if now_there == job.group_id:
            job.emptied = not self.tree.populated(group)
            if not job.emptied:
                job.keep_until = 0.0
                return
            if self._clock() < job.keep_until or not self.tree.remove(group):
                return
        else:
            text = f"{group} was {'replaced' if now_there else 'removed'} by somebody else"
            log.warning("standing aside", job=job.name, reason=text)
            self.journal.note(f"job {job.name}", text)
        self._backend.detach_cgroup(job.slot, group)
        job.group, job.emptied = None, False
        self.journal.undone(self._ids_of(job.name), "the job ended")
        if not job.groups and not job.rule:
            log.info("job ended", job=job.name)
            self._forget(job)

    def _look_at_followed(self, job: Job) -> None:
        gone = [path for path, n in job.followed.items() if self.tree.identity(path) != n]
        for path in gone:
            self._unfollow(job, path)
        if gone and not job.groups and not job.rule:
            log.info("job ended", job=job.name)
            self.journal.undone([f"{changes.REQUEST}:{job.name}"], "the job ended")
            self._forget(job)

    def _unfollow(self, job: Job, path: Path) -> None:
        self._backend.detach_cgroup(job.slot, path)
        del job.followed[path]
        if not job.followed:
            self.journal.undone([f"{changes.FOLLOWED}:{job.name}"], "the job ended")

    def _dissolving(
        self, job: Job, how: str, *, stays: bool = False
    ) -> Generator[None, None, list[str]]:
        """Remove a job's cgroup; processes in it go back to where they came from.

        `stays`: the cgroup stays, empty, for the next agent.
        """
        self.returning.give_up(job.name)
        if job.group is None:
            return []
        group, job.group = job.group, None
        self._backend.detach_cgroup(job.slot, group)
        return (yield from self.removal.remove(job.name, group, how, stays=stays))

    def _forget(self, job: Job) -> None:
        self.jobs.pop(job.name, None)
        self.tree.nested.pop(job.name, None)
        self.slots.give_back(job.slot)
        for path in list(job.followed):
            self._unfollow(job, path)
        self._backend.set_job(job.slot, None)
        kinds = (changes.SOCKETS, changes.FOLLOWED)
        self.journal.undone((f"{kind}:{job.name}" for kind in kinds), "the job ended")

    def _ids_of(self, name: str) -> list[str]:
        return changes.of_group(self.journal.active.values(), name)

    def _apply_rules(self) -> None:
        """Bring jobs with rules, and the kernel's table of ports, in line with the config."""
        rules = port_rules(self.config)
        named = set(rules.values())
        for name in sorted(named - set(self.jobs)):
            self._new_job(name)
        for job in list(self.jobs.values()):
            job.rule = job.name in named
            if not job.rule and not job.groups:
                self._switch([job], to_default=True)
                self._forget(job)
        self._rules.apply(rules, {name: self.jobs[name].slot for name in named})
