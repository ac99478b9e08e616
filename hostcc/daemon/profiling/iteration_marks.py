"""Iteration marks: boundaries that jobs report themselves; nothing depends on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hostcc.answers.parts import MarksPart
from hostcc.daemon.jobs import requests
from hostcc.daemon.log_limit import LogLimit
from hostcc.daemon.profiling.mark_thread import MarkThread
from hostcc.daemon.supervisor import Host
from hostcc.log import get_logger
from hostcc.measure.discover.owners import Owners
from hostcc.measure.marks import MAX_SENDERS, MarkReceiver, boundaries
from hostcc.model import Difference

log = get_logger("marks")

TICK_S = 1.0
MESSAGES_PER_TICK = 512
"""Messages that are handled in a tick: each costs some files of /proc, and any user may send."""


class MarkListener:
    """Listens for marks.  `owners`: whose each process is now."""

    name = "marks"
    every_s = TICK_S

    def __init__(self, host: Host, owners: Callable[[], Owners]) -> None:
        self._host = host
        self._owners = owners
        self._receiver: MarkReceiver | None = None
        self._path = ""
        self._inode = 0
        self._thread: MarkThread | None = None
        self._over = 0
        self._rarely = LogLimit()

    def disabled_reason(self) -> str:
        """Configured away?"""
        return "" if self._host.config.marks.enabled else "marks.enabled is false"

    def start(self) -> None:
        """Listen; anybody on this host may send."""
        self._path = self._host.config.marks_path
        receiver = MarkReceiver(
            self._path,
            self._job_of,
            lambda: self._host.config.quota(MAX_SENDERS),
        )
        self._receiver, self._over = receiver, 0
        self._inode = self._found()
        self._thread = MarkThread(receiver, MESSAGES_PER_TICK)

    async def tick(self) -> None:
        """Read what was written."""
        if self._path != self._host.config.marks_path:
            self.stop()
            self.start()
        assert self._receiver is not None
        assert self._thread is not None
        self._thread.refill()
        self._receiver.poll()
        over, before = self._receiver.over_quota, self._over
        if over > before and self._rarely.due(self._receiver.over):
            self._over = over
            log.warning("marks refused", reason=self._receiver.over, messages=over - before)

    def stop(self) -> None:
        """Close the socket."""
        if self._thread is not None:
            self._thread.close()
        if self._receiver is not None:
            self._receiver.close()
        self._receiver = self._thread = None

    def verify(self) -> list[Difference]:
        """Whether the socket is still ours."""
        if self._found() == self._inode:
            return []
        return [Difference("marks-socket", self._path, "present", "absent or replaced")]

    def view(self) -> MarksPart:
        """Where it listens, and what it did not take."""
        receiver = self._receiver
        return MarksPart(
            socket=self._path,
            senders=receiver.senders if receiver else 0,
            refused=receiver.refused if receiver else 0,
            over_quota=receiver.over_quota if receiver else 0,
        )

    @property
    def socket(self) -> str:
        """Where jobs' marks arrive; empty: nowhere."""
        return self._path if self._receiver is not None else ""

    def boundaries(self, job: str) -> list[float]:
        """When a job's iterations ended, seconds, CLOCK_MONOTONIC; of a job without marks none."""
        return [] if self._receiver is None else boundaries(self._receiver.times(job))

    def _job_of(self, pid: int) -> str | None:
        """The job whose marks a process may send."""
        job, engine = self._owners().of(pid), self._host.engine
        if job is None or engine is None or requests.given(engine.table, job, "marks"):
            return job
        return None

    def _found(self) -> int:
        if self._path.startswith("@"):
            return 0
        try:
            return Path(self._path).stat().st_ino
        except OSError:
            return -1
