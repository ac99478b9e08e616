"""Combines gossip, view and agreement into what an agent drives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from random import Random
from typing import NamedTuple, Protocol

from hostcc.coord import plan_difference
from hostcc.coord import view as views
from hostcc.coord.agreement import Activation, Agreement, step
from hostcc.coord.core.message import Message, Outgoing, ViewReport
from hostcc.coord.core.node import Node
from hostcc.coord.core.offenders import Event
from hostcc.coord.plan_difference import NO_PLAN, FollowedPlan
from hostcc.coord.view import Snapshot
from hostcc.coord.view_index import ViewIndex
from hostcc.errors import HostccError
from hostcc.model import ClusterView, Plan

MAX_ACTIVATIONS = 256
"""Latest activations that are kept for the status."""
REMIND_ROUNDS = 5
"""Rounds between questions to members that have not reported this host's view."""

Planner = Callable[[ClusterView], Plan]


class PendingPlan(Protocol):
    """A plan that is being computed."""

    def done(self) -> bool:
        """Return whether `result` would return without waiting."""

    def result(self) -> Plan:
        """Return the plan, or raise what the planner raised."""


class ImmediatePlan:
    """Computes the plan when asked for it, so every run makes the same plan at the same tick."""

    def __init__(self, work: Callable[[], Plan]) -> None:
        self._work = work

    def done(self) -> bool:
        """Return True: `result` computes the plan itself."""
        return True

    def result(self) -> Plan:
        """Return the plan, or raise what the planner raised."""
        return self._work()


Executor = Callable[[Callable[[], Plan]], PendingPlan | None]
"""Starts a computation. None: it cannot start now; ask again in the next round."""


class _Basis(NamedTuple):
    """What a view and its neighbours follow from."""

    records: int
    """Revision of the store."""
    members: int
    """Changes of members so far."""
    local: frozenset[str]
    """Jobs that run here."""


