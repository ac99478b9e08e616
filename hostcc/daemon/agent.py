"""The daemon: start, loop, requests and stop of one agent.

The tick of its asyncio loop writes the heartbeat.  When the loop is stuck, the heartbeat becomes
stale and the BPF programs act as the plain algorithm until the loop turns again.  An agent that
cannot write the heartbeat undoes its changes and exits, to be started again.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from hostcc.answers.host import Sharing, Undone, Verification
from hostcc.answers.status import Loop
from hostcc.answers.status import Status as AgentAnswer
from hostcc.bpf.loader.errors import BpfError
from hostcc.config import newer_keys
from hostcc.config.load import load, present
from hostcc.config.schema import Config
from hostcc.daemon import preflight, rollback
from hostcc.daemon.api import answers
from hostcc.daemon.api.credentials import Peer
from hostcc.daemon.api.messages import (
    CHANGING,
    Changes,
    Request,
    Rollback,
    Status,
    Unfair,
    Verify,
)
from hostcc.daemon.api.server import ControlServer
from hostcc.daemon.changes import elsewhere, leftovers
from hostcc.daemon.changes.attribute_copy import AttributeCopy
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.changes.kinds import ended_with_agent
from hostcc.daemon.enforcement import Engine, MakeBackend, MakeTree, kernel_backend
from hostcc.daemon.event_reader import EventReader
from hostcc.daemon.hold import RELEASE, HoldFile
from hostcc.daemon.isolated_steps import IsolatedSteps, Step, awaited, log_failure, run_each
from hostcc.daemon.job_membership import JobMembership
from hostcc.daemon.jobs import released as kept
from hostcc.daemon.jobs import views
from hostcc.daemon.lockfile import AgentLock
from hostcc.daemon.registry import Handlers, Registry
from hostcc.daemon.sd_notify import Notifier
from hostcc.daemon.stalls import Stalls
from hostcc.daemon.supervisor import Host, in_thread, until_tick
from hostcc.errors import HostccError, InputError, UnrecordedError
from hostcc.log import configure, get_logger
from hostcc.mltcp.params import Mode
from hostcc.model import Difference
from hostcc.system.cgroups import CgroupTree, resolve_root
from hostcc.system.descriptors import allow_more
from hostcc.system.slices import in_slices
from hostcc.version import version

log = get_logger("agent")

CHECK_INTERVAL_S = 10.0
"""Seconds between two checks whether somebody else has edited what the agent made."""
RESTART_KEYS = (
    "instance", "run_dir", "socket", "socket_group", "cgroup_root", "observe_only",
    "metrics_listen", "metrics_certificate", "metrics_user",
)  # fmt: skip
"""Keys of [agent] that need a restart."""


class Agent:
    """One agent, from start to stop."""

    def __init__(
        self,
        config: Config,
        config_path: Path | None = None,
        make_backend: MakeBackend = kernel_backend,
        make_tree: MakeTree = CgroupTree,
        make_roster: Callable[[Host], Registry] = Registry,
        stalls: Stalls | None = None,
        ignored: Sequence[str] = (),
    ) -> None:
        """`stalls`: times the loop that the agent is to run in; `ignored`: lines about keys of the
        configuration that are a newer version's."""
        self.config = config
        self._path = config_path
        self._must_exist = config_path is not None and config_path.exists()
        self._configured = config_path is not None and present(config_path)
        self._make_backend = make_backend
        self._make_tree = make_tree
        self._run_dir = Path(config.agent.run_dir)
        self._lock = AgentLock(self._run_dir)
        self._notifier = Notifier()
        self._started = time.monotonic()
        self._version = version()
        self._stop = asyncio.Event()
        self._changing = asyncio.Lock()
        self._stalls, self._ignored = stalls, ignored
        self.steps = IsolatedSteps(log)
        """The steps of a tick."""
        self._fatal: HostccError | None = None
        """Why it stops by itself; None while it does not."""
        self._known: set[Difference] = set()
        self._verified: set[Difference] = set()
        self._server: ControlServer | None = None
        self._metrics: Any = None
        self.journal: Journal
        self.engine: Engine | None = None
        self._toggle: tuple[Mode, dict[str, float], str] | None = None
        self._hold = HoldFile(self._run_dir)
        self.observing = "observe_only is set" if config.agent.observe_only else ""
        """Why nothing is changed on this host; empty while the agent acts."""
        self.roster = make_roster(self)
        self.iteration_times = self.roster.iteration_times
        self.events = EventReader(self.iteration_times, self.roster.gates.burst)
        members = JobMembership(self, self.roster).handlers
        self._handlers = {**self._own_handlers(), **members, **self.roster.handlers}

    async def run(self) -> None:
        """Start, serve until a signal, stop.  Raises HostccError when it cannot start, or had to
        stop by itself."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.steps.unseen(context))
        for number in (signal.SIGTERM, signal.SIGINT):  # a start that has begun ends first
            loop.add_signal_handler(number, self._stop.set)
        changed = asyncio.Event()  # the configuration, while the old one is put in force
        loop.add_signal_handler(signal.SIGHUP, changed.set)
        await self.start()
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        if changed.is_set():
            self.reload()
        if self._stalls is not None:
            self._stalls.begin()
        tasks = [asyncio.create_task(one) for one in (self._beat(), self._watch())]
        asked = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((asked, *tasks), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (asked, *tasks):
                task.cancel()
            outcomes = await asyncio.gather(asked, *tasks, return_exceptions=True)
            await self.stop()
        for error in outcomes:
            if isinstance(error, Exception):  # nothing is known to lead here
                log.defect("the loop ended", error)
                raise HostccError(f"stopped: the loop ended: {error!r}")
        if self._fatal is not None:
            raise self._fatal
        if self.journal.unrecorded:
            raise UnrecordedError(self.journal.unrecorded_line())

    async def start(self) -> None:
        """Take the locks, clean up after an earlier agent, put everything in force, listen."""
        self._take_hold()
        if not self.observing:
            problems = preflight.missing(self.config.agent.cgroup_root)
            if problems:
                raise preflight.refusal(problems)
        self._lock.acquire()
        try:
            self._open_journal()
            if not self.observing:
                self._act()
            await self._listen()
        except BaseException:
            how = "the start failed"
            await run_each(log, how, self._closing(how) | {"lock": self._lock.release})
            raise
        self.roster.parts.start()
        self._say_ready()
        log.info(
            "ready",
            state="observing" if self.observing else "active",
            socket=self.config.socket_path,
            jobs=len(self.engine.table.jobs) if self.engine else 0,
        )

    async def stop(self) -> None:
        """End as on_exit says.  All steps are taken, also after one that failed."""
        kept = self.config.agent.on_exit == "keep"
        how = "kept for the next agent" if kept else "stopped"
        self._notifier.stopping()
        allow_more()
        steps = self._closing("the agent stopped", kept=kept)
        last = {"journal": lambda: self.journal.close(how), "lock": self._lock.release}
        await run_each(log, "stop", steps | last)
        log.info("stopped", changes=how)

    def _closing(self, how: str, *, kept: bool = False) -> dict[str, Step]:
        """Steps that end what `start` began; `kept`: jobs stay as they are."""
        steps: dict[str, Step] = {}
        if self._metrics is not None:
            steps["metrics"] = self._metrics.close
        if self._server is not None:
            steps["control"] = self._server.close
        steps["events"] = self.events.close
        return {**steps, "parts": self.roster.parts.stop, "engine": lambda: self._end(how, kept)}

    async def _end(self, how: str, kept: bool) -> None:
        engine, self.engine = self.engine, None
        if engine is not None and kept:
            engine.drop("kept for the next agent")
        elif engine is not None:
            self._report(await self._restore(engine, how))

    async def _restore(self, engine: Engine, how: str) -> list[str]:
        """Undo all changes; returns what could not be undone, in words."""
        left = await asyncio.to_thread(rollback.rest, self.journal)
        return left + await engine.restore(how)

    def reload(self) -> None:
        """Apply the configuration file (SIGHUP) if it is valid, else keep the old configuration."""
        if self._path is None:
            log.warning("reload: there is no configuration file")
            return
        self._notifier.reloading(time.monotonic_ns() // 1000)
        try:
            self._take_over(load(self._path, self._must_exist))
            self._configured = present(self._path)
        except InputError as error:
            log.failure("reload refused, the old configuration stays", reason=str(error))
        except Exception as error:  # noqa: BLE001 - the service manager waits for the answer
            log_failure(log, "reload failed", error)
        self._say_ready()

    async def handle(self, request: Request, peer: Peer) -> Any:
        """Carry out one request from the control socket; of those that change something, one at a
        time."""
        turns = self._changing if isinstance(request, CHANGING) else nullcontext()
        try:
            async with turns:
                return await awaited(self._handlers[type(request)](request, peer))
        except (BpfError, OSError) as error:
            raise HostccError(str(error)) from error

    # Start and reload.

    def _take_hold(self) -> None:
        """Go on as an operator has said for good."""
        held = self._hold.read()
        if held is not None and held.what == "off":
            self._toggle = (Mode.OFF, {}, held.who)
        elif held is not None:
            self.observing = self.observing or held.line()

    def _open_journal(self) -> None:
        self.journal = Journal(self._run_dir)
        if self.journal.damaged:
            log.warning("journal has unreadable lines", lines=self.journal.damaged)
        if self.journal.active:
            log.info(
                "an earlier agent left changes behind",
                pid=self.journal.last_pid,
                changes=len(self.journal.active),
            )
        self.journal.open(self._version)
        for line in self._ignored:
            self.journal.note("configuration", line)
        try:
            newer_keys.remember(self.config.agent.state_dir, self._version)
        except (InputError, OSError) as error:
            log.failure("an older version will refuse newer keys", reason=str(error))

    def _act(self, left_groups: kept.LeftGroups | None = None) -> None:
        """Put an engine in force; `left_groups`: cgroups of an earlier agent, if they are read."""
        root = resolve_root(self.config.agent.cgroup_root)
        self._lock.acquire_root(root)
        new, outcome = leftovers.reconcile(self.journal, self._make_tree(root).base)
        self._report(outcome.problems)
        for one in new:
            log.warning("left behind, and not in the journal", change=one.id, target=one.target)
        ended = ended_with_agent(self.journal.active.values())
        self.journal.undone(ended, "ended with the agent that made it")
        try:
            make = self._make_backend, self._make_tree
            engine = Engine(self.config, self.journal, *make, left_groups, self._toggle)
        except BpfError as error:
            raise HostccError(f"the kernel refused: {error}") from error
        self.journal.copy_to(AttributeCopy(engine.table.tree.base))
        self.engine, self.observing = engine, ""
        self.roster.parts.wake()  # so that the parts serve the new engine at once

    async def _listen(self) -> None:
        agent = self.config.agent
        self._server = ControlServer(self.config.socket_path, agent.socket_group, self.handle)
        await self._server.start()
        if agent.metrics_listen:
            from hostcc.daemon.api.metrics import MetricsServer
            from hostcc.daemon.api.metrics_access import MetricsAccess

            more = self.roster.measurement.gauges, self.iteration_times.families
            access = MetricsAccess(agent.metrics_certificate, agent.metrics_user)
            self._metrics = MetricsServer(agent.metrics_listen, self.status, more, access)
            await self._metrics.start()

    def _take_over(self, new: Config) -> None:
        import msgspec

        old = self.config.agent
        held = {key: getattr(old, key) for key in RESTART_KEYS}
        if late := [key for key in RESTART_KEYS if getattr(new.agent, key) != held[key]]:
            log.warning("needs a restart to take effect", keys=", ".join(late))
        merged = msgspec.structs.replace(new, agent=msgspec.structs.replace(new.agent, **held))
        if self.engine is not None and self.engine.fits(merged):
            self.engine.table.configure(merged, toggled=self._toggle is not None)
            self.config = merged
        elif self.engine is not None:
            self._rebuild(merged)
        else:
            self.config = merged
        configure(merged.agent.log_level, merged.agent.log_format)
        self.roster.parts.recheck()
        log.info("configuration reloaded")

    def _rebuild(self, new: Config) -> None:
        """Register anew, for other variants; jobs and the toggle stay.  If the kernel refuses, go
        back to the old configuration."""
        if self.engine is not None:
            self.engine.drop("registering anew")
        self.engine, old = None, self.config
        try:
            self.config = new
            self._act()
        except (HostccError, OSError) as error:
            self.observing = f"could not register anew: {error}"
            self.config = old
            self._act()
            raise

    def _say_ready(self) -> None:
        jobs = len(self.engine.table.jobs) if self.engine else 0
        self._notifier.ready(f"observing: {self.observing}" if self.observing else f"{jobs} jobs")

    # The loop.

    async def _beat(self) -> None:
        while True:
            self.tick()
            half = self._notifier.watchdog_s / 2
            every = self.config.agent.heartbeat_s
            wait_s = min(every, half) if half else every
            await asyncio.sleep(until_tick(wait_s, time.monotonic()))

    async def _watch(self) -> None:
        while True:
            if self.engine is not None:
                await self.steps.wait_for("check", self._check)
            await asyncio.sleep(CHECK_INTERVAL_S)

    def tick(self) -> None:
        """Write the heartbeat, drop jobs that ended, read the kernel's events."""
        engine = self.engine
        if engine is None:
            self.steps.forget()
        elif not self.steps.do("heartbeat", engine.backend.beat):
            self._give_up_if_late()
        self.steps.do("watchdog", self._notifier.alive)
        if engine is not None:
            self.steps.do("sweep", engine.table.sweep)
        self.steps.do("events", lambda: self.events.read(engine))

    def _give_up_if_late(self) -> None:
        """Stop when the heartbeat is stale: the BPF programs act as if there were no agent."""
        late_s = self.steps.failing_s("heartbeat")
        if self._fatal is None and late_s >= self.config.agent.heartbeat_stale_s:
            why = self.steps.failing["heartbeat"]
            words = f"the heartbeat could not be written for {late_s:.1f} s: {why}"
            log.failure("giving up", reason=words)
            self._fatal = HostccError(words)
            self._stop.set()

    async def _check(self) -> None:
        if self.engine is not None:
            self._note([*self.engine.check(), *await self._others_edits()])

    async def _others_edits(self) -> list[Difference]:
        """Find what is no longer as the parts made it, and whether the control socket is there."""
        found = await self.roster.parts.verify()
        if self._server is not None and not self._server.intact():
            path = str(self.config.socket_path)
            found.append(Difference("control-socket", path, "present", "absent or replaced"))
        return found

    def _note(self, found: list[Difference]) -> None:
        """Record once what somebody else edited; the agent leaves it alone from now on."""
        for difference in found:
            if difference not in self._known:
                self.journal.note(difference.target, _log(difference))
        self._known = set(found)

    def _report(self, problems: list[str]) -> None:
        for problem in problems:
            log.warning("not undone", reason=problem)
            self.journal.note("roll-back", problem)

    # Requests.

    def _own_handlers(self) -> Handlers:
        return {
            Unfair: self._unfair,
            Rollback: self._rollback,
            Status: lambda *_: self.status(),
            Changes: lambda request, _: views.journal(self.journal, request.limit),
            Verify: lambda *_: self._verify(),
        }

    def status(self) -> AgentAnswer:
        """The agent and its jobs, in numbers."""
        loop = Loop(
            longest_stall_s=self._stalls.longest_s if self._stalls else None,
            longest_busy_s=self._stalls.longest_busy_s if self._stalls else None,
            failing=dict(self.steps.failing),
            failures=self.steps.failures,
        )
        odd = len(self._known)
        why, held = self.observing, self._hold.line
        path = self._path if self._configured else None
        facts = answers.Facts(self._version, self._started, path, why, loop, held, odd)
        more = self.roster.measurement.iteration, self.roster.history.annotated
        return answers.status(self, facts, self.iteration_times, self.roster.parts, *more)

    async def _verify(self) -> Verification:
        """Answer `verify`.  Users who may only read may ask, so nothing is written to the journal;
        new differences are noted in memory."""
        found, engine = await self._others_edits(), self.engine
        if engine is None:
            return views.verification(0, found, [], self.observing)
        odd, others = await engine.check_flows()
        found += elsewhere.differences(self.journal)
        found = [*engine.check(), *odd, *found]
        for difference in found:
            if difference not in self._known | self._verified:
                self.journal.note(difference.target, _log(difference), written=False)
        self._verified = set(found)
        in_force = len(self.journal.active) + len(self.journal.aside)
        return views.verification(in_force, found, others)

    async def _unfair(self, request: Unfair, peer: Peer) -> Sharing:
        who = f"hostcc unfair, by uid {peer.uid}, pid {peer.pid}"
        if self.config.agent.observe_only:
            raise HostccError("the agent only observes: start it without observe_only")
        before = str(self.engine.table.mode) if self.engine else "nothing"
        self._hold.write("off", who) if request.hold else self._hold.release()
        self._toggle = (request.mode, dict(request.weights), who)
        if self.engine is None:
            tree = self._make_tree(resolve_root(self.config.agent.cgroup_root))
            self._act(await in_thread(kept.left_groups, dict(self.journal.active), tree))
        else:
            self.engine.table.share(*self._toggle)
        assert self.engine is not None
        table = self.engine.table
        with closing(table.come_back()) as steps:
            await in_slices(steps)
        self.roster.parts.wake()
        self._known.clear()
        self.roster.parts.recheck()
        await table.moved()
        log.info("how jobs share", mode=request.mode, before=before, by=peer.pid)
        return Sharing(
            mode=str(request.mode),
            before=before,
            jobs=sorted(table.jobs),
            unknown=sorted(request.weights.keys() - table.jobs.keys()),
        )

    async def _rollback(self, request: Rollback, peer: Peer) -> Undone:
        before = list(self.journal.active)
        if request.hold:
            self._hold.write("rollback", f"hostcc rollback, by uid {peer.uid}, pid {peer.pid}")
        allow_more()
        if self.engine is None:
            make = self._make_backend, self._make_tree
            return await in_thread(rollback.left, self.journal, *make)
        engine, self.engine = self.engine, None
        by = f"rolled back by pid {peer.pid}; {RELEASE}"
        self.observing = (self._hold.line if request.hold else None) or by
        self._toggle = None
        try:
            await self.roster.parts.stop_disabled()
        finally:
            problems = await self._restore(engine, "rolled back")
            self._report(problems)
        undone = [change_id for change_id in before if change_id not in self.journal.active]
        self._say_ready()
        log.info("rolled back", by=peer.pid, changes=len(undone), problems=len(problems))
        problems = [*problems, *elsewhere.problems(self.journal)]
        return views.rollback(undone, problems, self.journal.unrecorded)


def _log(difference: Difference) -> str:
    """Log that an administrator's edit stays; returns it in words."""
    text = f"expected {difference.expected}, found {difference.found}"
    log.warning("standing aside", target=difference.target, reason=text)
    return text
