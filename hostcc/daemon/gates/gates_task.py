"""The part that lets jobs which share a link send one after the other, by gates in the kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hostcc.answers.parts import GatedJob, GatesPart
from hostcc.config.schema import Config
from hostcc.daemon.changes import kinds
from hostcc.daemon.enforcement import Engine
from hostcc.daemon.gates import gate_notes
from hostcc.daemon.gates.gate_keeper import MAX_LATE_S, BurstEvent, GateKeeper
from hostcc.daemon.gates.gate_notes import GateNote
from hostcc.daemon.gates.local_groups import LocalJob, local_plans
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
from hostcc.schedule.gates.groups import GatePlan

if TYPE_CHECKING:
    from hostcc.daemon.jobs.sockets import Job

log = get_logger("gates")

TICK_S = 0.5
LOCAL_S = 2.0
"""Between two looks at which jobs share a link of this host, seconds."""
MAX_TOLD = 64
"""Hosts that a job's first host tells of its turns; a job that more wait for is left alone."""
MIN_CHANGE_S = 0.0005
"""A deadline that differs by less is not written."""
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

    def update(self, states: Mapping[str, Any]) -> None:
        """Take over what the jobs of now have; `states`: rows of struct hcc_job_state."""
        now = {
            name: (int(one["holds"]), float(one["held_ns"]) / 1e9) for name, one in states.items()
        }
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock`: CLOCK_MONOTONIC, as the kernel's deadlines are."""
        self._host, self._cluster, self._plans = host, cluster, plans
        self._profiles, self._links, self._clock = profiles, links, clock
        self.toggled: bool | None = None
        """What `hostcc shifts` asked for; None: as configured."""
        self._keeper = GateKeeper(host.config.shifts.max_share)
        self._engine: Engine | None = None
        self._written: dict[int, float] = {}
        """Slot with an armed gate -> its deadline; 0: open."""
        self._planned: tuple[PlanResult | None, frozenset[str]] = None, frozenset()
        """What the plans of now were made of."""
        self._hosts: Mapping[str, tuple[str, ...]] = {}
        self._by_plan: Mapping[str, GatePlan] = {}
        """Of the jobs whose paths the plan knows."""
        self._alone = frozenset[str]()
        """The other jobs of this host."""
        self._totals = HoldTotals()
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
        self._engine, self._written = None, {}
        self._totals = HoldTotals()
        self._planned, self._local_due_s = (None, frozenset()), 0.0
        self._cluster.listen(gate_notes.TOPIC, self._hear)
        self._host.journal.begin(*planned(self._host.config))

    async def tick(self) -> None:
        """Find out who takes turns with whom, and arm the gates of this host's jobs."""
        engine = self._host.engine
        if engine is None:
            return
        if engine is not self._engine:
            self._engine, self._written = engine, {}
        self._keeper.max_share = self._host.config.shifts.max_share
        self._follow(engine)
        self._write(engine)
        if self._keeper.own or self._totals.jobs:
            states = engine.backend.job_states()
            self._totals.update({name: states[job.slot] for name, job in engine.table.jobs.items()})

    def stop(self) -> None:
        """Open all gates."""
        self._cluster.listen(gate_notes.TOPIC, None)
        engine, self._engine = self._engine, None
        written, self._written = self._written, {}
        self._keeper.follow({}, ())
        try:
            if engine is not None and engine is self._host.engine:
                for slot in written:
                    engine.backend.set_gate(slot, armed=False)
        finally:
            self._host.journal.undone([kinds.GATES], "gates opened")

    def verify(self) -> list[Difference]:
        """Find nothing: nobody else can write the map."""
        return []

    def view(self) -> GatesPart:
        """Show who takes turns with whom, and for how long jobs were held."""
        engine = self._host.engine
        if engine is None:
            return GatesPart()
        states, now_s = engine.backend.job_states(), self._clock()
        rows = []
        self._totals.update({name: states[job.slot] for name, job in engine.table.jobs.items()})
        for name, job in sorted(engine.table.jobs.items()):
            state = states[job.slot]
            held_s, iterations = float(state["held_ns"]) / 1e9, int(state["iterations"])
            plan = self._keeper.plans.get(name)
            rows.append(
                GatedJob(
                    job=name,
                    rivals=list(plan.rivals) if plan is not None else [],
                    reason=self._reason(job, plan, now_s),
                    turns_waited=int(state["holds"]),
                    held_s=held_s,
                    held_per_iteration_s=held_s / iterations if iterations else None,
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
        engine = self._engine
        if engine is None or engine is not self._host.engine:
            return
        jobs, told = engine.table.by_slot(), False
        columns = (records[name].tolist() for name in ("slot", "kind", "at_ns"))
        for slot, kind, at_ns in zip(*columns, strict=True):
            if kind == BurstEvent.HELD and at_ns / 1e9 < self._together_s:
                continue  # it waits for all to begin together, which costs it no turn
            if slot in jobs and slot in self._written:
                event, at_s = BurstEvent(kind), at_ns / 1e9
                note = self._keeper.burst(jobs[slot].name, event, at_s, self._clock())
                told = self._tell(note) or told
        if told:
            self._cluster.flush()
        self._write(engine)

    def hold_together(self, for_s: float, armed_s: float) -> bool:
        """Hold the next burst of every job, so that all begin together after `for_s` seconds.

        Gates stay armed for `armed_s`, also of jobs that take no turns: a flow can be held once it
        has come to rest at an armed gate.  No job is held for longer than a period of its own, or
        before it is known.  False while the part does not run.
        """
        engine = self._engine
        if engine is None or engine is not self._host.engine or self.disabled_reason():
            return False
        now_s = self._clock()
        self._armed_s = now_s + armed_s
        self._together_s = max(self._together_s, now_s + for_s)
        self._write(engine)
        return True

    def _hear(self, peer: str, data: bytes) -> None:
        """Follow a note; only the first host of a job speaks for it."""
        note = gate_notes.decode(data)
        speaker = self._hosts.get(note.job, ("",))[:1]
        if speaker == (peer,) and self._keeper.hear(note, self._clock()) and self._engine:
            self._write(self._engine)

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

    def _local_jobs(self, engine: Engine, names: frozenset[str]) -> dict[str, LocalJob]:
        if len(names) < 2:
            return {}
        states = engine.backend.job_states()
        sure = {one.job: one.confidence for one in self._profiles.steady()}
        return {
            name: LocalJob(
                states[engine.table.jobs[name].slot], sure.get(name, 0.0), self._links(name)
            )
            for name in names
        }

    def _write(self, engine: Engine) -> None:
        """Write the gates that have changed."""
        now_s, armed = self._clock(), dict[int, float]()
        together_s = self._together_s if self._together_s > now_s else 0.0
        for name, job in engine.table.jobs.items():
            if name in self._keeper.own:
                until_s = max(self._keeper.closed_until_s(name, now_s), together_s)
                armed[job.slot] = until_s if until_s > now_s else 0.0
            elif now_s < self._armed_s:
                armed[job.slot] = together_s
        for slot in self._written.keys() - armed.keys():
            engine.backend.set_gate(slot, armed=False)
        for slot, until_s in armed.items():
            before = self._written.get(slot)
            if before is None or abs(before - until_s) > MIN_CHANGE_S:
                engine.backend.set_gate(slot, armed=True, closed_until_ns=int(until_s * 1e9))
        self._written = armed

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
