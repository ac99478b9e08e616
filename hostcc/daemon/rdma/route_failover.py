"""Where queue pairs go when their path fails, ahead of a plan, or is worse than what they had."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.rdma import shim_plan
from hostcc.daemon.rdma.pairs import Pair, Sender
from hostcc.daemon.rdma.path_doubts import PathDoubts
from hostcc.daemon.rdma.path_tables import PathTables
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute, route_of
from hostcc.daemon.rdma.queue_pair_records import ROCE, flow_id, named
from hostcc.daemon.rdma.route_health import Packets, RouteHealth
from hostcc.daemon.steering.failed_links import all_links, failed_links
from hostcc.daemon.steering.failover_moves import answer
from hostcc.daemon.steering.failover_task import FailoverTask
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.log import get_logger

log = get_logger("rdma")

AHEAD = "its path has failed: ahead of the plan"


class RouteFailover:
    """Prepares for failures of the paths in `ways`, and judges how routes fare.

    `look` with each reading of the counters, `follow` as often as possible.
    """

    def __init__(self, ways: PathTables, clock: Callable[[], float]) -> None:
        self._ways, self._clock = ways, clock
        self._doubts, self._health = PathDoubts(), RouteHealth()
        self._agreed, self._own = FailoverTask(), FailoverTask()
        self._made: PlanResult | None = None
        self._local: PlanResult | None = None
        self._member = ""
        self._routes: Collection[QueuePairRoute] = ()
        self._planned: frozenset[str] = frozenset()
        """Names of flows in the hosts' plan."""
        self._standing: dict[QueuePairRoute, list[tuple[int, Pair]]] = {}
        """Routes that stand still -> their queue pairs, each with its process."""
        self._stalled: Collection[QueuePairRoute] = ()
        """Of these, those whose devices have sent again meanwhile."""
        self._left: dict[QueuePairRoute, str] = {}
        """Of `ahead`, those because of that; until the next plan."""
        self._moves: dict[tuple[int, str, int], int] = {}
        """(Process, device, queue pair) -> its live changes."""
        self.ahead: Mapping[QueuePairRoute, str] = {}
        """Route -> path that takes the place of the planned one, which has failed."""
        self.moved = 0
        """Live changes of path or class that came about."""
        self.fell_back = 0
        """Routes that went back."""

    @property
    def prepared(self) -> int:
        """For how many failures another path is prepared."""
        return len(self._agreed.prepared) + len(self._own.prepared)

    @property
    def held(self) -> Mapping[QueuePairRoute, str]:
        """Routes that have to stay on the path that they had -> why."""
        return self._health.held(self._clock())

    def look(
        self,
        senders: Sequence[Sender],
        again: Mapping[str, int | None],
        packets: Mapping[str, Packets | None],
        told: shim_plan.Before,
        config: PathsConfig,
    ) -> None:
        """Take new counters.

        `senders`: with those queue pairs that have paths; `again`, `packets`: by device; `told`:
        what their jobs' entries say.
        """
        now = self._clock()
        routes: dict[QueuePairRoute, list[tuple[int, Pair]]] = {}
        for sender in senders:
            for pair in sender.pairs:
                routes.setdefault(route_of(sender.job, pair), []).append((sender.pid, pair))
        self._count(senders)
        doubts = self._doubts.take(senders, again, now)
        self._standing = {route: routes[route] for route in sorted(doubts.standing)}
        self._stalled = doubts.stalled
        self._see()

        def ports(route: QueuePairRoute) -> Collection[int]:
            # What has left a failed path is not judged: what it had may be that path.
            one = None if route in self.ahead else told.get((route.job, route.destination))
            return one.ports if one is not None else ()

        lost = {route for route in doubts.stalled if self._is_lost(routes[route])}
        back = self._health.take(routes, packets, ports, lost, config, now)
        for route, why in back.items():
            log.warning("queue pairs go back", job=route.job, to=route.destination, reason=why)
        self.fell_back += len(back)
        went = {(route.source, route.destination): why for route, why in back.items()}
        self._ways.doubt({**went, **doubts.ends})

    def follow(
        self,
        made: PlanResult | None,
        member: str,
        local: PlanResult | None,
        routes: Collection[QueuePairRoute],
    ) -> None:
        """Prepare for these plans, and see whether something has failed.

        `made`: the hosts' plan, in which this one is `member`; `local`: this host's own.
        """
        self._agreed.follow(made, f"{member}/", f"{ROCE}-")
        self._own.follow(local, "")
        if made is not self._made or local is not self._local:
            self._made, self._local, self._left = made, local, {}
            flows = made.plan.flows if made is not None else ()
            self._planned = frozenset(one.flow for one in flows)
        self._member, self._routes = member, routes
        self._see()

    def reasons(self, job: str) -> dict[str, str]:
        """Return destination -> why a job's queue pairs there are not on the planned path."""
        found = {route.destination: AHEAD for route in self.ahead if route.job == job}
        held = {one.destination: why for one, why in self.held.items() if one.job == job}
        return {**found, **held}

    def end(self) -> None:
        """Forget all but the counts."""
        self._agreed.end()
        self._own.end()
        self._doubts, self._health = PathDoubts(), RouteHealth()
        self._made = self._local = None
        self._planned, self._left = frozenset(), {}
        self._standing, self._stalled = {}, ()
        self._moves, self._routes, self.ahead = {}, (), {}

    def _see(self) -> None:
        # What has failed, and who has another path prepared for that.
        known = self._ways.known.values()
        now, seen = self._clock(), all_links(known)
        dead = failed_links(known, (), now)
        found = self._routes_of(self._agreed.paths(dead, seen), self._own.paths(dead, seen))
        for job, stalled in self._lost_paths().items():
            # Counters are the job's word, which moves no queue pairs of others.
            links = failed_links(known, stalled, now)
            answers = (answer(one.prepared, links, seen) for one in (self._agreed, self._own))
            moves = self._routes_of(*answers)
            self._left |= {route: path for route, path in moves.items() if route.job == job}
        self.ahead = {**found, **self._left}

    def _lost_paths(self) -> dict[str, list[tuple[TargetPaths | None, str]]]:
        # Job -> paths on which its queue pairs stand still, and which something else says is lost.
        found: dict[str, list[tuple[TargetPaths | None, str]]] = {}
        misses = self._ways.misses
        for route, pairs in self._standing.items():
            for _, pair in pairs:
                path = self._path_of(pair)
                missed = pair.open_at and misses(pair.ends, path, pair.open_at)
                if missed or route in self._stalled:
                    found.setdefault(route.job, []).append((self._ways.known.get(pair.ends), path))
        return found

    def _routes_of(
        self, agreed: Mapping[str, str], own: Mapping[str, str]
    ) -> dict[QueuePairRoute, str]:
        # Moves by names of flows in the hosts' plan and in this host's own.
        found = {}
        for route in self._routes:
            is_planned = named(self._member, route) in self._planned
            path = agreed.get(flow_id(route)) if is_planned else own.get(route.flow)
            if path:
                found[route] = path
        return found

    def _is_lost(self, pairs: Sequence[tuple[int, Pair]]) -> bool:
        # Where the path answers, acknowledgements are what is lost, or the peer stands still.
        answers = self._ways.answers
        return any(
            pair.open_at and answers(pair.ends, self._path_of(pair), pair.open_at) is False
            for _, pair in pairs
        )

    def _path_of(self, pair: Pair) -> str:
        return shim_plan.path_of(self._ways.tables.get(pair.ends), pair.port)

    def _count(self, senders: Sequence[Sender]) -> None:
        moves = {
            (one.pid, pair.device, pair.qpn): pair.moves for one in senders for pair in one.pairs
        }
        self.moved += sum(
            max(0, count - self._moves.get(key, count)) for key, count in moves.items()
        )
        self._moves = moves
