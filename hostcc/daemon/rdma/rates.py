"""Measures how fast jobs' queue pairs send, out of counters that grow.

Each change of a published rate makes another view, and another plan.  So a rate is a mean over many
iterations, and held until it is clearly another (hostcc.daemon.gossip.hysteresis).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from hostcc.daemon.gossip.hysteresis import PublishedProfile, step
from hostcc.daemon.rdma.pairs import Sender
from hostcc.daemon.rdma.queue_pair_flows import LEAST_BYTES_PER_S, QueuePairRoute, route_of
from hostcc.model import JobProfile

WINDOW_S = 30.0
"""A published rate is the mean of so long.  A change by more than `hysteresis.GUESS_FACTOR` is
published after this and `hysteresis.CONFIRM_S`."""
LATELY_S = 3.0
"""The same of rates that are only shown."""


class Rates:
    """Rates of all routes of queue pairs."""

    def __init__(self) -> None:
        self._last: dict[tuple[QueuePairRoute, int, int], int] = {}
        self._counts: dict[QueuePairRoute, deque[tuple[float, int]]] = {}
        """(When, bytes since the count before), the oldest first."""
        self._held: dict[str, PublishedProfile] = {}
        self.lately: Mapping[QueuePairRoute, float] = {}
        """Route -> mean bytes per second of the last LATELY_S, as measured."""

    def take(self, senders: Iterable[Sender], now: float) -> dict[QueuePairRoute, float]:
        """Return route -> bytes per second to publish, from counters read at `now`, seconds; 0: not
        known yet."""
        sums: dict[QueuePairRoute, int] = {}
        last: dict[tuple[QueuePairRoute, int, int], int] = {}
        for sender in senders:
            for pair in sender.pairs:
                way = route_of(sender.job, pair)
                key = (way, sender.pid, pair.qpn)
                last[key] = pair.bytes
                sums[way] = sums.get(way, 0) + max(0, pair.bytes - self._last.get(key, pair.bytes))
        self._last = last
        self._counts = {way: self._counts.get(way, deque()) for way in sums}
        for way, size in sums.items():
            counts = self._counts[way]
            counts.append((now, size))
            while now - counts[0][0] > WINDOW_S:
                counts.popleft()
        self.lately = {way: _mean(counts, LATELY_S) for way, counts in self._counts.items()}
        return self._steady(now)

    def _steady(self, now: float) -> dict[QueuePairRoute, float]:
        means = {way: _mean(counts, WINDOW_S) for way, counts in self._counts.items()}
        guesses = {
            way: _guess(way, rate)
            for way, rate in means.items()
            if rate or _name(way) in self._held  # a job that begins to send is published at once
        }
        self._held = step(self._held, list(guesses.values()), lambda _: None, now)
        return {way: self._rate(way) if way in guesses else 0.0 for way in means}

    def _rate(self, way: QueuePairRoute) -> float:
        return self._held[_name(way)].profile.tx_bytes


def _mean(counts: deque[tuple[float, int]], window_s: float) -> float:
    those = [one for one in counts if counts[-1][0] - one[0] <= window_s]
    passed = those[-1][0] - those[0][0]
    rate = sum(size for _, size in those[1:]) / passed if passed > 0 else 0.0
    return rate if rate >= LEAST_BYTES_PER_S else 0.0


def _name(way: QueuePairRoute) -> str:
    return "\0".join((way.job, way.device, way.source, way.destination))


def _guess(way: QueuePairRoute, rate: float) -> JobProfile:
    """A route in the form of a job of which only a rate is known."""
    to = ((way.destination, rate),) if rate else ()
    return JobProfile(_name(way), 1.0, 0.0, 0.0, 1.0, period_s=1.0, bytes_to=to, confidence=0.0)
