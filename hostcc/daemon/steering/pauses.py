"""Predicts the next pause of a job's traffic, so that its flows are moved then.

A flow that is moved in a pause has no segment on its way, so none can overtake another.  Pure,
except for the timers of pending moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hostcc.model import JobProfile
from hostcc.paths.steering_messages import FlowKey

MAX_WAIT_S = 1.0
"""Longest wait of a move for a pause."""
MIN_PAUSE_S = 0.02
"""Shortest pause with time for a move: a few round trips between two agents."""
EARLIEST_PART, LATEST_PART = 0.1, 0.5
"""Parts of a pause between which a move begins: its end comes later, and predictions err."""
MIN_CONFIDENCE = 0.7
"""Confidence from which a measurement predicts bursts."""
MAX_ITERATIONS_AGO = 50
"""Age of a measurement, iterations, above which its phase is unknown."""


def wait_s(job: JobProfile | None, now: float) -> float:
    """Compute the wait before a move of a flow of this job, seconds; `now`: since the epoch.

    0 when nothing is known of the job, it hardly pauses, or the next pause is too far away.
    """
    if job is None or job.phase_s is None or job.confidence < MIN_CONFIDENCE or job.period_s <= 0:
        return 0.0
    if not 0 <= now - job.at <= MAX_ITERATIONS_AGO * job.period_s:
        return 0.0
    found = next_pause(job.period_s, job.phase_s, job.comm_start_s, now)
    return 0.0 if found > MAX_WAIT_S else found


def next_pause(period_s: float, phase_s: float, silent_s: float, now: float) -> float:
    """Compute the seconds until a move can begin in a pause; 0: now, or pauses are too short.

    An iteration begins at `phase_s` modulo `period_s` (on the clock of `now`) with `silent_s`
    without traffic.
    """
    if min(silent_s, period_s) < MIN_PAUSE_S:
        return 0.0
    into = (now - phase_s) % period_s
    first, last = EARLIEST_PART * silent_s, LATEST_PART * silent_s
    if first <= into <= last:
        return 0.0
    return (first - into) % period_s


@dataclass
class PendingMoves:
    """Moves that wait for a pause, each with its port on the wire."""

    _moves: dict[FlowKey, tuple[int, asyncio.TimerHandle]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count them."""
        return len(self._moves)

    def port(self, flow: FlowKey) -> int:
        """Return the port of a flow's pending move; 0: none is pending."""
        return self._moves[flow][0] if flow in self._moves else 0

    def taken(self, port: int) -> bool:
        """Check whether a pending move will take a port."""
        return any(port == its for its, _ in self._moves.values())

    def begin(self, flow: FlowKey, port: int, seconds: float, go: Callable[[], None]) -> None:
        """Call `go` after a wait; at once where it is 0."""
        self.end(flow)
        if seconds <= 0:
            go()
            return

        def due() -> None:
            del self._moves[flow]
            go()

        self._moves[flow] = port, asyncio.get_running_loop().call_later(seconds, due)

    def end(self, flow: FlowKey) -> None:
        """Cancel the move of a flow."""
        if flow in self._moves:
            self._moves.pop(flow)[1].cancel()

    def end_all(self) -> None:
        """Cancel all moves."""
        for flow in list(self._moves):
            self.end(flow)
