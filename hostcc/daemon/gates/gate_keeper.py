"""Decides which gates of this host's jobs are closed, and until when.  Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hostcc.daemon.gates.gate_notes import GateNote, Over, Sending, Waiting, milliseconds
from hostcc.daemon.gates.job_gates import BurstEvent
from hostcc.schedule.gates.groups import GatePlan
from hostcc.schedule.gates.hold_budget import HoldBudget
from hostcc.schedule.gates.lone_bursts import LoneBursts
from hostcc.schedule.gates.turn_queue import TurnQueue

MAX_LATE_S = 0.02
"""Delay of news, mean of the latest, from which nobody waits by them: whoever opens so late costs
more than turns gain.  Hosts that have no processor left are that late."""
LATE_GAIN = 1 / 4
"""Weight of the latest delay in the mean."""


class GateKeeper:
    """The turns of this host's jobs, from its own events and from what others tell."""

    def __init__(self, max_share: float) -> None:
        self.max_share = max_share
        self.plans: Mapping[str, GatePlan] = {}
        """Of this host's jobs and all that they meet."""
        self.own: frozenset[str] = frozenset()
        """Jobs of this host that take turns."""
        self._queue = TurnQueue()
        self._budgets: dict[str, HoldBudget] = {}
        self._held_since_s: dict[str, float] = {}
        self._lone: dict[str, LoneBursts] = {}
        """Of this host's jobs."""
        self.late_s = 0.0
        """How late this host follows its own jobs' events, mean of the latest."""
        self._rival_late_s: dict[str, float] = {}
        """The same of the first hosts of other jobs, as they say."""

    def follow(self, plans: Mapping[str, GatePlan], own: Collection[str]) -> None:
        """Take turns by these plans; `own`: the jobs of this host."""
        self.plans = plans
        self.own = frozenset(job for job in own if job in plans and plans[job].rivals)
        self._queue = self._queue.keep({*self.own, *self.rivals()})
        self._budgets = {job: one for job, one in self._budgets.items() if job in own}
        self._rival_late_s = {
            job: late_s for job, late_s in self._rival_late_s.items() if job in self.rivals()
        }
        self._held_since_s = {
            job: at_s for job, at_s in self._held_since_s.items() if job in self.own
        }
        self._lone = {job: self._lone.get(job, LoneBursts()) for job in self.own}

    def rivals(self) -> frozenset[str]:
        """Return the jobs that those of this host wait for."""
        return frozenset(rival for job in self.own for rival in self.plans[job].rivals)

    def burst(self, job: str, event: BurstEvent, at_s: float, now_s: float) -> GateNote | None:
        """Follow an event of a job of this host, of `at_s`; return what others have to know."""
        if job not in self.own:
            return None
        late_s = max(0.0, now_s - at_s)
        self.late_s += LATE_GAIN * (late_s - self.late_s)
        late_ms = milliseconds(late_s)
        expected_s = self.plans[job].exchange.burst_s
        if event is not BurstEvent.HELD:
            self._settle(job, at_s)
        if event is BurstEvent.END:
            self._lone[job] = self._lone[job].end(at_s)
            self._queue = self._queue.end(job, at_s)
            return Over(job, late_ms)
        if event is BurstEvent.HELD:
            self._settle(job, at_s)
            self._held_since_s[job] = at_s
            self._queue = self._queue.wait(job, at_s, expected_s)
            return Waiting(job, milliseconds(expected_s), late_ms)
        alone = self._queue.is_free(job, self.plans[job].rivals, at_s)
        self._lone[job] = self._lone[job].begin(at_s, alone=alone)
        self._disturb(job, at_s)
        self._queue = self._queue.begin(job, at_s, expected_s, self.plans[job].rivals)
        return Sending(job, milliseconds(expected_s), late_ms)

    def hear(self, note: GateNote, now_s: float) -> bool:
        """Follow a note of a job's first host; return whether it concerns a job of this one.

        What a note says of a burst's length is believed as far as the plan says the same.
        """
        plan = self.plans.get(note.job)
        if plan is None or note.job not in self.rivals() | self.own:
            return False
        if isinstance(note, Sending | Over):
            before_s = self._rival_late_s.get(note.job, 0.0)
            late_s = before_s + LATE_GAIN * (note.late_ms / 1e3 - before_s)
            self._rival_late_s[note.job] = late_s
        if isinstance(note, Over):
            self._queue = self._queue.end(note.job, now_s)
            return True
        expected_s = min(note.expected_ms / 1e3, plan.exchange.burst_s)
        if isinstance(note, Sending):
            since_s = now_s - min(note.late_ms / 1e3, plan.exchange.period_s)
            self._queue = self._queue.begin(note.job, since_s, expected_s, plan.rivals)
            self._disturb(note.job, since_s)
        else:
            since_s = now_s - min(note.waited_ms / 1e3, plan.exchange.period_s)
            self._queue = self._queue.wait(note.job, since_s, expected_s)
        return True

    def closed_until_s(self, job: str, now_s: float) -> float:
        """Return when the gate of a job opens by itself; `now_s`: it is open.

        A hold is no longer than a period, and than what is left of the job's budget.
        """
        if job not in self.own or self.late_s > MAX_LATE_S:
            return now_s
        plan = self.plans[job]
        since_s = self._held_since_s.get(job)
        held_s = now_s - since_s if since_s is not None else 0.0
        left_s = min(self._budget(job, now_s).left_s, plan.exchange.period_s) - held_s
        until_s = self._queue.closed_until_s(job, self._timely(plan.rivals), now_s)
        return max(now_s, min(until_s, now_s + left_s))

    def exhausted(self, job: str, now_s: float) -> bool:
        """Tell whether a job was held for so long lately that it no longer waits."""
        return job in self.own and self._budget(job, now_s).left_s <= 0

    def lone_bursts_s(self) -> dict[str, float]:
        """Return what a burst of this host's jobs takes while no rival sends, where known."""
        usual = {job: one.usual_s for job, one in self._lone.items()}
        return {job: seconds for job, seconds in usual.items() if seconds is not None}

    def _disturb(self, by: str, at_s: float) -> None:
        """What rivals of `by` send from now on, they do not send alone."""
        for job, one in self._lone.items():
            if by in self.plans[job].rivals:
                self._lone[job] = one.disturb(at_s, self.plans[job].exchange.burst_s)

    def _timely(self, rivals: Collection[str]) -> list[str]:
        """Return those of which news come in time."""
        return [one for one in rivals if self._rival_late_s.get(one, 0.0) <= MAX_LATE_S]

    def _budget(self, job: str, now_s: float) -> HoldBudget:
        known = self._budgets.get(job)
        if known is None or known.max_share != self.max_share:
            known = HoldBudget.full(self.max_share, now_s)
        self._budgets[job] = known.at(now_s)
        return self._budgets[job]

    def _settle(self, job: str, at_s: float) -> None:
        """Take a hold that is over from the budget."""
        since_s = self._held_since_s.pop(job, None)
        if since_s is not None:
            held_s = min(at_s - since_s, self.plans[job].exchange.period_s)
            self._budgets[job] = self._budget(job, at_s).spent(held_s)
