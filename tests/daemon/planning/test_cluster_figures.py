"""Figures of the cluster: worked out in a thread, seldom, and gone with the plan."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from hostcc.answers.links import ProfilingTurn
from hostcc.daemon.planning import cluster_figures
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.planning.cluster_figures import REFRESH_S, ClusterFigures
from tests.daemon.planning.made import made
from tests.schedule.views import job

pytestmark = pytest.mark.unit


class World:
    """Figures, and a clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.figures = ClusterFigures(lambda: self.now)

    async def follow(self, result: PlanResult | None, *, period_s: float = 0.0) -> None:
        self.figures.follow(result, "a", {"a": job("a", period_s=period_s)}.get)
        if (working := self.figures._working) is not None:
            await working


def test_a_plan_has_figures_and_none_has_none() -> None:
    async def play() -> None:
        world = World()
        assert world.figures.latest() is None
        await world.follow(made())
        world.now += 3.0
        found = world.figures.latest()
        assert found is not None
        assert (found.age_s, found.predicted_jobs, found.measured_jobs) == (3.0, 2, 0)
        assert found.predicted is not None
        assert found.predicted < 1.0  # two jobs that send two thirds of the time
        assert (found.measured, found.by_work) == (None, True)
        assert (found.at_risk, found.relieved) == (2, 1)
        assert [(one.link, one.jobs) for one in found.links] == [("link", 2)]
        await world.follow(None)
        assert world.figures.latest() is None

    asyncio.run(play())


def test_what_is_measured_is_looked_at_again_and_again() -> None:
    async def play() -> None:
        world, plan = World(), made()
        await world.follow(plan)
        world.now += REFRESH_S / 2
        await world.follow(plan, period_s=6.0)
        found = world.figures.latest()
        assert found is not None
        assert found.measured is None  # not due yet
        world.now += REFRESH_S / 2
        await world.follow(plan, period_s=6.0)
        found = world.figures.latest()
        assert found is not None
        assert (found.measured, found.measured_jobs) == (0.5, 1)

    asyncio.run(play())


def test_what_a_profiling_turn_cost_the_others() -> None:
    async def play() -> None:
        world, plan = World(), made()
        for job_name, lost in (("b", True), ("a", False), ("c", None)):
            turn = ProfilingTurn(job=job_name, length_s=10.0)
            world.figures.follow(plan, "a", lambda _: None, turn)
            assert world.figures._working is not None
            await world.figures._working
            found = world.figures.latest()
            assert found is not None
            assert found.turn is not None
            assert (found.turn.job, found.turn.length_s) == (job_name, 10.0)
            if lost is None:  # its paths are unknown
                assert (found.turn.lost_s, found.turn.lost_share) == (None, None)
            else:
                assert found.turn.lost_s is not None
                assert found.turn.lost_share is not None
                assert (found.turn.lost_s > 0, found.turn.lost_share > 0) == (lost, lost)
                assert found.turn.lost_s < 10.0
            world.now += REFRESH_S

    asyncio.run(play())


def test_a_plan_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[PlanResult] = []
    before = cluster_figures.of_plan

    def counted(result: PlanResult, host: str) -> cluster_figures.PlanFigures:
        seen.append(result)
        return before(result, host)

    monkeypatch.setattr(cluster_figures, "of_plan", counted)

    async def play() -> None:
        world, plan, other = World(), made(), made("e")
        for result in (plan, plan, other):
            await world.follow(result)
            world.now += REFRESH_S
        assert seen == [plan, other]

    asyncio.run(play())


def test_a_plan_that_is_not_in_force_any_more_is_not_kept() -> None:
    async def play() -> None:
        world, plan = World(), made()
        gone = weakref.ref(plan)
        await world.follow(plan)
        latest = world.figures.latest()
        del plan
        assert gone() is not None  # it has been looked at, and is again
        world.figures.follow(made(), "a", lambda _: None)  # long before that is due
        gc.collect()
        assert gone() is None
        assert world.figures.latest() == latest

    asyncio.run(play())


def test_figures_that_take_long_come_seldom() -> None:
    async def play() -> None:
        world = World()
        ticks = iter([100.0, 100.0, 101.0])
        world.figures = ClusterFigures(lambda: next(ticks, world.now))
        await world.follow(made())
        world.now = 101.0 + REFRESH_S
        assert world.figures._due == 201.0

    asyncio.run(play())


def test_a_defect_is_logged_and_the_last_figures_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        world, plan = World(), made()
        await world.follow(plan)
        last = world.figures.latest()
        world.now += REFRESH_S
        monkeypatch.setattr(cluster_figures, "with_measured", None)
        await world.follow(plan)
        now = world.figures.latest()
        assert last is not None
        assert now is not None
        assert (now.predicted, now.age_s) == (last.predicted, REFRESH_S)

    asyncio.run(play())