class Coordinator:
    """A gossip node that builds views of what it hears and decides which plan to follow.

    Call `tick` and `receive` as for the node; afterwards `plan` is the plan to follow. `planner` is
    a pure function of the view; `rules` names it and its options (view.build). `executor` may
    compute plans elsewhere, so that a round does not wait for one. The planner gets the part of the
    view that decides about this member's jobs (Snapshot.view_for), among them `local_jobs`, which
    run here and need not be published.
    """

    def __init__(
        self,
        node: Node,
        planner: Planner,
        rules: str,
        rng: Random,
        executor: Executor = ImmediatePlan,
        local_jobs: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.node = node
        self.snapshot = Snapshot(ViewIndex())
        self.plan: Plan | None = None
        """The plan of the active view, or the previous one until that is ready; None: use defaults.
        """
        self.plan_error = ""
        """Why the active view has no plan; empty: it has one, or will have."""
        self.plan_waits = False
        """Whether the executor has no time for the plan of the active view yet."""
        self.ticked = 0.0
        """Clock reading at the start of the last round."""
        self.state = Agreement()
        self.differing: dict[tuple[str, str], float] = {}
        """(Job of this host, live host of it that is to follow another plan) -> since when,
        experienced seconds."""
        self.activations: deque[Activation] = deque(maxlen=MAX_ACTIVATIONS)
        self._reported = ViewReport(""), NO_PLAN
        """View report and plan's digests that the neighbours were told last."""
        self._digests = NO_PLAN
        """Of `plan`, with all of its jobs."""
        self._own_jobs: list[str] = []
        self._unlike: list[str] = []
        """Live neighbours that are not known to follow the same plan."""
        self._compared: tuple[object, ...] = ()
        """What `_unlike` and `differing` were made from."""
        self._planner = planner
        self._rules = rules
        self._executor = executor
        self._local_jobs = local_jobs
        self._active_digest = ""
        """Digest of the active view."""
        self._started = ClusterView()
        """What the plan that was started last is made of."""
        self._started_for = "", frozenset[str]()
        """Digest of its view, and the local jobs that it is for."""
        self._pending: PendingPlan | None = None
        self._basis = _Basis(-1, -1, frozenset())
        """What the view and the neighbours were made of last."""
        self._view_at = rng.uniform(0, node.settings.view_s)
        self._ticked_at = 0.0
        self._rounds = 0

    def rest_s(self) -> float:
        """Return the seconds from the last round to the next one that has something to do."""
        settings, state = self.node.settings, self.state
        if self._pending is not None or self._started_for != self._wanted:
            return settings.round_s
        if self.snapshot.digest and (state.missing or self._unlike or state.held != state.active):
            return settings.round_s if self._missing or state.held == state.active else 0.0
        rest_s = self.node.rest_s()
        if self._basis == self._present:
            return rest_s
        return min(rest_s, max(settings.round_s, self._view_at - self._ticked_at))

    def receive(self, peer: str, message: Message, now: float) -> list[Outgoing]:
        """Process a peer's message; return the messages to send."""
        return self.node.receive(peer, message, now)

    def tick(self, now: float) -> list[Outgoing]:
        """Run one round; return the messages to send. `plan` may have changed afterwards."""
        self._rounds += 1
        self.ticked = now
        self._ticked_at = at = self.node.experienced_s(now)
        basis = self._present
        if at >= self._view_at and basis != self._basis:
            # News after a quiet time are seen at once, and what follows them soon comes together.
            self._view_at = at + self.node.settings.view_s
            self._update_view(basis)
        if self.snapshot.digest:
            self._update_agreement(now, at)
            self._update_plan(now)
            self._report(at)
        return self.node.tick(now)

    def _update_view(self, basis: _Basis) -> None:
        self._basis = basis
        settings = self.node.settings
        self.snapshot = views.build(
            self.node.store, self.node.members.dead(), self._rules, self.snapshot.index
        )
        # Also jobs that this host has not published yet: it acts by the plan for them, too.
        self._own_jobs = sorted(self.snapshot.jobs_of(self.node.name, basis.local))
        near = views.neighbours(self.snapshot, self.node.name, settings.neighbours, basis.local)
        self.node.neighbours = near
        for stranger in self.node.reports.keys() - set(near):
            self.node.forget_report(stranger)

    def _update_agreement(self, now: float, at: float) -> None:
        node, held = self.node, self.snapshot.digest
        live = self._live()
        reports = {peer: holding.held for peer, holding in node.reports.items()}
        wait_s = node.settings.agree_s
        self.state, activation = step(self.state, at, held, reports, live, wait_s)
        if activation is not None:
            self._activate(activation, now)

    @property
    def _missing(self) -> bool:
        # Whether one of those that were missing in the last round still is.
        reports, held = self.node.reports, self.state.held
        return any(peer not in reports or reports[peer].held != held for peer in self.state.missing)

    def _live(self) -> list[str]:
        return [peer for peer in self.node.neighbours if not self.node.members.is_dead(peer)]

    @property
    def plans_agree(self) -> bool:
        """Whether every live neighbour is to follow the same plan, for its jobs and this host's."""
        if self.plan is None or self._unlike:
            return False
        return self._basis.local == self._local  # else neighbours may be missing

    @property
    def agreed(self) -> bool:
        """Whether those that matter held the active view, or are to follow the same plan."""
        return self.state.agreed or self.plans_agree

    @property
    def plan_digest(self) -> str:
        """Digest of what hosts do by `plan`; empty: nothing."""
        return self._digests.plan

    def _report(self, at: float) -> None:
        node, live = self.node, self._live()
        now = self._basis, self._digests, self.state.active, node.report_changes, live
        if now != self._compared:
            self._compared = now
            self._compare(at, live)
        holding = ViewReport(self.state.held, self.state.active)
        told = self._digests.of(self._own_jobs)
        if (holding, told) != self._reported:
            self._reported = holding, told
            node.report_view(holding, live, plan=told)
        elif self._rounds % REMIND_ROUNDS == 0 and (self.state.missing or self._unlike):
            asked = sorted({*self.state.missing, *self._unlike})
            node.report_view(holding, asked, ask=True, plan=told)

    def _compare(self, at: float, live: list[str]) -> None:
        node, jobs = self.node, self.snapshot.index.jobs
        own = FollowedPlan(self.state.active, self._digests)
        found: dict[str, frozenset[str]] = {}
        self._unlike = []
        for peer in live:
            report = node.reports.get(peer)
            other = FollowedPlan()
            if report is not None:
                other = FollowedPlan(report.active, node.reported_plans[peer])
            shared = [job for job in self._own_jobs if peer in jobs[job].hosts]
            found[peer] = plan_difference.differing(own, other, shared)
            if not plan_difference.agree(own, other, shared):
                self._unlike.append(peer)
        self.differing = plan_difference.step(self.differing, at, found)

    def differing_jobs(self) -> dict[str, dict[str, float]]:
        """Return job of this host -> its hosts that are to follow another plan -> for how many
        experienced seconds."""
        found: dict[str, dict[str, float]] = {}
        for (job, member), since in sorted(self.differing.items()):
            found.setdefault(job, {})[member] = self._ticked_at - since
        return found

    def _activate(self, activation: Activation, now: float) -> None:
        self._active_digest = self.snapshot.digest
        self.activations.append(activation)
        missing = f", without {', '.join(activation.missing[:8])}" if activation.missing else ""
        how = "agreed" if activation.agreed else f"after waiting{missing}"
        text = f"{activation.number}: view {activation.digest} {how}"
        self.node.add_event(Event(now, "activation", self.node.name, text))

    def _update_plan(self, now: float) -> None:
        if self._pending is None and self._started_for != self._wanted:
            self._start_plan()
        if self._pending is None or not self._pending.done():
            return
        ready, self._pending = self._pending, None
        made, self.plan_error = None, ""
        try:
            made = ready.result()
        except HostccError as error:
            self.plan_error = str(error)
            self.node.add_event(Event(now, "plan", self.node.name, self.plan_error))
        self.plan = made
        self._digests = plan_difference.digests(made, self._started.flows)

    @property
    def _local(self) -> frozenset[str]:
        return frozenset(self._local_jobs())

    @property
    def _present(self) -> _Basis:
        return _Basis(self.node.store.revision, self.node.members.changes, self._local)

    @property
    def _wanted(self) -> tuple[str, frozenset[str]]:
        return self._active_digest, self._local

    def _start_plan(self) -> None:
        # A view that has changed since it was active is not planned: the next one soon will be.
        self.plan_waits = True
        if self.snapshot.digest != self._active_digest:
            return
        view: Future[ClusterView] = Future()
        self._pending = self._executor(lambda: self._planner(view.result()))
        if self._pending is None:
            return
        # Made only where there is time for its plan.
        self.plan_waits = False
        self._started_for = self._wanted
        self._started = self.snapshot.view_for(self.node.name, self._started_for[1])
        view.set_result(self._started)
