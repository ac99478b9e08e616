"""Reads the counters of shims: whose queue pairs there are, and where they go.

Any user can put files where processes put their counters.  A file counts only when the process
that it is named after, or that has it locked, is one of the job's, and it has the same owner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from hostcc.measure.discover.owners import Owners
from hostcc.measure.rdma_counters import SYSFS
from hostcc.verbs.plan_region import gid_of
from hostcc.verbs.process_counts import (
    ProcessCount,
    QpCount,
    address_of,
    read_counts,
    user_of,
)

MAX_PAIRS = 1024
"""Queue pairs of one process that are read."""
Ends = tuple[str, str]
"""Own address, destination."""
_DEVICE = re.compile(r"^[A-Za-z0-9_.:-]{1,27}\Z")


@dataclass(frozen=True)
class Pair:
    """One queue pair of a job."""

    qpn: int
    device: str
    device_port: int
    source: str
    """Address."""
    destination: str
    port: int
    """UDP source port that was asked for; 0: none."""
    traffic_class: int
    bytes: int
    moves: int
    failed: int
    longest: int = 0
    """Bytes of its longest message; 0: not known."""
    errors: int = 0
    """Completions that failed."""
    completed: int = 0
    """Messages that have completed; 0: none, or a shim that does not count them."""
    busy_s: float = 0.0
    """Seconds that these took, one after the other."""
    open_at: float = 0.0
    """Since when nothing has completed, CLOCK_MONOTONIC, seconds; 0: nothing is under way."""

    @property
    def ends(self) -> Ends:
        """Own address, destination."""
        return self.source, self.destination

    def is_elephant(self, least: int) -> bool:
        """Whether paths and classes are for it: from a message of `least` bytes on.

        So a queue pair of a shim that does not tell lengths is one, once it has sent.
        """
        return self.longest >= least or (self.bytes > 0 and not self.longest)


@dataclass(frozen=True)
class Sender:
    """One process of a job."""

    job: str
    pid: int
    iterations: int
    iteration: int
    """Bytes in the current iteration."""
    pairs: tuple[Pair, ...]
    left_alone: int = 0
    """Queue pairs that its shim had no room for."""
    counts: Path = Path()
    """File of its counters."""

    @property
    def bytes(self) -> int:
        """Bytes sent by the queue pairs that are open."""
        return sum(pair.bytes for pair in self.pairs)


def elephants(senders: Iterable[Sender], least: int) -> list[Sender]:
    """Return the processes with those queue pairs that paths and classes are for."""
    return [
        replace(one, pairs=tuple(pair for pair in one.pairs if pair.is_elephant(least)))
        for one in senders
    ]


class Senders:
    """Reads the counters of all processes of jobs."""

    def __init__(
        self,
        counts: Path,
        owners: Callable[[], Owners],
        sysfs: Path = SYSFS,
        proc: Path = Path("/proc"),
    ) -> None:
        self._counts = counts
        self._owners = owners
        self._sysfs = sysfs
        self._proc = proc
        self._own: dict[tuple[str, int, int], str] = {}

    def read(self) -> tuple[Sender, ...]:
        """Return the processes whose files are genuine, by job and process."""
        owners = cache(self._owners)

        def genuine(job: str, pid: int, uid: int) -> bool:
            return bool(job) and user_of(pid, self._proc) == uid and owners().of(pid) == job

        found = map(self._sender, read_counts(self._counts, genuine))
        return tuple(sorted(found, key=lambda one: (one.job, one.pid)))

    def _sender(self, one: ProcessCount) -> Sender:
        pairs = tuple(pair for qp in one.qps[:MAX_PAIRS] if (pair := self._pair(qp)) is not None)
        return Sender(
            one.job, one.pid, one.iterations, one.iteration, pairs, one.left_alone, one.path
        )

    def _pair(self, qp: QpCount) -> Pair | None:
        if not _DEVICE.match(qp.device) or not qp.destination:
            return None
        source = self._source(qp.device, qp.device_port, qp.gid_index)
        return Pair(
            qp.qpn, qp.device, qp.device_port, source, qp.destination, qp.port, qp.traffic_class,
            qp.bytes, qp.moves, qp.failed, qp.longest,
            qp.errors, qp.completed, qp.busy_s, qp.open_at,
        )  # fmt: skip

    def _source(self, device: str, port: int, index: int) -> str:
        """The device's own address; empty where it has none."""
        at = (device, port, index)
        if at not in self._own:
            if len(self._own) > MAX_PAIRS:
                self._own.clear()
            self._own[at] = _gid(self._sysfs / device / "ports" / str(port) / "gids" / str(index))
        return self._own[at]


def _gid(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(64).decode("ascii", "replace").strip()
        return address_of(gid_of(text))
    except (OSError, ValueError):
        return ""
