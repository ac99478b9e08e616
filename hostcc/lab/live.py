"""Watches what jobs send while a run goes on: rates, and how often jobs send at the same time.

`LiveRun` is pure but for being fed; `watching` feeds it from the switches' counters in a thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hostcc.lab import netns
from hostcc.lab.network import Network
from hostcc.lab.sampler import parse_sent
from hostcc.lab.scenario import JobSpec

INTERVAL_S = 0.02
MAX_SAMPLES = 100_000
"""Of a run: the first half hour."""
BUSY = 0.1
"""Part of the highest rate of any job from which on a job counts as sending."""
WINDOW_S = 0.5
"""Over which it is found how often jobs send at once."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Overlap:
    """How often several jobs sent at once, window by window."""

    times: Floats
    """(W,) seconds since the start, in the middle of each window."""
    part: Floats
    """(W,) of the time in which any job sent; NaN: none did."""


class LiveRun:
    """Rates of the jobs of one run, from counters of bytes; fed by one thread, read by others."""

    def __init__(self, title: str, ports: Mapping[str, Sequence[str]]) -> None:
        """`ports`: job -> switches' ports to the hosts that receive from it."""
        self.title, self.jobs = title, tuple(ports)
        self._ports = [tuple(ports[job]) for job in self.jobs]
        self._rows: list[tuple[float, ...]] = []
        """Time and bytes of each job."""

    def add(self, at_s: float, sent: Mapping[str, int]) -> None:
        """Add what each port had sent at a time."""
        if len(self._rows) < MAX_SAMPLES:
            bytes_of = (sum(sent.get(port, 0) for port in ports) for ports in self._ports)
            self._rows.append((at_s, *map(float, bytes_of)))

    def rates(self, seconds: float | None = None) -> tuple[Floats, Floats]:
        """Return times (T,) since the start, and rates (T, jobs) in bytes/s, the latest ones."""
        rows = self._rows[:]
        begin = rows[0][0] if rows else 0.0
        if seconds is not None:
            rows = rows[-(round(seconds / INTERVAL_S) + 1) :]
        if len(rows) < 2:
            return np.zeros(0), np.zeros((0, len(self.jobs)))
        table: Floats = np.asarray(rows, np.float64)
        spans = np.maximum(np.diff(table[:, 0]), 1e-6)
        rates: Floats = np.diff(table[:, 1:], axis=0) / spans[:, None]
        return table[1:, 0] - begin, rates

    def overlap(self) -> Overlap:
        """Return how often jobs sent at once, from the start until now."""
        return overlap(*self.rates())


def overlap(times: Floats, rates: Floats) -> Overlap:
    """Return how often several jobs sent at once in each window.  Pure."""
    if not len(times) or rates.shape[1] < 2:
        return Overlap(np.zeros(0), np.zeros(0))
    sending = rates > BUSY * max(float(rates.max()), 1.0)
    count = sending.sum(axis=1)
    window = (times // WINDOW_S).astype(np.int64)
    windows = int(window[-1]) + 1
    some = np.bincount(window, count >= 1, windows)
    several = np.bincount(window, count >= 2, windows)
    part = np.full(windows, np.nan)
    np.divide(several, some, out=part, where=some > 0)
    middles: Floats = (np.arange(windows, dtype=np.float64) + 0.5) * WINDOW_S
    return Overlap(middles, part)


def receiving_ports(network: Network, jobs: Sequence[JobSpec]) -> dict[str, list[str]]:
    """Return the ports to the hosts of each job behind the last switch that has any of them.

    On a dumbbell that is one direction over the bottleneck; jobs of one switch keep all ports.
    """
    found = {}
    for job in jobs:
        hosts = network.members(job)
        switches = [name for name in network.sampled() if name in {host.switch for host in hosts}]
        last = switches[-1] if switches else ""
        found[job.name] = [host.name for host in hosts if host.switch == last]
    return found


@contextmanager
def watching(
    network: Network, jobs: Sequence[JobSpec], title: str, began: Callable[[LiveRun], None]
) -> Iterator[LiveRun]:
    """Sample the switches' counters in a thread for as long as the block takes."""
    run = LiveRun(title, receiving_ports(network, jobs))
    ended = threading.Event()
    with ExitStack() as stack:
        files = []
        for switch in network.sampled():
            number = netns.inside(network.namespace(switch), _open)
            stack.callback(os.close, number)
            files.append(number)

        def sample() -> None:
            due = time.monotonic()
            while not ended.is_set():
                sent: dict[str, int] = {}
                with suppress(OSError):
                    for number in files:
                        sent |= parse_sent(os.pread(number, 1 << 16, 0))
                run.add(time.monotonic(), sent)
                due = max(due + INTERVAL_S, time.monotonic())
                ended.wait(due - time.monotonic())

        thread = threading.Thread(target=sample, name="live", daemon=True)
        began(run)
        thread.start()
        try:
            yield run
        finally:
            ended.set()
            thread.join()


def _open() -> int:
    return os.open("/proc/thread-self/net/dev", os.O_RDONLY)
