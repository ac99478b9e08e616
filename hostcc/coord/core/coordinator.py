"""Gossip, view and agreement together: what an agent drives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from hostcc.coord import view as views
from hostcc.coord.agreement import Activation, Agreement, step
from hostcc.coord.core.message import Message, Outgoing, ViewReport
from hostcc.coord.core.node import Node
from hostcc.coord.core.offenders import Event
from hostcc.coord.view import Snapshot
from hostcc.errors import HostccError
from hostcc.model import ClusterView, Plan

LOGGED = 256
"""Activations that are kept for status."""
REMIND_ROUNDS = 5
"""Between questions to those whose view is not known to be the same."""

Planner = Callable[[ClusterView], Plan]


class Pending(Protocol):
    """A plan that is being made."""

    def done(self) -> bool:
        """Whether `result` would not wait."""

    def result(self) -> Plan:
        """The plan, or whatever the planner raised."""


class AtOnce:
    """Makes it where it is asked for: the same plan at the same tick in every run."""

    def __init__(self, work: Callable[[], Plan]) -> None:
        self._work = work

    def done(self) -> bool:
        """It takes no waiting."""
        return True

    def result(self) -> Plan:
        """The plan, or whatever the planner raised."""
        return self._work()


Executor = Callable[[Callable[[], Plan]], Pending | None]
"""Begins a plan; None: not now, ask again in the next round."""


class Coordinator:
    """A node that knows what it gossips about.

    `tick` and `receive` as of the node; afterwards `plan` is what to follow.  `planner` is a
    pure function of the view; `rules` names it and its options (view.build).  `executor` makes
    plans elsewhere, so that a round does not wait for one.
    """

    def __init__(
        self,
        node: Node,
        planner: Planner,
        rules: str,
        rng: Random,
        executor: Executor = AtOnce,
    ) -> None:
        self.node = node
        self.snapshot = Snapshot(ClusterView(), {})
        self.plan: Plan | None = None
        """Of the active view, or of one before it until that is made; None: defaults."""
        self.trouble = ""
        """Why there is none of the active view."""
        self.ticked = 0.0
        """When the last round began."""
        self.state = Agreement()
        self.activations: deque[Activation] = deque(maxlen=LOGGED)
        self._planner = planner
        self._rules = rules
        self._executor = executor
        self._wanted = ClusterView()
        """The active view."""
        self._begun = ""
        """Digest of the view whose plan was begun last."""
        self._pending: Pending | None = None
        self._revision = (-1, -1)
        self._merged: dict[str, views.MergedJob] = {}
        self._view_at = rng.uniform(0, node.settings.view_s)
        self._ticked_at = 0.0
        self._rounds = 0
        self._told: set[str] = set()

    def rest_s(self) -> float:
        """From the last round to the next one that has something to do, seconds."""
        settings, state = self.node.settings, self.state
        if self._pending is not None or self._begun != self._wanted.digest:
            return settings.round_s
        if self.snapshot.view.digest and (state.missing or state.held != state.active):
            return settings.round_s
        rest_s = self.node.rest_s()
        if self._revision == (self.node.store.revision, self.node.members.changes):
            return rest_s
        return min(rest_s, max(settings.round_s, self._view_at - self._ticked_at))

    def receive(self, peer: str, message: Message, now: float) -> list[Outgoing]:
        """What a peer said."""
        return self.node.receive(peer, message, now)

    def tick(self, now: float) -> list[Outgoing]:
        """One round; `plan` may be another one afterwards."""
        self._rounds += 1
        self.ticked = now
        self._ticked_at = at = self.node.experience(now)
        if at >= self._view_at:
            self._view_at = at + self.node.settings.view_s
            self._look()
        if self.snapshot.view.digest:
            self._agree(now, at)
            self._make(now)
        return self.node.tick(now)

    def _look(self) -> None:
        revision = (self.node.store.revision, self.node.members.changes)
        if revision == self._revision:
            return
        self._revision = revision
        settings = self.node.settings
        self.snapshot = views.build(
            self.node.store, self.node.members.is_dead, self._rules, self._merged
        )
        near = views.neighbours(self.snapshot, self.node.name, settings.neighbours)
        self.node.neighbours = near
        for stranger in self.node.reports.keys() - set(near):
            del self.node.reports[stranger]

    def _agree(self, now: float, at: float) -> None:
        node, held = self.node, self.snapshot.view.digest
        live = [peer for peer in node.neighbours if not node.members.is_dead(peer)]
        reports = {peer: holding.held for peer, holding in node.reports.items()}
        before = self.state
        wait_s = node.settings.agree_s
        self.state, activation = step(before, at, held, reports, live, wait_s)
        if activation is not None:
            self._activate(activation, now)
        holding = ViewReport(self.state.held, self.state.active)
        if (before.held, before.active) != (holding.held, holding.active):
            node.hold(holding, live)
        elif self.state.missing and self._rounds % REMIND_ROUNDS == 0:
            node.hold(holding, self.state.missing, ask=True)

    def _activate(self, activation: Activation, now: float) -> None:
        self._wanted = self.snapshot.view
        self.activations.append(activation)
        missing = f", without {', '.join(activation.missing[:8])}" if activation.missing else ""
        how = "agreed" if activation.agreed else f"after waiting{missing}"
        text = f"{activation.number}: view {activation.digest} {how}"
        self.node.note(Event(now, "activation", self.node.name, text))

    def _make(self, now: float) -> None:
        """Begin the plan of the active view; take over the one that is ready."""
        view = self._wanted
        if self._pending is None and self._begun != view.digest:
            self._pending = self._executor(lambda: self._planner(view))
            if self._pending is not None:
                self._begun = view.digest
        if self._pending is None or not self._pending.done():
            return
        ready, self._pending = self._pending, None
        made, self.trouble = None, ""
        try:
            made = ready.result()
        except HostccError as error:
            self.trouble = str(error)
            self.node.note(Event(now, "plan", self.node.name, self.trouble))
        self.plan = made
