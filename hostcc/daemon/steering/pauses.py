"""When a job's next silence between two bursts begins, by what was measured of it.

A flow that is moved then has no segment on its way, so none can overtake another.  Pure, except
for the timers of moves that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hostcc.model import JobProfile
from hostcc.paths.exchange_types import FlowKey

LONGEST_S = 1.0
"""That a move waits for a pause."""
SHORTEST_S = 0.02
"""A pause in which there is time for a move: a few round trips between two agents."""
FIRST, LAST = 0.1, 0.5
"""Parts of a pause between which a move begins: its end comes later, and predictions err."""
SURE = 0.7
"""Confidence from which a measurement says when bursts come."""
FRESH = 50
"""Iterations after which nothing is known any more of where in its iteration a job is."""


def wait_s(job: JobProfile | None, now: float) -> float:
    """Seconds to wait with a move of a flow of this job; `now`: seconds since the epoch.

    0, at once: nothing is known of it, it hardly pauses, or the next pause is too far away.
    """
    if job is None or job.phase_s is None or job.confidence < SURE or job.period_s <= 0:
        return 0.0
    if not 0 <= now - job.at <= FRESH * job.period_s:
        return 0.0
    found = next_pause(job.period_s, job.phase_s, job.comm_start_s, now)
    return 0.0 if found > LONGEST_S else found


def next_pause(period_s: float, phase_s: float, silent_s: float, now: float) -> float:
    """Seconds until a move can begin in a pause; 0: now, or there are no pauses to speak of.

    An iteration begins at `phase_s` modulo `period_s` (on the clock of `now`) with `silent_s`
    without traffic.
    """
    if min(silent_s, period_s) < SHORTEST_S:
        return 0.0
    into = (now - phase_s) % period_s
    first, last = FIRST * silent_s, LAST * silent_s
    if first <= into <= last:
        return 0.0
    return (first - into) % period_s


@dataclass
class PendingMoves:
    """Moves that wait; each has the port that it is to have on the wire."""

    _moves: dict[FlowKey, tuple[int, asyncio.TimerHandle]] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._moves)

    def port(self, flow: FlowKey) -> int:
        """Of the move of a flow that waits; 0: none does."""
        return self._moves[flow][0] if flow in self._moves else 0

    def taken(self, port: int) -> bool:
        """Whether a port is promised to a flow that waits."""
        return any(port == its for its, _ in self._moves.values())

    def begin(self, flow: FlowKey, port: int, seconds: float, go: Callable[[], None]) -> None:
        """Have `go` called after so long; at once without a wait."""
        self.end(flow)
        if seconds <= 0:
            go()
            return

        def due() -> None:
            del self._moves[flow]
            go()

        self._moves[flow] = port, asyncio.get_running_loop().call_later(seconds, due)

    def end(self, flow: FlowKey) -> None:
        """It is not to move after all."""
        if flow in self._moves:
            self._moves.pop(flow)[1].cancel()

    def end_all(self) -> None:
        """None is to move."""
        for flow in list(self._moves):
            self.end(flow)
