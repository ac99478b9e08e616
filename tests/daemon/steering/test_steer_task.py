"""The steering part: what it has done with flows, on a kernel that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.gossip import GossipConfig
from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.changes import path_kinds
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.steering import steer_task as module
from hostcc.daemon.steering.elephants import Connection, Elephant, flow_id
from hostcc.daemon.steering.flow_health import MAX_TAKEN
from hostcc.daemon.steering.nics import Nic
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.daemon.steering.steer_task import WAIT_S, SteerTask
from hostcc.daemon.steering.steering_state import SteeringState, target_of
from hostcc.model import Difference, FlowPlan, JobProfile, PathTable, Plan
from hostcc.model import Path as Way
from hostcc.paths.steering_messages import FlowKey
from hostcc.paths.steering_protocol import PORT_TAKEN
from tests.daemon.declared import check_declared
from tests.daemon.planning.made import ToyPlans
from tests.daemon.profiling.hosts import OWN, ToyHost

pytestmark = [pytest.mark.unit, pytest.mark.asyncio]

WALL_S = 1_750_000_000.0
"""What the wall clock says, for as long as a test takes."""
KEY = FlowKey("10.0.0.1", "10.0.0.2", 40000, 5301)
PATHS = PathsConfig(enabled=True, connect=False, plan_age_s=5.0, bad_s=1.0)


class Sender:
    """Moves at once, unless it `refuses`, for a reason or because of some ports."""

    def __init__(self) -> None:
        self.ports: dict[FlowKey, int] = {}
        self.refusals: dict[FlowKey, str] = {}
        self.refuses = ""
        self.others = set[int]()

    def active(self, flow: FlowKey) -> int:
        return self.ports.get(flow, 0)

    def moving(self, _: FlowKey) -> bool:
        return False

    def free(self, _: FlowKey, port: int) -> bool:
        return port not in self.ports.values()


class Steering:
    def __init__(self) -> None:
        self.sender = Sender()
        self.gone: list[str] = []

    def move_times(self) -> dict[str, float]:
        return {}

    def by_label(self, _: FlowKey) -> bool:
        return False

    def active(self, flow: FlowKey) -> int:
        return self.sender.active(flow)

    def free(self, flow: FlowKey, port: int) -> bool:
        return self.sender.free(flow, port)

    def tick(self) -> None:
        pass

    def move(self, flow: FlowKey, host: str, port: int) -> None:
        assert host == "b"
        if self.sender.refuses:
            self.sender.refusals[flow] = self.sender.refuses
        elif port in self.sender.others:
            self.sender.refusals[flow] = f"{PORT_TAKEN} another flow"
        else:
            self.sender.ports[flow] = port

    def revert(self, flow: FlowKey) -> None:
        self.sender.ports.pop(flow, None)

    def peer_gone(self, host: str) -> None:
        self.gone.append(host)
        self.sender.ports.clear()


class Hooked:
    def __init__(self, _: PathsConfig, devices: list[str], *rest: object) -> None:
        self.devices = tuple(devices)
        self.steering = Steering()
        self.kernel = SimpleNamespace(arriving=list, strays=dict)
        self.odd: list[Difference] = []
        self.ended: list[bool] = []

    async def up(self) -> None:
        pass

    def check(self) -> list[Difference]:
        return self.odd

    def forget_unused(self) -> None:
        pass

    async def down(self, say_goodbye: Callable[[], None], *, keep: bool = False) -> list[str]:
        say_goodbye()
        self.ended.append(keep)
        return []


class Cluster:
    def __init__(self) -> None:
        self.name = "a"
        self.dead = False
        self.topics: dict[str, Any] = {}

    def owners(self) -> dict[str, str]:
        return {"10.0.0.1": "a", "10.0.0.2": "b"}

    def gone(self, _: str, __: float) -> bool:
        return self.dead

    def listen(self, topic: str, hear: Any) -> None:
        self.topics[topic] = hear

    def send(self, *_: object) -> bool:
        return True

    def flush(self) -> None:
        pass


class Scene:
    """One flow, whose own port takes p1; time is the scene's."""

    def __init__(self, folder: Path) -> None:
        gossip = GossipConfig(enabled=True, keys="")
        self.host = ToyHost(folder, Config(agent=OWN, gossip=gossip, paths=PATHS))
        self.host.act()
        self.now, self.cluster, self.doubts = 100.0, Cluster(), list[str]()
        self.in_force = ToyPlans()
        self.known: JobProfile | None = None
        self.picture = SteeringState(nics=(Nic("eth0", ("10.0.0.1",), 1e9),))
        known = self.picture.known.setdefault(target_of(KEY), TargetPaths(target_of(KEY)))
        ways = (Way("p1", ("x", "y"), (40000, 61000)), Way("p2", ("x", "z"), (61001,)))
        known.take(PathTable("10.0.0.1", "10.0.0.2", ways), 1.0, self.now, "")
        self.sees()
        finding = SimpleNamespace(doubt=lambda _, reason: self.doubts.append(reason))
        self.part = SteerTask(
            self.host, cast("Any", self.cluster), cast("Any", finding), self.picture,
            self.in_force, cast("Any", self),
        )  # fmt: skip

    def latest(self, job: str) -> JobProfile | None:
        return self.known if self.known is not None and self.known.job == job else None

    def sees(self, srtt_s: float = 0.001, segments: int = 10**6, again: int = 0) -> None:
        one = Connection("train", KEY, 10**9, srtt_s, 0.001, segments, again, 0)
        self.picture.elephants = {KEY: Elephant(one, "b", 1e7)}
        self.picture.surveys += 1

    def knows(self, begins_s: float) -> None:
        """Of the job: 1 s iterations, the next of which begins so much later, half silent."""
        at = WALL_S
        known = JobProfile(
            "train", 0.5, 0.5, 1.0, 8.0, period_s=1.0, phase_s=at + begins_s, at=at, confidence=0.9
        )
        self.known = known

    def plans(self, path: str, digest: str = "d", *, stays: bool = False) -> None:
        """`stays`: it was there in the plan's view."""
        flow = f"a/{flow_id(KEY)}"
        still = frozenset({flow} if stays else ())
        plan = Plan(digest, flows=(FlowPlan(flow, path),))
        self.in_force.result = PlanResult(plan, cast("Any", None), stays=still)

    @property
    def hooked(self) -> Hooked:
        return cast("Hooked", self.part._hooked)

    @property
    def port(self) -> int:
        return self.hooked.steering.sender.active(KEY)

    @property
    def why(self) -> str:
        return self.part.states()[KEY].why

    async def passes(self, seconds: float) -> None:
        """Time that the loop's timers notice, too: it is the scene's."""
        self.now += seconds
        for _ in range(3):
            await asyncio.sleep(0)

    async def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds
        await self.part.tick()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path)
    monkeypatch.setattr(module, "KernelHooks", Hooked)
    monkeypatch.setattr("hostcc.daemon.steering.steer_task.time.monotonic", lambda: made.now)
    monkeypatch.setattr("hostcc.daemon.steering.steer_task.time.time", lambda: WALL_S)
    monkeypatch.setattr("hostcc.daemon.steering.steer_task.reserve.in_use", lambda *_: set())
    monkeypatch.setattr(made.part._ahead, "follow", lambda *_: None)
    made.part.start()
    yield made
    asyncio.run(made.part.stop())


