"""The jobs of this host: who has a slot, a cgroup, port rules, and what the kernel was told.

A job keeps its slot while it has processes or a rule.  Every edit goes through the
journal first.  Nothing here waits, or knows who asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from hostcc import changes, kept
from hostcc.bpf.errors import BpfError
from hostcc.cgroup_events import GroupEvents
from hostcc.cgroups import CgroupTree
from hostcc.config import Config, job_params, port_rules
from hostcc.errors import HostccError
from hostcc.exiting import Late
from hostcc.journal import Journal
from hostcc.limits import MAX_JOBS, is_job_name
from hostcc.log import get_logger
from hostcc.measure.discover.procfs import Stat
from hostcc.mltcp.backend import MltcpBackend, SwitchResult
from hostcc.mltcp.favour import Favour
from hostcc.mltcp.params import JobParams, Mode, Variant
from hostcc.sections.job import Wishes
from hostcc.sockets import Here, Job, Sockets, say_switched, walked

log = get_logger("jobs")

GRACE_S = 10.0
"""Time that a command has to enter the cgroup made for it, seconds."""
SWEEP = 16
"""Jobs looked at in one sweep, so that it stays cheap when many end."""


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
        """`walker`: where sockets are gone through; None: where that is asked for."""
        self.config = config
        self.mode = config.mltcp.mode
        self.weights: dict[str, float] = {}
        self.jobs: dict[str, Job] = {}
        self.favour = Favour()
        self.tree = tree
        self._backend = backend
        self._journal = journal
        self._default = default_ca
        self._clock = clock
        self._last_slot = 0
        self._rules: dict[tuple[int, bool], str] = {}
        self._rooted = False
        self._turn = 0
        self.edition = 0
        """Another one whenever jobs, their groups, or what is known of them may be others."""
        self._watched = -1
        """The edition whose groups are watched."""
        self._events = GroupEvents()
        self._stirred: set[Path] = set()
        """Groups of which something is new that nobody has looked at."""
        self._walker = walker or Here()
        self._moves: list[Future[SwitchResult]] = []
        """Walks that move sockets, as far as they may not be over."""
        self._parted = False
        self.late = Late(tree, journal)
        self.sockets = self._new_sockets()

    def start(self) -> None:
        """Take over what is there: groups of an earlier agent, port rules, open sockets."""
        self.edition += 1
        if not self.tree.exists(self.tree.base):
            with self._journal.making(changes.base_group(self.tree.base)):
                self.tree.create(self.tree.base)
        processes = cache(self.tree.processes)
        for group in self.tree.children():
            self._adopt(group, processes)
        self._drop_strays()
        self._apply_rules()
        self.refresh("start")
        self._wait()

    def register(self, name: str, wishes: Wishes, pid: int, why: str = "hostcc run") -> Path:
        """A command of job `name` is about to start in process `pid`: the cgroup to enter."""
        self.edition += 1
        job = self.jobs.get(name)
        if job is not None:
            return self._join(job, wishes, pid, why)
        job = self._new_job(name)
        try:
            group = self._join(job, wishes, pid, why)
        except BaseException:
            try:
                self._dissolve(job, "failed")
            finally:
                self._forget(job)
            raise
        log.info("job appeared", job=name, slot=job.slot, pid=pid)
        return group

    def _join(self, job: Job, wishes: Wishes, pid: int, why: str) -> Path:
        job.wishes = wishes.over(job.wishes)
        told_before = job.params is not None
        group = self._ensure_group(job, why)
        job.keep_until = self._clock() + GRACE_S
        self._journal.undone(self._dead_members(job.name), "the process is gone")
        self._journal.begin(changes.job_member(job.name, pid, self.tree.home_of(pid), group, why))
        # The group of a job that is new is empty: it has no socket to move yet.
        if self._tell(job, why) and told_before:
            self._switch([job], to_default=self.mode is Mode.OFF)
        return group

    def enter(self, job: str, pid: int) -> bool:
        """Move a process into its job's group; whether it is there."""
        there = self.tree.enter(self.tree.path(job), pid)
        if there:
            self.jobs[job].keep_until = 0.0
        return there

    def follow(self, name: str, groups: Iterable[Path], why: str) -> None:
        """Sockets of these cgroups, which others have made for a job, are the job's.

        Those that an earlier call named and this one does not are let go.
        """
        self.edition += 1
        job = self.jobs.get(name) or self._new_job(name)
        there = {path: number for path in groups if (number := self.tree.identity(path))}
        fresh = {path: n for path, n in there.items() if job.followed.get(path) != n}
        try:
            for path in [path for path in job.followed if path not in there]:
                self._unfollow(job, path)
            if fresh:
                self._journal.begin(changes.followed(name, there, why))
                job.how = job.how or why
                self._tell(job, why)
                refused = [self._follow(job, path, number) for path, number in fresh.items()]
                self._switch([job], to_default=self.mode is Mode.OFF)
                for error in filter(None, refused):
                    raise error
        finally:
            if not job.groups and not job.rule:
                self._forget(job)

    def _follow(self, job: Job, path: Path, number: int) -> Exception | None:
        """Why the kernel refused one of these cgroups; one that has ended is passed over."""
        try:
            self._backend.attach_cgroup(job.slot, path)
        except (BpfError, OSError) as error:
            return error if self.tree.identity(path) == number else None
        job.followed[path] = number
        return None

    def prefer(self, name: str, why: str) -> None:
        """Let one job go first, in mode mltcp; nobody with an empty name."""
        self._favour(replace(self.favour, first=name), why)

    def weigh(
        self, factors: Mapping[str, float], why: str, alone: frozenset[str] = frozenset()
    ) -> None:
        """Multiply jobs' weights, in mode mltcp; the others' are as their owners wish.

        `alone`: jobs that share no link, by the plan.
        """
        self._favour(replace(self.favour, planned=factors, alone=alone), why)

    def weight_of(self, job: Job) -> float:
        """Its owner's wish."""
        configured = self.config.job_named(job.name)
        own = configured.weight if configured else 1.0
        return own if job.wishes.weight is None else job.wishes.weight

    def configure(self, config: Config, toggled: bool = False, why: str = "reload") -> None:
        """Take over a new configuration; its mode too, unless somebody `toggled` that."""
        self.edition += 1
        self.config = config
        if not toggled:
            self.mode = config.mltcp.mode
        self.sockets = self._new_sockets()
        self._apply_rules()
        self.refresh(why)

    def share(self, mode: Mode, weights: Mapping[str, float], who: str) -> None:
        """The toggle: live connections follow; see `moved`."""
        self.edition += 1
        change = changes.mode(self.mode, mode, weights, who)
        self._journal.begin(change, undoing=mode is Mode.OFF)
        self.mode, self.weights = mode, dict(weights)
        self.refresh(who, again=True)

    def refresh(self, why: str, again: bool = False) -> None:
        """Tell the kernel what is new about each job; move sockets where that needs it.

        `again`: move sockets even of jobs of which nothing is new, because somebody asked.
        """
        moved = [job for job in self.jobs.values() if self._tell(job, why) or again]
        for off in (True, False):
            those = [job for job in moved if job.params and (job.params.mode is Mode.OFF) is off]
            self._switch(those, to_default=off)

    def sweep(self) -> None:
        """Drop jobs whose groups are empty or gone.  Looks at a few per call, of those of which
        something is new."""
        if self._watched != self.edition:
            self._watched = self.edition
            groups = {group: n for job in self.jobs.values() for group, n in job.ids.items()}
            self._events.watch(groups)
            self._stirred &= groups.keys()
        self._stirred |= self._events.stirred()
        due = [
            job
            for job in self.jobs.values()
            if job.emptied or (self._stirred and not self._stirred.isdisjoint(job.groups))
        ]
        turn = [due[(self._turn + i) % len(due)] for i in range(min(SWEEP, len(due)))]
        self._turn += len(turn)
        self.edition += bool(turn)
        for job in turn:
            self._stirred.difference_update(job.groups)
            self._look_at_followed(job)
            if job.group is not None:
                self._look_at(job, job.group)

    async def part(self) -> None:
        """Give all sockets back, ahead of `release`, which then has less to wait for."""
        self._switch(list(self.jobs.values()), to_default=True)
        await self.moved()
        self._parted = True

    def release(self, how: str) -> list[str]:
        """Undo all of it; what could not be undone, in words."""
        self.edition += 1
        problems: list[str] = []
        live = list(self.jobs.values())
        if live and not self._parted:
            self._switch(live, to_default=True)
            self._wait()
        if live:
            self._journal.undone((f"{changes.SOCKETS}:{job.name}" for job in live), how)
        for job in live:
            try:
                problems += self._dissolve(job, how, kept.PROCESSES_MOST // len(live))
                self._forget(job)
            except (BpfError, OSError, HostccError) as error:  # the others' go all the same
                problems.append(f"job {job.name}: {error}")
        self._backend.set_port_rules({})
        self._rules = {}
        self._journal.undone([changes.RULES, changes.MODE], how)
        return problems or ([] if self.late.groups else self.end(how))

    def end(self, how: str) -> list[str]:
        """Last of all, remove the directory of the groups, unless a job's stays; why not."""
        if any(change.what == changes.GROUP for change in self._journal.active.values()):
            return []
        if self.tree.exists(self.tree.base) and not self.tree.remove(self.tree.base):
            return [f"{self.tree.base}: somebody else uses it, left in place"]
        self._journal.undone([changes.BASE], how)
        return []

    async def moved(self) -> None:
        """Wait until sockets are where the jobs want them.  Raises what went wrong on the way."""
        while self._moves:
            await walked(self._moves.pop(0))

    def close(self) -> None:
        """Watch groups no longer; all stays as it is.  Waits for a walk that is under way."""
        self._events.close()
        self._walker.shutdown(cancel_futures=True)

    def by_slot(self) -> dict[int, Job]:
        """Slot -> job."""
        return {job.slot: job for job in self.jobs.values()}

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Those names that are no job here now."""
        return sorted(name for name in names if name not in self.jobs)

    def _new_job(self, name: str) -> Job:
        taken = self.by_slot()
        # Slots go round: a socket that outlives its job must not join the next one.
        order = [(self._last_slot + i) % (MAX_JOBS - 1) + 1 for i in range(MAX_JOBS - 1)]
        slot = next((slot for slot in order if slot not in taken), 0)
        if not slot:
            raise HostccError(f"all {MAX_JOBS - 1} job slots of this host are in use")
        self._last_slot = slot
        return self.jobs.setdefault(name, Job(name, slot, Wishes()))

    def _adopt(self, group: Path, processes: Callable[[], Mapping[int, Stat]]) -> None:
        """A group that was here before us: dead ones go, live ones become jobs again."""
        known = self._journal.active.get(f"{changes.GROUP}:{group.name}")
        if back := kept.returning(known, group, self.tree, processes):
            self._journal.begin(*back)
            stuck = [one for one in back if not self.tree.enter(group, int(one.target))]
            log.info("put processes back", job=group.name, processes=len(back), failed=len(stuck))
        if not is_job_name(group.name) or not self.tree.populated(group):
            if self.tree.remove(group):
                log.info("removed an empty cgroup of an earlier agent", path=group)
                self._journal.undone(self._ids_of(group.name), "left behind, removed")
            return
        job = self._new_job(group.name)
        job.wishes = kept.job_of(known).wishes
        self._ensure_group(job, "found running")
        log.info("took over a job that was running", job=job.name, slot=job.slot)

    def _drop_strays(self) -> None:
        """Let go of groups by the journal that are gone, or empty below another root."""
        groups = {changes.job_of_group(one): one for one in self._journal.active.values()}
        for name, change in groups.items():
            if name and name not in self.jobs and self.tree.remove(Path(change.target)):
                self._journal.undone(self._ids_of(name), "left behind, removed")

    def _ensure_group(self, job: Job, why: str) -> Path:
        path = self.tree.path(job.name)
        change = changes.job_group(job.name, path, job.wishes.shown(), why)
        known = self._journal.active.get(change.id)
        if known is None or known.after != change.after:
            self._journal.begin(change)
        if job.group is not None and self.tree.identity(path) == job.group_id:
            return path
        with ExitStack() as undo:
            undo.callback(self._journal.undone, [change.id], "failed")
            self.tree.create(path)
            undo.callback(self.tree.remove, path)
            self._backend.attach_cgroup(job.slot, path)
            undo.pop_all()
        job.group, job.group_id = path, self.tree.identity(path)
        return path

    def _tell(self, job: Job, why: str) -> bool:
        """Write a job's parameters if they are new; whether its sockets have to move."""
        static = self.weights.get(job.name)
        wished = job_params(self.config, job.name, self.mode, static, job.wishes)
        params = self.favour.applied(wished)
        old = job.params
        if params == old:
            return False
        change_id = f"{changes.SOCKETS}:{job.name}"
        if params.mode is not Mode.OFF:
            name = self._backend.ca_names[params.variant]
            self._journal.begin(changes.job_sockets(params, name, self._default, why))
        self._backend.set_job(job.slot, params)
        job.params = params
        if params.mode is Mode.OFF:
            self._journal.undone([change_id], why)
        return _runs(old) is not _runs(params)

    def _favour(self, favour: Favour, why: str) -> None:
        before, self.favour = self.favour, favour
        for job in self.jobs.values():
            if not favour.same(before, job.name):
                self._tell(job, why)

    def _switch(self, those: list[Job], to_default: bool) -> None:
        if not those:
            return
        targets: list[Job | None] = [None] if len(those) == len(self.jobs) else [*those]
        self._moves = [walk for walk in self._moves if not walk.done()]
        for only in targets:
            walk = self.sockets.switch(self.jobs.values(), only, to_default)
            whose = "all" if only is None else only.name
            walk.add_done_callback(partial(say_switched, whose, to_default))
            self._moves.append(walk)

    def _wait(self) -> None:
        """Until sockets have moved, here and now; raises what went wrong."""
        while self._moves:
            self._moves.pop(0).result()

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
            self._journal.note(f"job {job.name}", text)
        self._backend.detach_cgroup(job.slot, group)
        job.group, job.emptied = None, False
        self._journal.undone(self._ids_of(job.name), "the job ended")
        if not job.groups and not job.rule:
            log.info("job ended", job=job.name)
            self._forget(job)

    def _look_at_followed(self, job: Job) -> None:
        gone = [path for path, n in job.followed.items() if self.tree.identity(path) != n]
        for path in gone:
            self._unfollow(job, path)
        if gone and not job.groups and not job.rule:
            log.info("job ended", job=job.name)
            self._forget(job)

    def _unfollow(self, job: Job, path: Path) -> None:
        self._backend.detach_cgroup(job.slot, path)
        del job.followed[path]
        if not job.followed:
            self._journal.undone([f"{changes.FOLLOWED}:{job.name}"], "the job ended")

    def _dissolve(self, job: Job, how: str, most: int = 0) -> list[str]:
        """Take a job's group away; processes still in it go back where they came from.

        If there are any, and at `most` so many may be kept, it stays empty for the next agent.
        """
        if job.group is None:
            return []
        group, job.group = job.group, None
        self._backend.detach_cgroup(job.slot, group)
        stays = most > 0 and self._keep(job, group, how, most)
        origins = changes.origins(self._journal.active.values(), job.name)
        stuck = self.tree.move_out(group, origins) if self.tree.populated(group) else []
        if stays and not stuck:
            members = changes.members(self._journal.active.values(), job.name)
            self._journal.undone([one.id for one in members], how)
            return []
        if not self.tree.remove(group):
            if not self.tree.living(self.tree.pids(group)):
                self.late.groups[group] = self._ids_of(job.name)
                return []
            return [f"{group}: processes {stuck or 'of others'} are still in it, left in place"]
        self._journal.undone(self._ids_of(job.name), how)
        return []

    def _keep(self, job: Job, group: Path, how: str, most: int) -> bool:
        """Have the journal keep who is in a job's group; whether somebody is, and it does."""
        there = self.tree.living(self.tree.pids(group))
        note = {**job.wishes.shown(), **kept.noted(job.group_id, there, most)}
        try:
            if there:
                self._journal.begin(changes.job_group(job.name, group, note, how))
        except HostccError as error:  # what can be undone is, all the same
            log.failure("the next agent will not know a job", job=job.name, reason=str(error))
            return False
        return bool(there)

    def _forget(self, job: Job) -> None:
        self.jobs.pop(job.name, None)
        for path in list(job.followed):
            self._unfollow(job, path)
        self._backend.set_job(job.slot, None)
        kinds = (changes.SOCKETS, changes.FOLLOWED)
        self._journal.undone((f"{kind}:{job.name}" for kind in kinds), "the job ended")

    def _ids_of(self, name: str) -> list[str]:
        members = changes.members(self._journal.active.values(), name)
        return [*(one.id for one in members), f"{changes.GROUP}:{name}"]

    def _dead_members(self, name: str) -> list[str]:
        members = changes.members(self._journal.active.values(), name)
        return [one.id for one in members if not Path(f"/proc/{one.target}").exists()]

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
        if rules == self._rules:
            return
        if not rules:
            self._backend.set_port_rules({})
            self._journal.undone([changes.RULES], "no rule is left")
        else:
            self._journal.begin(changes.port_rules(rules, self.tree.root))
            if not self._rooted:
                self._backend.attach_root(self.tree.root)
                self._rooted = True
            self._backend.set_port_rules({key: self.jobs[name].slot for key, name in rules.items()})
        self._rules = rules


def _runs(params: JobParams | None) -> Variant | None:
    """Which variant the sockets of a job with these parameters run; None: the host's default."""
    return None if params is None or params.mode is Mode.OFF else params.variant
