"""Decides when steered queue pairs go back to the path that they had.  Pure.

Judged as connections are (`hostcc.paths.fallback`): by the time that messages take, which is that
of a round trip and of what the path lets through, and by the packets that the NIC sends again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.rdma.pairs import Pair
from hostcc.daemon.rdma.path_doubts import STANDS
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute
from hostcc.daemon.steering.flow_health import WatchedFlow, watched

STALLED_S = 5.0
"""Wait after queue pairs stood still on their planned path, until they are moved again."""
Packets = tuple[int, int]
"""That a device sent, and how often some of its were lost."""
Routes = Mapping[QueuePairRoute, Sequence[tuple[int, Pair]]]
"""Route -> its queue pairs, each with its process."""


@dataclass(frozen=True)
class Reading:
    """A route as its host measures it, in the form of a connection."""

    srtt_s: float
    """Mean time of a message lately; 0: none has completed."""
    segments: int
    """Packets that the device has sent, those of other routes included."""
    retransmitted: int
    min_rtt_s: float = 0.0
    """Not known: the least is that of the smallest message."""


@dataclass
class _Route:
    flow: WatchedFlow
    pairs: dict[tuple[int, int], tuple[int, float]] = field(default_factory=dict)
    """(Process, queue pair) -> messages, seconds."""
    message_s: float = 0.0
    is_fresh: bool = False
    """Whether messages have completed since the last look."""

    def read(self, pairs: Sequence[tuple[int, Pair]], packets: Packets | None) -> Reading:
        now = {(pid, pair.qpn): (pair.completed, pair.busy_s) for pid, pair in pairs}
        both = now.keys() & self.pairs.keys()
        count = sum(now[one][0] - self.pairs[one][0] for one in both)
        took = sum(now[one][1] - self.pairs[one][1] for one in both)
        self.pairs = now
        self.is_fresh = count > 0 and took >= 0
        if self.is_fresh:
            self.message_s = took / count
        return Reading(self.message_s, *(packets or (0, 0)))


class RouteHealth:
    """How routes fare, on the path that they had and on that of the plan."""

    def __init__(self) -> None:
        self._routes: dict[QueuePairRoute, _Route] = {}

    def take(
        self,
        routes: Routes,
        packets: Mapping[str, Packets | None],
        ports: Callable[[QueuePairRoute], Collection[int]],
        stalled: Collection[QueuePairRoute],
        config: PathsConfig,
        now: float,
    ) -> dict[QueuePairRoute, str]:
        """Return routes that have to go back now -> why.

        `packets`: by device; `ports`: the source ports that a plan gave a route, empty: none;
        `stalled`: routes that nothing completes of, and whose path does not answer.
        """
        self._routes = {route: one for route, one in self._routes.items() if route in routes}
        found = {}
        for route, pairs in routes.items():
            if route not in self._routes:
                flow = watched(config, now, "a message", "packets")
                self._routes[route] = _Route(flow)
            one = self._routes[route]
            reading = one.read(pairs, packets.get(route.device))
            on = {pair.port for _, pair in pairs}
            one.flow.named_at = now  # plans that are too old have no ports any more
            if on == {0}:
                one.flow.on_ecmp(reading)
            elif not on <= set(ports(route)):
                continue  # some are on their way
            elif route in stalled:
                one.flow.not_before = now + STALLED_S
                found[route] = one.flow.held = f"went back: {STANDS}"
            elif (one.is_fresh or not one.message_s) and (
                why := one.flow.judge(reading, now, peer_alive=True)
            ):  # the message that stood still while a path failed says nothing of the next ones
                found[route] = one.flow.held = f"went back: {why}"
        return found

    def held(self, now: float) -> dict[QueuePairRoute, str]:
        """Return routes that have to stay on the path that they had -> why."""
        rows = ((route, one.flow.held_back(now)) for route, one in self._routes.items())
        return {route: why for route, why in rows if why}
