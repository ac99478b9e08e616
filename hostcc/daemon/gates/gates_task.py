"""The part that lets jobs which share a link send one after the other, by gates of their bursts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from hostcc.answers.parts import GatedJob, GatesPart
from hostcc.config.schema import Config
from hostcc.daemon.changes import kinds
from hostcc.daemon.enforcement import Engine
from hostcc.daemon.gates import gate_notes
from hostcc.daemon.gates.gate_keeper import MAX_LATE_S, GateKeeper
from hostcc.daemon.gates.gate_notes import GateNote
from hostcc.daemon.gates.job_gates import Burst, BurstEvent, Gate, Holds
from hostcc.daemon.gates.kernel_gates import KernelGates
from hostcc.daemon.gates.local_groups import LocalJob, by_connections, by_queue_pairs, local_plans
from hostcc.daemon.gates.shim_gates import POLL_S, ShimGates
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.profile_store import ProfileStore
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.supervisor import Host
from hostcc.log import get_logger
from hostcc.mltcp.backend import Records
from hostcc.mltcp.params import Mode
from hostcc.model import Change, Difference
from hostcc.schedule.gates import groups
from hostcc.schedule.gates.groups import Exchange, GatePlan

if TYPE_CHECKING:
    from hostcc.daemon.jobs.sockets import Job

log = get_logger("gates")

TICK_S = 0.5
LOCAL_S = 2.0
"""Between two looks at which jobs share a link of this host, seconds."""
FORGET_S = 600.0
"""For so long it is remembered how fast a job sends alone.  Who took no turns for that long, for
what was measured then, gets another chance."""
MAX_TOLD = 64
"""Hosts that a job's first host tells of its turns; a job that more wait for is left alone."""
UNKNOWN = Exchange(0.0, 0.0, 0.0, 0.0)
TOGETHER_REASON = f"more than {MAX_TOLD} hosts would have to be told"
Links = Callable[[str], Mapping[str, float | None]]
"""Job -> the links of this host that it sends over, with their rates (LocalJob.links)."""


class HoldTotals:
    """How often and for how long jobs waited, those that have ended among them."""

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[int, float]] = {}
        """Job -> turns that it waited, seconds."""
        self._ended = 0, 0.0

    @property
    def turns_waited(self) -> int:
        """Bursts that waited."""
        return self._ended[0] + sum(turns for turns, _ in self.jobs.values())

    @property
    def held_s(self) -> float:
        """For how long."""
        return self._ended[1] + sum(held_s for _, held_s in self.jobs.values())

    def update(self, holds: Mapping[str, Holds]) -> None:
        """Take over what the jobs of now have."""
        now = {name: (one.turns, one.held_s) for name, one in holds.items()}
        for name, (turns, held_s) in self.jobs.items():
            if name not in now or now[name][0] < turns:
                self._ended = self._ended[0] + turns, self._ended[1] + held_s
        self.jobs = now