async def test_a_flow_follows_the_plan_and_back(scene: Scene) -> None:
    await scene.tick()
    await scene.tick()
    assert (scene.port, scene.why) == (0, "the plan does not name it")
    scene.plans("p2")
    await scene.tick()
    assert scene.port == 61001
    await scene.tick()
    assert scene.picture.path_of(KEY) == "p2"
    assert scene.part.view().moved == scene.part.view().on_planned_paths == 1
    check_declared(scene.part)
    scene.plans("p1", "e")
    await scene.tick()
    assert scene.port == 0
    assert scene.part.view().on_planned_paths == 1


async def test_a_plan_of_a_view_before_the_move_does_not_undo_it(scene: Scene) -> None:
    await moved(scene)
    scene.plans("p1", "e", stays=True)
    await scene.tick()
    await scene.tick()
    assert scene.port == 61001
    assert scene.part.view().elsewhere == 1
    assert scene.why == "the plan before this one has moved it"
    scene.plans("p2", "f", stays=True)
    await scene.tick()
    assert (scene.port, scene.part.view().on_planned_paths) == (61001, 1)


async def test_a_flow_that_was_hashed_elsewhere_is_brought_back(scene: Scene) -> None:
    """The same ports lead to other paths now; the plan's view was told before."""
    await moved(scene)
    scene.plans("p2", "e", stays=True)
    await scene.tick()
    ways = (Way("p1", ("x", "y"), (61001,)), Way("p2", ("x", "z"), (40000, 61000)))
    known = scene.picture.known[target_of(KEY)]
    known.take(PathTable("10.0.0.1", "10.0.0.2", ways), 1.0, scene.now, "")
    await scene.tick()
    assert scene.port == 0  # its own leads there
    assert scene.part.view().on_planned_paths == 1


