"""Queue pairs leave a failed path ahead of a plan, and one that is worse than what they had."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.rdma import path_source, shim_plan
from hostcc.daemon.rdma.pairs import Pair, Sender
from hostcc.daemon.rdma.path_doubts import STANDS
from hostcc.daemon.rdma.path_tables import PathTables
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute
from hostcc.daemon.rdma.route_failover import AHEAD, RouteFailover
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.model import ClusterView, JobProfile, PathTable
from hostcc.model import Path as Way
from hostcc.paths.packets import UDP, Target
from hostcc.schedule.plan import Options, solve_for_agents
from hostcc.schedule.plan_writer import write_plan
from hostcc.verbs import plan_region as shared
from tests.daemon.rdma.test_plan_publisher import PORTS, Stage, stage, two_jobs
from tests.daemon.rdma.world import HERE, RATE, THERE

__all__ = ["stage"]
pytestmark = [pytest.mark.unit, pytest.mark.slow]


def the_hosts(stage: Stage) -> PlanResult:
    """The plan of a cluster in which nobody else sends."""
    told = stage.part.shared
    links = {link for table in told.tables.values() for path in table.paths for link in path.links}
    view = ClusterView(
        tuple(JobProfile(one.job, 0.1, 0.1, 1e12, 1.0) for one in told.flows),
        tuple(replace(one, id=f"me/{one.id}") for one in told.flows),
        tuple(told.tables.values()),
        tuple((link, RATE) for link in sorted(links)),
    )
    solution = solve_for_agents(view, Options())
    return PlanResult(write_plan(view.digest, solution), solution, tables=view.tables)


@pytest.mark.parametrize("sign", ["a look", "it stands still"])
def test_a_failed_path_is_left_for_the_prepared_one_before_there_is_a_plan(
    stage: Stage, sign: str
) -> None:
    """The hosts' plan stays as it was, and a search for all paths has not ended."""
    two_jobs(stage)
    stage.network.ways = ["left", "right"]
    counter = stage.world.sysfs / "mlx5_0/ports/1/hw_counters/out_of_sequence"
    counter.parent.mkdir()
    counter.write_text("7\n")
    stage.part.start()

    async def scene() -> None:
        await stage.until(lambda: len(stage.part.shared.flows) == 2)
        stage.plans.result = the_hosts(stage)
        planned = {one.path for one in stage.plans.result.plan.flows}
        assert planned == {"left", "right"}
        await stage.until(lambda: stage.part.view().prepared > 0)
        before = {job: stage.told().ports(job) for job in ("a", "b")}
        assert set(before.values()) == {PORTS["left"], PORTS["right"]}
        (victim,) = (job for job, ports in before.items() if ports == PORTS["left"])
        (other,) = {"a", "b"} - {victim}
        if sign == "a look":
            stage.network.dead = {"left"}
            stage.network.ready.clear()
            stage.sending[victim][0].errors += 1
            await stage.until(lambda: stage.told().ports(victim) != PORTS["left"])
        else:
            stage.sending[victim][0].open_at = stage.world.now
            await stage.seconds(2)
            assert stage.told().ports(victim) == PORTS["left"]  # it may only poll late
            counter.write_text("8\n")
            await stage.seconds(1)
        assert stage.told().ports(victim) == stage.told().ports(other) == PORTS["right"]
        shown = stage.part.view()
        assert shown.ahead == 1
        assert {row.job: row.elsewhere for row in shown.rdma}[victim] == {THERE: AHEAD}
        assert stage.world.host.journal.active[f"rdma-job:{victim}"].why == f"{THERE}: {AHEAD}"

        stage.network.ready.set()

    asyncio.run(scene())
    stage.part.stop()
    assert stage.part.view().ahead == 0


def test_a_path_worse_than_what_the_job_had_is_left_for_a_time(stage: Stage) -> None:
    two_jobs(stage)
    stage.network.ways = []
    stage.part.start()

    def entry() -> Any:
        return stage.told().jobs["a"].path[0]

    async def scene() -> None:
        await stage.seconds(6)
        stage.network.ways = ["left", "right"]
        await stage.until(lambda: bool(stage.told().ports("a")))
        assert stage.told().ports("a") in PORTS.values()
        await stage.seconds(3)
        assert stage.part.view().fell_back == 0
        stage.message_s = 0.1
        await stage.seconds(3)
        assert (entry().count, entry().flags) == (0, shared.BACK)
        shown = stage.part.view()
        assert shown.fell_back == 2
        why = "went back: a message 100.0 ms instead of 1.0 ms"
        assert shown.rdma[0].elsewhere == {THERE: why}
        assert shown.rdma[0].told is not None
        assert shown.rdma[0].told.ports == f"{THERE}: as it had"
        assert stage.world.host.journal.active["rdma-job:a"].why == f"{THERE}: {why}"
        stage.message_s = 0.001
        await stage.seconds(20)
        assert entry().count == 0
        await stage.seconds(15)
        assert stage.told().ports("a") in PORTS.values()

    asyncio.run(scene())
    stage.part.stop()


