"""Where an agent makes its plans: in a thread of its own, no more often than it may."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from hostcc.daemon.planning.cpu_budget import CpuBudget
from hostcc.model import Plan

NICE = 10
"""Of the thread: where processors are scarce, jobs' data loaders and traffic come first.  More
would keep the interpreter's lock, and with it the agent's sign of life, from the main thread."""


class PlanThread:
    """An executor of the coordinator.

    A plan of thousands of jobs takes a second: neither a round nor a heartbeat waits for it.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        """`processor`: the time that the thread which asks has had of one, seconds."""
        self._pool = ThreadPoolExecutor(1, "plan", initializer=_give_way)
        self._clock, self._processor = clock, processor
        self._pace = CpuBudget(at=clock())
        self._costs: deque[float] = deque()
        """Of plans since the pace was last worked out."""

    def submit(self, work: Callable[[], Plan]) -> Future[Plan] | None:
        """Begin a plan; None: not now, ask again."""
        pace = self._pace.now(self._clock())
        while self._costs:
            pace = pace.spent(self._costs.popleft())
        self._pace = pace
        return self._pool.submit(self._timed, work) if pace.free else None

    def close(self) -> None:
        """Begin no more; does not wait for the one that is being made."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _timed(self, work: Callable[[], Plan]) -> Plan:
        begun = self._processor()
        try:
            return work()
        finally:
            self._costs.append(self._processor() - begun)


def _give_way() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
