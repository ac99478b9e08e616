"""Queue pairs leave a failed path ahead of a plan, and one that is worse than what they had."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.rdma.pairs import Pair, Sender
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


def test_a_job_that_stands_still_moves_no_other() -> None:
    """Its counters are its own word; a look of the agent's own moves all that are cut off."""
    now = [10.0]
    ways = PathTables(lambda: now[0])
    paths = [Way(name, (f"{HERE}>", f">{name}", f">{THERE}"), (port,))
             for name, port in (("left", 50000), ("right", 50001))]  # fmt: skip
    both = PathTable(HERE, THERE, tuple(paths))
    ways.tables[HERE, THERE] = both
    known = ways.known[HERE, THERE] = TargetPaths(Target(HERE, THERE, UDP))
    known.take(both, 1.0, now[0], "")
    failover = RouteFailover(ways, lambda: now[0])
    routes = [QueuePairRoute(job, "mlx5_0", HERE, THERE) for job in ("a", "b")]
    failover.follow(None, "", None, routes)
    failover._own.prepared = {frozenset({">left"}): {one.flow: "right" for one in routes}}

    def look(again: int) -> None:
        senders = [
            Sender(one.job, at, 0, 0, (Pair(7, one.device, 1, HERE, THERE, 50000, 0, 1, 0, 0,
                                            open_at=9.5 if one.job == "a" else 0.0),))
            for at, one in enumerate(routes)
        ]  # fmt: skip
        failover.look(senders, {"mlx5_0": again}, {}, {}, PathsConfig())

    look(1)
    now[0] = 11.0
    look(2)
    assert failover.ahead == {routes[0]: "right"}
    known.take(replace(both, paths=both.paths[1:]), 1.0, now[0], "")
    failover.follow(None, "", None, routes)
    assert failover.ahead == dict.fromkeys(routes, "right")