class Fabric:
    """Paths there and one back, as looks at them see them."""

    def __init__(self, *ways_there: str) -> None:
        self.now, self.again, self.alive = 10.0, 1, set(ways_there)
        self.ways = PathTables(lambda: self.now)
        self.ways.check = self.left
        self.failover = RouteFailover(self.ways, lambda: self.now)
        for src, dst in ((HERE, THERE), (THERE, HERE)):
            self.tables(src, dst, *(ways_there if src == HERE else ("back",)))

    def tables(self, src: str, dst: str, *names: str) -> None:
        ways = [Way(name, (f"{src}>", f">{name}", f">{dst}"), (50000 + (name == "right"),))
                for name in names]  # fmt: skip
        table = self.ways.tables[src, dst] = PathTable(src, dst, tuple(ways))
        known = self.ways.known.setdefault((src, dst), TargetPaths(Target(src, dst, UDP)))
        known.take(table, 1.0, self.now, "")
        self.ways._due[src, dst] = 1e9

    def left(self, table: PathTable, *, quick: bool = False) -> PathTable | None:
        return path_source.left(table, {*self.alive, "back"})

    def prepare(self, routes: Sequence[QueuePairRoute]) -> None:
        self.failover.follow(None, "", None, routes)
        prepared = {frozenset({">left"}): {one.flow: "right" for one in routes}}
        self.failover._own.prepared = prepared

    async def glance(self) -> None:
        """Let the paths be looked at that are in doubt."""
        self.ways.want(self.ways.tables.keys(), 60.0)
        await asyncio.gather(*self.ways._looks.values())

    def look(self, open_at: Mapping[QueuePairRoute, float]) -> None:
        """All are on port 50000, as they were told."""
        senders = [
            Sender(one.job, at, 0, 0, (Pair(7, one.device, 1, one.source, one.destination, 50000,
                                            0, 1, 0, 0, open_at=since),))
            for at, (one, since) in enumerate(open_at.items())
        ]  # fmt: skip
        told = {(one.job, one.destination): shim_plan.ShimRoute("", (50000,)) for one in open_at}
        self.failover.look(senders, {"mlx5_0": self.again}, {}, told, PathsConfig())


def test_a_job_that_stands_still_moves_no_other() -> None:
    """Its counters are its own word; a look of the agent's own moves all that are cut off."""
    fabric = Fabric("left", "right")
    routes = [QueuePairRoute(job, "mlx5_0", HERE, THERE) for job in ("a", "b")]
    fabric.prepare(routes)
    fabric.look({routes[0]: 9.5, routes[1]: 0.0})
    fabric.now, fabric.again = 11.0, 2
    fabric.look({routes[0]: 9.5, routes[1]: 0.0})
    assert fabric.failover.ahead == {routes[0]: "right"}
    fabric.tables(HERE, THERE, "right")
    fabric.failover.follow(None, "", None, routes)
    assert fabric.failover.ahead == dict.fromkeys(routes, "right")


def test_a_quick_look_moves_what_stands_still_and_nothing_else() -> None:
    """Nothing was sent again yet; a quick look may be wrong."""
    fabric = Fabric("left", "right")
    routes = [QueuePairRoute(job, "mlx5_0", HERE, THERE) for job in ("a", "b")]
    fabric.prepare(routes)
    fabric.alive = {"right"}
    fabric.look({routes[0]: 9.2, routes[1]: 0.0})
    assert not fabric.failover.ahead  # it may only poll late
    asyncio.run(fabric.glance())
    fabric.failover.follow(None, "", None, routes)
    assert fabric.failover.ahead == {routes[0]: "right"}
    assert not fabric.ways.known[HERE, THERE].gone
    fabric.look({routes[0]: 10.0, routes[1]: 10.0})  # it went on since the look
    assert fabric.failover.ahead == {routes[0]: "right"}  # till the next plan


def test_a_quick_look_that_all_paths_answer_moves_nothing() -> None:
    fabric = Fabric("left", "right")
    (route,) = routes = [QueuePairRoute("a", "mlx5_0", HERE, THERE)]
    fabric.prepare(routes)
    fabric.look({route: 9.2})
    asyncio.run(fabric.glance())
    fabric.failover.follow(None, "", None, routes)
    assert not fabric.failover.ahead


@pytest.mark.parametrize("alive", [True, False])
def test_what_waits_for_acknowledgements_stays_where_its_path_answers(*, alive: bool) -> None:
    """The other way has failed, which this end cannot see; what it had may be worse."""
    fabric = Fabric("left")
    if not alive:
        fabric.alive.clear()
    (route,) = routes = [QueuePairRoute("a", "mlx5_0", HERE, THERE)]
    fabric.failover.follow(None, "", None, routes)
    fabric.look({route: 9.5})
    fabric.now, fabric.again = 11.0, 2
    fabric.look({route: 9.5})
    assert fabric.failover.fell_back == 0  # nobody has looked at the path yet
    asyncio.run(fabric.ways._find((HERE, THERE), doubtful=True, whole=False))
    fabric.now, fabric.again = 12.0, 3
    fabric.look({route: 9.5})
    assert fabric.failover.held == ({} if alive else {route: f"went back: {STANDS}"})
    assert fabric.failover.fell_back == (not alive)


def test_moves_of_two_devices_with_queue_pairs_of_one_number() -> None:
    """Each device numbers its own."""
    failover = RouteFailover(PathTables(lambda: 10.0), lambda: 10.0)

    def look(*moves: int) -> int:
        pairs = tuple(
            Pair(7, device, 1, HERE, THERE, 0, 0, 1, count, 0)
            for device, count in zip(("mlx5_0", "mlx5_1"), moves, strict=True)
        )
        failover.look([Sender("a", 1, 0, 0, pairs)], {}, {}, {}, PathsConfig())
        return failover.moved

    assert look(0, 0) == 0
    assert look(1, 0) == 1
    assert look(1, 0) == 1
    assert look(1, 2) == 3