async def moved(scene: Scene) -> None:
    scene.plans("p2")
    for _ in range(3):
        await scene.tick()
    assert scene.port == 61001


async def test_a_move_waits_for_a_pause(scene: Scene) -> None:
    scene.knows(0.1)
    scene.plans("p2")
    await scene.tick()
    await scene.tick()
    assert scene.part.view().waiting == scene.part.view().moving == 1
    assert scene.port == 0
    await scene.passes(0.2)
    assert (scene.port, scene.part.view().waiting) == (61001, 0)
    await scene.tick()
    assert scene.part.view().moved == 1


async def test_what_waits_does_not_move_once_the_plan_says_otherwise(scene: Scene) -> None:
    scene.knows(0.1)
    scene.plans("p2")
    await scene.tick()
    await scene.tick()
    scene.plans("p1", "e")
    await scene.tick()
    assert scene.part.view().waiting == 0
    await scene.passes(0.2)
    await scene.tick()
    assert (scene.port, scene.part.view().refused) == (0, 0)


async def test_what_has_failed_is_left_without_a_wait(scene: Scene) -> None:
    scene.knows(0.1)
    scene.picture.stalled = frozenset({KEY})
    scene.plans("p2")
    await scene.tick()
    await scene.tick()
    assert scene.port == 61001


async def test_without_a_plan_it_goes_back_after_a_while(scene: Scene) -> None:
    await moved(scene)
    scene.in_force.result = None
    await scene.tick(3.0)
    assert scene.port == 61001
    await scene.tick(3.0)
    assert scene.port == 0
    assert "old" in scene.why


async def test_a_flow_that_fares_badly_goes_back_and_its_paths_are_doubted(scene: Scene) -> None:
    await moved(scene)
    for step in range(3):
        scene.sees(srtt_s=0.5, segments=10**6 + step)
        await scene.tick()
    assert scene.port == 0
    assert scene.why.startswith("went back: RTT 500")
    assert scene.doubts
    await scene.tick(10.0)
    assert scene.port == 0
    scene.sees()
    await scene.tick(25.0)
    assert scene.port == 61001


async def test_what_it_lost_before_is_no_fault_of_the_path(scene: Scene) -> None:
    segments, again = 10**6, 0
    for step in range(6):
        scene.plans("p2" if step > 1 else "p1")
        segments, again = segments + 1000, again + 50
        scene.sees(segments=segments, again=again)
        await scene.tick()
    assert scene.port == 61001
    for _ in range(4):
        segments, again = segments + 1000, again + 80
        scene.sees(segments=segments, again=again)
        await scene.tick()
    assert scene.port == 0
    assert scene.why == "went back: 8.0 % of the segments sent again"


async def test_a_flow_that_stands_still_goes_back_at_once(scene: Scene) -> None:
    await moved(scene)
    scene.picture.stalled = frozenset({KEY})
    await scene.tick()
    assert scene.port == 0
    assert "nothing is acknowledged" in scene.why


@pytest.mark.parametrize("how", ["dead", "goodbye", "closed"])
async def test_it_goes_back_when_the_other_end_is_gone(scene: Scene, how: str) -> None:
    await moved(scene)
    if how == "dead":
        scene.cluster.dead = True
    elif how == "goodbye":
        scene.cluster.topics["steerbye"]("b", b"")
        assert scene.hooked.steering.gone == ["b"]
        assert scene.port == 0
        return
    else:
        scene.picture.elephants = {}
    await scene.tick()
    assert scene.port == 0


