"""Makes plans in a thread of their own, within a budget of processor time."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from hostcc.daemon.planning.cpu_budget import CpuBudget
from hostcc.model import Plan

THREAD_NICE = 10
"""Where processors are scarce, jobs' data loaders and traffic come first.  A higher value would
keep the interpreter's lock, and with it the heartbeat, from the main thread."""


class PlanThread:
    """An executor of the coordinator.

    A plan of thousands of jobs takes a second: neither a round nor a heartbeat waits for it.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        """`processor`: processor time of the calling thread, seconds."""
        self._pool = ThreadPoolExecutor(1, "plan", initializer=_give_way)
        self._clock, self._processor = clock, processor
        self._budget = CpuBudget(at=clock())
        self._costs: deque[float] = deque()
        """Seconds of each plan since the budget was last worked out."""

    def submit(self, work: Callable[[], Plan]) -> Future[Plan] | None:
        """Begin a plan; None: the budget is spent, ask again later."""
        budget = self._budget.now(self._clock())
        while self._costs:
            budget = budget.spent(self._costs.popleft())
        self._budget = budget
        return self._pool.submit(self._timed, work) if budget.free else None

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
    thread = threading.get_native_id()
    # One that gives way more already could not go back: the unit leaves no capability for that.
    if os.getpriority(os.PRIO_PROCESS, thread) < THREAD_NICE:
        os.setpriority(os.PRIO_PROCESS, thread, THREAD_NICE)