class Gates:
    """Closes and opens gates as bursts begin and end, here and on other hosts."""

    name = "gates"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        cluster: Cluster,
        plans: PlanStore,
        profiles: ProfileStore,
        links: Links,
        shim: ShimGates,
        by_rdma: Callable[[str], bool] = lambda _: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`by_rdma`: whether the bytes that count of a job are those of its queue pairs; `clock`:
        CLOCK_MONOTONIC, as deadlines are."""
        self._host, self._cluster, self._plans = host, cluster, plans
        self._profiles, self._links, self._clock = profiles, links, clock
        self.toggled: bool | None = None
        """What `hostcc shifts` asked for; None: as configured."""
        self._keeper = GateKeeper(host.config.shifts.max_share)
        self._kernel: KernelGates | None = None
        self._shim, self._by_rdma = shim, by_rdma
        self._rdma = frozenset[str]()
        """Jobs that are held by the shim."""
        self._timer: asyncio.TimerHandle | None = None
        self._planned: tuple[PlanResult | None, frozenset[str]] = None, frozenset()
        """What the plans of now were made of."""
        self._hosts: Mapping[str, tuple[str, ...]] = {}
        self._by_plan: Mapping[str, GatePlan] = {}
        """Of the jobs whose paths the plan knows."""
        self._alone = frozenset[str]()
        """The other jobs of this host."""
        self._totals = HoldTotals()
        self._since_s: dict[str, float] = {}
        """Job of this host -> since when it takes turns, monotonic."""
        self._lone_rates: dict[str, tuple[float, float]] = {}
        """Job -> bytes/s while no rival sends, and when that was measured, monotonic."""
        self._local_due_s = 0.0
        self._local = True
        """Whether this host alone decides about some of its jobs."""
        self._armed_s = self._together_s = 0.0
        """Until when the gates of all jobs are armed, and until when they are closed, monotonic."""

    def disabled_reason(self) -> str:
        """Say why no gate is closed; empty: they are."""
        if self._host.engine is None:
            return "nothing is changed on this host"
        if self.toggled is False:
            return "hostcc shifts off"
        enabled = self.toggled or self._host.config.shifts.enabled
        return "" if enabled else "shifts.enabled is false"

    def start(self) -> None:
        """Listen to other hosts; gates are armed with the first tick."""
        self._keeper = GateKeeper(self._host.config.shifts.max_share)
        self._kernel = None
        self._totals, self._since_s = HoldTotals(), {}
        self._planned, self._alone, self._local_due_s = (None, frozenset()), frozenset(), 0.0
        self._cluster.listen(gate_notes.TOPIC, self._hear)
        self._host.journal.begin(kinds.gates(self._keeper.max_share))

    async def tick(self) -> None:
        """Find out who takes turns with whom, and arm the gates of this host's jobs."""
        engine = self._host.engine
        if engine is None:
            return
        if self._kernel is None or engine is not self._kernel.engine:
            self._kernel = KernelGates(engine)
        self._shim.look()
        max_share = self._host.config.shifts.max_share
        if max_share != self._keeper.max_share:
            self._host.journal.begin(kinds.gates(max_share))
            self._keeper.max_share = max_share
        self._follow(engine)
        now_s = self._clock()
        self._since_s = {job: self._since_s.get(job, now_s) for job in self._keeper.own}
        self._learn(now_s)
        self._write(self._kernel)
        self._poll()
        if self._keeper.own or self._totals.jobs:
            self._totals.update(self._holds(self._kernel))

    def stop(self) -> None:
        """Open all gates."""
        self._cluster.listen(gate_notes.TOPIC, None)
        kernel, self._kernel = self._kernel, None
        self._keeper.follow({}, ())
        self._since_s = {}
        self._lone_rates, self._profiles.lone_rates = {}, {}
        self._poll()
        try:
            self._shim.close()
            if kernel is not None and kernel.engine is self._host.engine:
                kernel.arm({})
        finally:
            self._host.journal.undone([kinds.GATES], "gates opened")

    def verify(self) -> list[Difference]:
        """Find gates that are not as they were written."""
        return self._shim.differences()

    def view(self) -> GatesPart:
        """Show who takes turns with whom, and for how long jobs were held."""
        engine = self._host.engine
        if engine is None:
            return GatesPart()
        holds, now_s = self._holds(self._acting() or KernelGates(engine)), self._clock()
        rows = []
        self._totals.update(holds)
        for name, job in sorted(engine.table.jobs.items()):
            of = holds[name]
            plan = self._keeper.plans.get(name)
            rows.append(
                GatedJob(
                    job=name,
                    rdma=name in self._rdma,
                    rivals=list(plan.rivals) if plan is not None else [],
                    reason=self._reason(job, plan, now_s),
                    turns_for_s=now_s - self._since_s[name] if name in self._since_s else None,
                    turns_waited=of.turns,
                    held_s=of.held_s,
                    held_per_iteration_s=of.held_s / of.iterations if of.iterations else None,
                )
            )
        return GatesPart(
            local=self._local,
            gated=rows,
            held_s=self._totals.held_s,
            turns_waited=self._totals.turns_waited,
        )

    def burst(self, records: Records) -> None:
        """Follow what the kernel reports of bursts; to be called at once."""
        if (kernel := self._acting()) is not None:
            self._heed(kernel, kernel.bursts(records))

    def hold_together(self, for_s: float, armed_s: float) -> bool:
        """Hold the next burst of every job, so that all begin together after `for_s` seconds.

        Gates stay armed for `armed_s`, also of jobs that take no turns: a flow can be held once it
        has come to rest at an armed gate.  No job is held for longer than a period of its own, or
        before it is known.  False while the part does not run.
        """
        kernel = self._acting()
        if kernel is None or self.disabled_reason():
            return False
        now_s = self._clock()
        self._armed_s = now_s + armed_s
        self._together_s = max(self._together_s, now_s + for_s)
        self._write(kernel)
        return True

    def _acting(self) -> KernelGates | None:
        """The gates of the engine in force; None: they are not armed yet."""
        kernel = self._kernel
        return kernel if kernel is not None and kernel.engine is self._host.engine else None

    def _poll(self) -> None:
        """Read what the shim reports of bursts, and again in a moment while its gates are armed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        kernel = self._acting()
        if kernel is None or not self._shim.is_armed():
            return
        if bursts := self._shim.bursts(self._clock()):
            self._heed(kernel, bursts)
        # Last: after a failure the next tick goes on.
        self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll)

    def _heed(self, kernel: KernelGates, bursts: Iterable[Burst]) -> None:
        told = False
        for job, event, at_s in bursts:
            if event is BurstEvent.HELD and at_s < self._together_s:
                continue  # it waits for all to begin together, which costs it no turn
            told = self._tell(self._keeper.burst(job, event, at_s, self._clock())) or told
        if told:
            self._cluster.flush()
        self._write(kernel)

    def _holds(self, kernel: KernelGates) -> dict[str, Holds]:
        """What was held of each job, by whatever holds it."""
        by_shim = self._shim.holds()
        return {
            name: by_shim.get(name, Holds()) if name in self._rdma else of
            for name, of in kernel.holds().items()
        }

    def _hear(self, peer: str, data: bytes) -> None:
        """Follow a note; only the first host of a job speaks for it."""
        note = gate_notes.decode(data)
        speaker = self._hosts.get(note.job, ("",))[:1]
        kernel = self._acting()
        if speaker == (peer,) and self._keeper.hear(note, self._clock()) and kernel is not None:
            self._write(kernel)

    def _tell(self, note: GateNote | None) -> bool:
        """Tell the hosts that wait for a job, if this one speaks for it."""
        if note is None:
            return False
        own, of = self._cluster.name, self._hosts.get(note.job, ())
        if not own or of[:1] != (own,):
            return False
        data = gate_notes.encode(note)
        for peer in self._peers(of, note.job) - {own}:
            self._cluster.send(peer, gate_notes.TOPIC, data)
        return True

    def _peers(self, of: tuple[str, ...], job: str) -> set[str]:
        rivals = self._keeper.plans[job].rivals
        return {host for name in rivals for host in self._hosts.get(name, ())} | set(of)

    def _follow(self, engine: Engine) -> None:
        jobs = engine.table.jobs
        self._rdma = frozenset(
            name for name in self._shim.jobs & jobs.keys() if self._by_rdma(name)
        )
        names = frozenset(
            name
            for name, job in jobs.items()
            if job.params is not None and job.params.mode is not Mode.OFF
        )
        made = self._plans.current()
        changed = (made, names) != self._planned
        if changed:
            self._planned = made, names
            self._by_plan = groups.planned(made.solution, names) if made is not None else {}
            self._hosts = groups.hosts(made.solution, self._by_plan) if made is not None else {}
            # Of a job whose paths are not known the plan does not know whom it meets.
            seen = set(made.solution.problem.job_ids) - made.blind if made is not None else set()
            self._alone = names - seen
        alone = self._alone
        if not changed and not (alone and self._clock() >= self._local_due_s):
            return
        self._local, self._local_due_s = bool(alone), self._clock() + LOCAL_S
        plans = {**self._by_plan, **local_plans(self._local_jobs(engine, alone))}
        self._keeper.follow(plans, names)
        many = {
            job
            for job in self._keeper.own - alone
            if len(self._peers(self._hosts[job], job)) > MAX_TOLD
        }
        if many:
            left = {job: GatePlan(plans[job].exchange, (), TOGETHER_REASON) for job in many}
            self._keeper.follow({**plans, **left}, names)

    def _learn(self, now_s: float) -> None:
        """Tell the profiles how fast jobs send alone."""
        if lone := self._keeper.lone_bursts_s():
            for one in self._profiles.steady():
                sent = one.tx_bytes
                if one.job in lone and sent and one.confidence >= groups.MIN_CONFIDENCE:
                    self._lone_rates[one.job] = sent / lone[one.job], now_s
        self._lone_rates = {
            job: (rate, at_s)
            for job, (rate, at_s) in self._lone_rates.items()
            if now_s - at_s < FORGET_S
        }
        self._profiles.lone_rates = {job: rate for job, (rate, _) in self._lone_rates.items()}

    def _local_jobs(self, engine: Engine, names: frozenset[str]) -> dict[str, LocalJob]:
        if len(names) < 2:
            return {}
        states = engine.backend.job_states()
        profiles = {one.job: one for one in self._profiles.steady()}
        found = {}
        for name in names:
            links, profile = self._links(name), profiles.get(name)
            if name in self._rdma:
                found[name] = by_queue_pairs(profile, links)
            else:
                sure = profile.confidence if profile is not None else 0.0
                found[name] = by_connections(states[engine.table.jobs[name].slot], sure, links)
        return found

    def _write(self, kernel: KernelGates) -> None:
        """Write the gates that have changed."""
        now_s, armed = self._clock(), dict[str, Gate]()
        together_s = self._together_s if self._together_s > now_s else 0.0
        for name, job in kernel.engine.table.jobs.items():
            plan = self._keeper.plans.get(name)
            said_us = job.params.silence_us if job.params is not None else None
            if plan is not None and name in self._keeper.own:
                until_s = max(self._keeper.closed_until_s(name, now_s), together_s)
                until_s = until_s if until_s > now_s else 0.0
                armed[name] = Gate(until_s, plan.exchange, (said_us or 0) * 1e-6)
            elif now_s < self._armed_s and name not in self._rdma:
                armed[name] = Gate(together_s, UNKNOWN)
        self._shim.arm({name: gate for name, gate in armed.items() if name in self._rdma})
        kernel.arm({name: gate for name, gate in armed.items() if name not in self._rdma})

    def _reason(self, job: Job, plan: GatePlan | None, now_s: float) -> str | None:
        if job.params is None or job.params.mode is Mode.OFF:
            return "mode off"
        if self._keeper.exhausted(job.name, now_s):
            return "it was held for shifts.max_share of the last minute"
        if plan is not None and plan.rivals and self._keeper.late_s > MAX_LATE_S:
            return f"this host follows bursts {self._keeper.late_s * 1e3:.0f} ms late"
        if plan is None or plan.reason == groups.ALONE:
            return None
        return plan.reason or None


def planned(config: Config) -> list[Change]:
    """Return what a start changes."""
    return [kinds.gates(config.shifts.max_share)] if config.shifts.enabled else []