async def test_a_move_that_is_refused_is_tried_again_later(scene: Scene) -> None:
    await scene.tick()
    scene.hooked.steering.sender.refuses = "too many flows"
    scene.plans("p2")
    for _ in range(2):
        await scene.tick(0.6)
    assert scene.why == "too many flows"
    assert scene.part.view().refused == 1
    scene.hooked.steering.sender.refuses = ""
    await scene.tick(2.0)
    assert scene.port == 61001


async def test_a_port_that_is_anothers_at_the_other_end_is_passed_over(scene: Scene) -> None:
    """As after a restart, when the other end still translates the port for an earlier flow."""
    await scene.tick()
    ports = tuple(range(61001, 61010))
    ways = (Way("p1", ("x", "y"), (40000, 61000)), Way("p2", ("x", "z"), ports))
    known = scene.picture.known[target_of(KEY)]
    known.take(PathTable("10.0.0.1", "10.0.0.2", ways), 1.0, scene.now, "")
    others = scene.hooked.steering.sender.others
    others |= {61001, 61002}
    scene.plans("p2")
    for _ in range(3):
        assert scene.port == 0
        await scene.tick(0.6)
    assert (scene.port, scene.part.view().refused) == (61003, 2)
    # Not for ever at once: from whoever refuses everything it stays away for a while.
    scene.plans("p1", "e")
    await scene.tick()
    others |= set(ports)
    scene.plans("p2", "f")
    for _ in range(7):
        await scene.tick(0.6)
    assert scene.port == 0
    assert scene.part.view().refused == 2 + MAX_TAKEN + 1
    assert scene.why == f"{PORT_TAKEN} another flow"


async def test_it_stands_aside_for_whoever_undoes_it(scene: Scene) -> None:
    await moved(scene)
    scene.hooked.odd = [Difference("steer-hooks:eth0", "BPF", "attached", "it is gone")]
    await scene.tick(20.0)
    assert scene.part.disabled_reason() == "stands aside: it is gone"
    await scene.part.stop()
    config = msgspec.structs.replace(PATHS, again_s=5.0)
    scene.host.config = msgspec.structs.replace(scene.host.config, paths=config)
    assert scene.part.disabled_reason() == ""


async def test_it_stands_aside_until_the_next_reload(scene: Scene) -> None:
    await moved(scene)
    for _ in range(2):  # a reload of the same file, before and after
        same = msgspec.structs.replace(scene.host.config.paths)
        scene.host.config = msgspec.structs.replace(scene.host.config, paths=same)
        assert scene.part.disabled_reason() == ""
        await scene.tick()
        scene.hooked.odd = [Difference("steer-hooks:eth0", "BPF", "attached", "it is gone")]
        await scene.tick(20.0)
        assert scene.part.disabled_reason() == "stands aside: it is gone"
        await scene.part.stop()
        assert scene.part.disabled_reason() == "stands aside: it is gone"
        same = msgspec.structs.replace(scene.host.config.paths)
        scene.host.config = msgspec.structs.replace(scene.host.config, paths=same)
        assert scene.part.disabled_reason() == ""
        scene.part.start()
        for _ in range(2):
            await scene.tick(WAIT_S)


async def test_another_set_of_devices_has_it_begin_anew(scene: Scene) -> None:
    await moved(scene)
    first = scene.hooked
    scene.picture.nics = (Nic("eth0", ("10.0.0.1",), 1e9), Nic("eth1", ("10.0.1.1",), 1e9))
    await scene.tick()
    assert first.ended == [False]
    await scene.tick()
    assert scene.hooked.devices == ("eth0", "eth1")


async def test_what_was_left_behind_is_undone_where_steering_is_off(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[str] = []

    def clean_up(_: object, how: str) -> list[str]:
        undone.append(how)
        return []

    monkeypatch.setattr(module, "clean_up", clean_up)
    scene.host.journal.begin(path_kinds.hooks("eth0", 1))
    off = msgspec.structs.replace(PATHS, enabled=False)
    scene.host.config = msgspec.structs.replace(scene.host.config, paths=off)
    assert scene.part.disabled_reason() == scene.part.disabled_reason() == "paths.enabled is false"
    assert undone == ["left behind, not wanted"]
