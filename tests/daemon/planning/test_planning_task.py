"""The part: weights of jobs, and what status and `hostcc plan` are told."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.gossip import GossipConfig
from hostcc.config.sections.job import JobRequest
from hostcc.config.sections.marking import MarkingConfig
from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.agreement_status import AgreementStatus
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.planning.planning_task import Planning
from hostcc.errors import HostccError
from hostcc.mltcp.params import Mode
from hostcc.system import malloc
from tests.daemon.planning.made import HeldSnapshot, contended, made, standing
from tests.daemon.profiling.hosts import OWN, ToyHost

pytestmark = pytest.mark.unit

CONFIG = Config(agent=OWN, gossip=GossipConfig(enabled=True))


class World:
    """A host with jobs a (its owner wishes 3) and c, and a member that stands somewhere."""

    name = "here"

    def __init__(self, folder: Path) -> None:
        self.host = ToyHost(folder, CONFIG)
        self.table = self.host.act()
        self.table.register("a", JobRequest(weight=3.0), os.getpid())
        self.table.register("c", JobRequest(), os.getpid())
        self.now = 0.0
        self.standing: AgreementStatus | None = standing(made())
        self.released: list[float] = []
        self.plans = PlanStore(self.host, self, lambda: self.now)
        self.part = Planning(
            self.host, self.plans, lambda: self.now, lambda: self.released.append(self.now)
        )

    def agreement(self) -> AgreementStatus | None:
        return self.standing

    def configure(self, **sections: Any) -> None:
        self.host.config = msgspec.structs.replace(self.host.config, **sections)

    def tick(self) -> None:
        asyncio.run(self.part.tick())

    def weights(self) -> dict[str, float]:
        found = {job.name: job.params for job in self.table.jobs.values()}
        return {name: params.weight for name, params in found.items() if params is not None}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_weights_follow_the_plan_and_come_back(world: World) -> None:
    world.tick()
    assert world.weights() == {"a": 6.0, "c": 1.0}
    change = world.host.journal.active["job-sockets:a"]
    assert (change.why, change.after["weight"]) == ("plan of view d", 6.0)  # type: ignore[index]
    world.standing = standing(made("e", first="b"))
    world.tick()
    assert world.weights()["a"] == 1.5
    world.standing = None
    world.tick()
    assert world.weights() == {"a": 3.0, "c": 1.0}
    assert world.host.journal.active["job-sockets:a"].why == "no plan holds"


def test_memory_goes_back_once_when_a_plan_has_been_there_for_a_while(world: World) -> None:
    for world.now in (0.0, 4.0, 6.0, 8.0):
        world.standing = standing(made(), at=world.now)
        world.tick()
    assert world.released == [6.0]
    for world.now in (9.0, 13.0, 15.0):
        world.standing = standing(made("e"), at=world.now)
        world.tick()
    assert world.released == [6.0, 15.0]


def test_of_large_plans_only_the_first_is_followed_by_a_release(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(malloc, "KEEP_FROM_JOBS", 1)
    for world.now, digest in ((0.0, "d"), (6.0, "d"), (7.0, "e"), (15.0, "e")):
        world.standing = standing(made(digest), at=world.now)
        world.tick()
    assert world.released == [6.0]


def test_who_meets_nobody_is_told(world: World) -> None:
    world.standing = standing(replace(made(), alone=frozenset("c")))
    world.tick()
    assert world.table.preference.alone == {"c"}
    world.standing = None
    world.tick()
    assert world.table.preference.alone == set()


def test_jobs_with_a_mark_of_their_own_meet_nobody_in_a_queue(world: World) -> None:
    world.tick()
    assert world.table.preference.alone == set()
    world.configure(marking=MarkingConfig(enabled=True))
    world.tick()
    assert world.table.preference.alone == {"a"}  # b has the mark of c, which may be anywhere
    world.configure(marking=MarkingConfig())
    world.tick()
    assert world.table.preference.alone == set()


def test_jobs_that_come_later_get_theirs(world: World) -> None:
    world.tick()
    world.table.register("b", JobRequest(), os.getpid())
    assert world.weights()["b"] == 0.5


def test_stopping_gives_the_owners_weights_back(world: World) -> None:
    world.tick()
    world.part.stop()
    assert world.weights()["a"] == 3.0


def test_a_static_weight_is_left_alone(world: World) -> None:
    world.table.share(Mode.STATIC, {"a": 5.0}, "test")
    world.tick()
    (params,) = [job.params for job in world.table.jobs.values() if job.name == "a"]
    assert params is not None
    assert (params.static_weight, params.weight) == (5.0, 3.0)


def test_a_plan_that_is_too_old_is_none(world: World) -> None:
    world.tick()
    assert world.plans.plan() is not None
    world.now = 29.0
    assert world.plans.plan() is not None
    world.now = 31.0
    assert world.plans.plan() is None


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ({"plan": PlanConfig(enabled=False)}, "plan.enabled is false"),
        ({"gossip": GossipConfig()}, "gossip.enabled is false"),
    ],
)
def test_configured_away(world: World, section: dict[str, Any], why: str) -> None:
    world.configure(**section)
    assert (world.part.disabled_reason(), world.plans.plan()) == (why, None)
    with pytest.raises(HostccError, match=why):
        world.part.answer("a")


def test_what_status_shows(world: World) -> None:
    world.configure(marking=MarkingConfig(enabled=True))
    world.tick()
    world.now = 2.0
    block = world.part.view().block
    assert (block.follows, block.reason, block.agreed) == ("d", None, True)
    assert (block.in_force_s, block.age_s) == (2.0, 0.0)
    job, blind = block.jobs
    assert (job.name, job.rank, job.dscp) == ("a", 0, 40)
    assert (job.weight, job.factor) == (6.0, 2.0)
    assert (blind.name, blind.dscp, blind.factor) == ("c", 32, 1.0)
    world.standing = standing(None)
    block = world.part.view().block
    assert (block.follows, block.reason) == (None, "no view is active yet")
    assert block.jobs == ()


def test_what_plan_answers(world: World) -> None:
    answer = world.part.answer("b")
    assert [one.job for one in answer.jobs] == ["a", "b", "c"]
    assert answer.explanation is not None
    assert answer.explanation.contenders[0].job == "a"
    assert msgspec.json.encode(answer)
    with pytest.raises(HostccError, match="no job 'nobody' among the 3"):
        world.part.answer("nobody")
    world.standing = None
    answer = world.part.answer(None)
    assert (answer.digest, answer.jobs, answer.state.held) == ("", (), None)
    with pytest.raises(HostccError, match="no plan: this host does not gossip"):
        world.part.answer("a")


def test_what_links_and_view_answer(world: World) -> None:
    answer = asyncio.run(world.part.links(None, 10, every=False))
    assert (answer.digest, answer.total) == ("d", 1)
    assert [one.job for one in answer.links[0].sharing] == ["a", "b"]
    assert msgspec.json.encode(answer)
    view = asyncio.run(world.part.exported())
    assert (view.digest, view.in_force) == ("d", True)
    with pytest.raises(HostccError, match="no job 'x' among the 3"):
        asyncio.run(world.part.links("x", 10, every=False))
    world.standing = standing(None, snapshot=HeldSnapshot(contended("held")))  # not planned yet
    view = asyncio.run(world.part.exported())
    assert (view.digest, view.in_force) == ("held", False)
    world.standing = standing(None)
    for answered in (world.part.exported(), world.part.links(None, 1, every=True)):
        with pytest.raises(HostccError, match="no view is active yet"):
            asyncio.run(answered)


def test_figures_of_the_cluster_come_after_a_while_and_go_with_the_plan(world: World) -> None:
    async def play() -> None:
        await world.part.tick()
        working = world.part._figures._working
        assert working is not None
        await working
        found = world.part.view().block.cluster
        assert found is not None
        assert found.at_risk == 2
        world.standing = None
        assert world.part.view().block.cluster is None

    asyncio.run(play())


def test_an_observer_shows_the_plan_too(world: World) -> None:
    world.host.engine = None
    world.tick()
    assert world.part.view().block.follows == "d"
