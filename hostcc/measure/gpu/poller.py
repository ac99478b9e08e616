"""Looks at the GPUs at a steady rate, in a thread of its own.

The driver can take seconds to answer (a reset, a GPU that fell off the bus) or hang for
good.  Only this thread waits for it: whoever takes the samples never does.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from hostcc.log import get_logger
from hostcc.measure.gpu.readings import Sample

INTERVAL_S = 0.1
"""Between looks, seconds.  NVIDIA advises at least 0.1 s between two GPM samples."""
KEEP = 600
"""Samples kept for whoever takes them; the oldest go first."""
WITHOUT_S = 2.0
"""Between looks while there is no GPU or no driver, seconds."""
STALLED_S = 5.0
"""A look that takes longer counts as the driver hanging, seconds."""

log = get_logger("gpu")


class Driver(Protocol):
    """Where samples come from."""

    def sample(self) -> Sample:
        """One look; may block."""

    def close(self) -> None:
        """Let go of the driver."""


class Poller:
    """Samples of all GPUs.  `start`, then `take` now and then, `stop` at the end.

    `stop` lets go of the driver, so that it can be unloaded or put into MIG mode; `start`
    may follow.  After a stop while the driver hung, that thread ends when the driver answers.
    """

    def __init__(
        self,
        driver: Callable[[], Driver],
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._interval = max(interval_s, 0.01)
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=KEEP)
        self._busy_since: float | None = None
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self.why = "not started"
        """Why there are no readings; empty while there are."""

    def start(self) -> None:
        """Begin to look; does nothing when it runs already."""
        if self._thread is not None and not self._quit.is_set():
            return
        self._quit = threading.Event()
        self.why = "starting"
        # A daemon: a driver that hangs must not keep the agent from ending.
        self._thread = threading.Thread(
            target=self._run, args=(self._quit,), name="hostcc-gpu", daemon=True
        )
        self._thread.start()

    def stop(self, patience_s: float = 1.0) -> bool:
        """Stop looking; whether the thread ended within `patience_s` seconds."""
        self._quit.set()
        self.why = "not started"
        thread, self._thread = self._thread, None
        if thread is None:
            return True
        thread.join(patience_s)
        return not thread.is_alive()

    def take(self) -> list[Sample]:
        """The samples since the last call, oldest first; never waits."""
        taken = []
        while True:
            try:
                taken.append(self._samples.popleft())
            except IndexError:
                return taken

    @property
    def stalled(self) -> bool:
        """Whether the driver has not answered for STALLED_S."""
        since = self._busy_since
        return since is not None and self._clock() - since > STALLED_S

    def _run(self, quit_now: threading.Event) -> None:
        driver = self._driver()
        try:
            while not quit_now.is_set():
                began = self._busy_since = self._clock()
                sample = self._look(driver)
                self._busy_since = None
                if quit_now.is_set():
                    break
                if sample.readings:
                    self._samples.append(sample)
                if sample.why != self.why:
                    log.info("GPUs", state=sample.why or "measured")
                    self.why = sample.why
                took = self._clock() - began
                # Never more than half of the time in the driver, however slow it is.
                rest = self._interval if sample.readings or not sample.why else WITHOUT_S
                quit_now.wait(max(rest - took, took, 0.0))
        finally:
            driver.close()

    def _look(self, driver: Driver) -> Sample:
        try:
            return driver.sample()
        except Exception as error:  # noqa: BLE001 - a thread that dies unseen is worse
            log.defect("looking at GPUs failed", error)
            return Sample(why="looking failed; see the log")
