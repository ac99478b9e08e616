"""Whose turn it is to send, from when jobs begin, wait and end; first come, first served.  Pure.

There is no leader and no common clock.  Each host keeps a queue of what it knows: events of its own
jobs at once, those of others by notes, a little late.  Every answer is a deadline, so what was
never heard of again holds nobody for long.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

MAX_BURST_RATIO = 1.5
"""A job that sends has the link for so many times what its burst takes alone."""
GRACE_S = 0.01
"""Seconds for which a job that is next is waited for, once the link is free: it finds out a round
trip after it may go, and others hear of it by a note."""
MAX_WAIT_S = 60.0
"""Seconds after which a job that waits is forgotten: its host said nothing more."""
IN_STEP_S = 0.01
"""Jobs that begin to send within so many seconds of each other are in step: neither was held, since
news of the other one came too late."""


class Phase(Enum):
    """What a job does; one that is in no queue computes."""

    WAITING = 1
    SENDING = 2


@dataclass(frozen=True)
class Turn:
    """A job's place in the queue."""

    phase: Phase
    since_s: float
    """When it began to wait, or to send."""
    expected_s: float
    """What its burst takes alone."""

    @property
    def until_s(self) -> float:
        """When others no longer wait for it, at the latest."""
        if self.phase is Phase.WAITING:
            return self.since_s + MAX_WAIT_S
        return self.since_s + MAX_BURST_RATIO * self.expected_s


@dataclass(frozen=True)
class Concession:
    """Of a job that was in step with another: next time it lets that one send first.

    Jobs whose iterations are equally long would stay in step for ever.
    """

    to: str
    """The other one, whose name comes first."""
    since_s: float
    """When the later of both began."""


@dataclass(frozen=True)
class TurnQueue:
    """What one host knows of jobs that send or wait, on its own clock."""

    turns: Mapping[str, Turn] = field(default_factory=dict)
    freed_s: float = -math.inf
    """When a job's burst was over the last time."""
    concessions: Mapping[str, Concession] = field(default_factory=dict)
    """By job."""

    def wait(self, job: str, since_s: float, expected_s: float) -> TurnQueue:
        """Return the queue after a job has begun at a closed gate."""
        return self._with(job, Turn(Phase.WAITING, since_s, expected_s), since_s)

    def begin(
        self, job: str, now_s: float, expected_s: float, rivals: Collection[str]
    ) -> TurnQueue:
        """Return the queue after a job has begun to send."""
        made = {name: one for name, one in self.concessions.items() if name != job}
        for other in sorted(self._in_step(job, now_s, rivals)):
            first, last = sorted((job, other))
            made.setdefault(last, Concession(first, now_s))
        queue = self._with(job, Turn(Phase.SENDING, now_s, expected_s), now_s)
        return replace(queue, concessions=made)

    def end(self, job: str, now_s: float) -> TurnQueue:
        """Return the queue after a job's burst was over; the same if it is not in there."""
        if job not in self.turns:
            return self
        left = {name: turn for name, turn in self.turns.items() if name != job}
        since_s = self.turns[job].since_s
        # What was conceded to it was this burst, if it is not the one in step.
        conceded = {
            name: one
            for name, one in self.concessions.items()
            if one.to != job or one.since_s >= since_s
        }
        return TurnQueue(left, max(self.freed_s, now_s), conceded)

    def keep(self, jobs: Collection[str]) -> TurnQueue:
        """Return the queue without jobs that have gone."""
        conceded = {one.to for one in self.concessions.values()}
        if all(name in jobs for name in {*self.turns, *self.concessions, *conceded}):
            return self
        return replace(
            self,
            turns={name: one for name, one in self.turns.items() if name in jobs},
            concessions={
                name: one
                for name, one in self.concessions.items()
                if name in jobs and one.to in jobs
            },
        )

    def closed_until_s(self, job: str, rivals: Collection[str], now_s: float) -> float:
        """Return when a job's gate opens by itself; `now_s` or earlier: it is open.

        It is closed while a rival sends, while one waits that came before it, and before a burst
        of one that it was in step with.  A job that sends already is never stopped.
        """
        own = self.turns.get(job)
        if own is not None and own.phase is Phase.SENDING and own.until_s > now_s:
            return now_s
        others = {name: self.turns[name] for name in rivals if name in self.turns and name != job}
        until_s = max(self._senders_until_s(job, rivals, now_s), default=now_s)
        if any(self._is_ahead(name, turn, job, now_s) for name, turn in others.items()):
            until_s = max(until_s, self._free_s(job) + GRACE_S)
        conceded = self.concessions.get(job)
        if conceded is not None and conceded.to in rivals:
            # Who then does not begin is no longer in step.
            until_s = max(until_s, now_s + MAX_WAIT_S if own is None else own.since_s + IN_STEP_S)
        return until_s

    def is_free(self, job: str, rivals: Collection[str], now_s: float) -> bool:
        """Tell whether none of a job's rivals sends."""
        return not self._senders_until_s(job, rivals, now_s)

    def _senders_until_s(self, job: str, rivals: Collection[str], now_s: float) -> list[float]:
        """Return until when each rival that sends now may do so."""
        turns = (self.turns[name] for name in rivals if name in self.turns and name != job)
        return [one.until_s for one in turns if one.phase is Phase.SENDING and one.until_s > now_s]

    def _in_step(self, job: str, now_s: float, rivals: Collection[str]) -> list[str]:
        """Return the rivals that have begun to send when this job does."""
        return [
            name
            for name, turn in self.turns.items()
            if name in rivals
            and name != job
            and turn.phase is Phase.SENDING
            and turn.until_s > now_s
            and abs(now_s - turn.since_s) <= IN_STEP_S
        ]

    def _is_ahead(self, name: str, turn: Turn, job: str, now_s: float) -> bool:
        """Tell whether a waiting job came before another, which may not wait yet."""
        if turn.phase is not Phase.WAITING or turn.until_s <= now_s:
            return False
        own = self.turns.get(job)
        if own is None or own.phase is not Phase.WAITING:
            return True
        return (turn.since_s, name) < (own.since_s, job)

    def _free_s(self, job: str) -> float:
        """Return when those who wait can go: once everybody else has sent, or was to have sent."""
        ends = (
            turn.until_s
            for name, turn in self.turns.items()
            if turn.phase is Phase.SENDING and name != job
        )
        return max(ends, default=self.freed_s)

    def _with(self, job: str, turn: Turn, now_s: float) -> TurnQueue:
        kept = {name: one for name, one in self.turns.items() if one.until_s > now_s - MAX_WAIT_S}
        return replace(self, turns={**kept, job: turn})
