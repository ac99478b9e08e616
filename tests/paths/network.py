"""A network for searches, without a kernel: paths by port, silent hops, losses, limits."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hostcc.paths.packets import Kind, Reply
from hostcc.paths.search import Hops, Probe, Search, SearchResult, SearchSettings


@dataclass
class Network:
    """`ways[port % len]` unless `pick` says otherwise; times in seconds of its own."""

    ways: list[Hops]
    seed: int = 0
    loss: float = 0.0
    silent: frozenset[str] = frozenset()
    errors_per_s: float = 0.0
    """Limit of each router, after a burst of six; 0: none."""
    echo: bool = True
    udp: bool = False
    """The destination says that the port is closed."""
    sprays: bool = False
    rtt_s: float = 0.001
    mute: Callable[[int, Probe], bool] = lambda number, probe: False
    """Whether the answer to the network's so manieth probe is lost."""
    asked: int = 0
    tokens: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.chosen: dict[int, Hops] = {}

    def way(self, port: int) -> Hops:
        if self.sprays:
            return self.draw.choice(self.ways)
        if port not in self.chosen:
            self.chosen[port] = random.Random(f"{self.seed}/{port}").choice(self.ways)
        return self.chosen[port]

    def answer(self, probe: Probe, now: float) -> Reply | None:
        self.asked += 1
        if self.draw.random() < self.loss or self.mute(self.asked, probe):
            return None
        way = self.way(probe.port)
        if probe.ttl > len(way):
            if probe.port == 0 and self.echo:
                return Reply(Kind.REACHED, "dst", probe.token, 0)
            if probe.port and self.udp:
                return Reply(Kind.REACHED, "dst", probe.token, probe.port)
            return None
        router = way[probe.ttl - 1]
        if router in self.silent or not self._may_answer(router, now):
            return None
        return Reply(Kind.HOP, router, probe.token, probe.port)

    def _may_answer(self, router: str, now: float) -> bool:
        if not self.errors_per_s:
            return True
        left, at = self.tokens.get(router, (6.0, now))
        left = min(6.0, left + (now - at) * self.errors_per_s)
        self.tokens[router] = (max(0.0, left - 1) if left >= 1 else left, now)
        return left >= 1


def play(
    network: Network, ports: range = range(100, 5000), settings: SearchSettings | None = None
) -> tuple[SearchResult, float]:
    """Run a search to its end; what it found, and how long it took."""
    search, now = Search(ports, settings, rng=random.Random(network.seed)), 0.0
    arriving: list[tuple[float, int, Reply]] = []
    for step in range(200_000):
        for probe in search.due(now):
            reply = network.answer(probe, now)
            if reply is not None:
                heapq.heappush(arriving, (now + network.rtt_s, step * 100 + len(arriving), reply))
        if search.done:
            return search.result(), now
        then = search.wake(now)
        if arriving and arriving[0][0] <= max(then, now):
            now = max(now, arriving[0][0])
            search.heard(heapq.heappop(arriving)[2], now)
        else:
            now = max(then, now + 1e-6)
    raise AssertionError("the search never ended")
