"""DCQCN in the agent: `hostcc unfair static` and mode mltcp, on trees that mirror mlx5's.

Absent hardware: no such NIC is at hand; the trees are files as MLNX_OFED's sysfs shows them.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hostcc.daemon.changes import mechanisms
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.rdma.congestion import Congestion
from hostcc.mltcp import dcqcn
from hostcc.mltcp.dcqcn import Knob
from hostcc.mltcp.dcqcn_knobs import Knobs
from hostcc.mltcp.params import Mode
from tests.daemon.declared import check_declared
from tests.daemon.rdma.world import World
from tests.mltcp.test_dcqcn import PLAIN

pytestmark = pytest.mark.unit


class Stage:
    def __init__(self, folder: Path, mode: str = "static") -> None:
        self.world = World(folder, dcqcn=mode)
        self.tree = folder / "sys/class/net/eth0/ecn/roce_rp"
        self.tree.mkdir(parents=True)
        for knob, value in PLAIN.items():
            (self.tree / f"rpg_{knob}").write_text(f"{value}\n")
        self.knobs = Knobs(folder / "sys", folder / "debug")
        self.world.job("a")
        self.process = self.world.process("a")
        self.part = self.make()

    def make(self) -> Congestion:
        world = self.world
        return Congestion(world.host, world.tracker, self.knobs, lambda: world.now)

    def unfair(self, mode: Mode, **weights: float) -> None:
        self.world.host.engine.table.share(mode, weights, "test")

    def begin(self) -> None:
        assert self.part.disabled_reason() == ""
        self.part.start()

    def tick(self, look: bool = True) -> None:
        if look:
            self.world.now += 2.0
            self.world.tracker.look()
        asyncio.run(self.part.tick())

    def read(self) -> dict[Knob, int]:
        return self.knobs.read("eth0")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_unfair_static_and_back(stage: Stage) -> None:
    """T of the port is what was there divided by the weight, each time."""
    stage.begin()
    stage.tick()
    assert stage.read() == PLAIN  # mode mltcp, and only static is configured
    stage.unfair(Mode.STATIC, a=0.8)
    stage.tick()
    assert stage.read() == PLAIN | {Knob.TIME_RESET: 125}
    change = stage.world.host.journal.active["dcqcn:eth0:time_reset"]
    assert (change.before, change.after) == (100, 125)
    assert stage.part.verify() == []
    assert stage.part.view().set == {"eth0/time_reset": 125}
    check_declared(stage.part)
    stage.unfair(Mode.STATIC, a=2.0)
    stage.tick()
    assert stage.read() == PLAIN | {Knob.TIME_RESET: 50}  # of what was there, not of 125
    stage.unfair(Mode.OFF)
    stage.tick()
    assert stage.read() == PLAIN
    assert "dcqcn:eth0:time_reset" not in stage.world.host.journal.active


def test_mode_mltcp_follows_the_iteration(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "on")
    stage.begin()
    sent = 0
    for iteration in range(1, 5):
        sent += 1000
        stage.process.count(sent, iterations=iteration)
        stage.tick()
    seen = []
    for now in (0, 400, 600, 990):
        stage.process.count(sent + now, iterations=4, now=now)
        stage.tick(look=False)
        seen.append((stage.read()[Knob.AI_RATE], stage.read()[Knob.HAI_RATE]))
    # F of 0.47, 0.91, 1.34, 1.78 in the middle of each step.
    assert seen == [(2, 23), (5, 45), (7, 67), (9, 89)]
    assert stage.part.every_s == 0.05
    assert stage.part.verify() == []
    kinds = [key for key in stage.world.host.journal.active if key.startswith("dcqcn")]
    assert kinds == ["dcqcn:eth0:ai_rate", "dcqcn:eth0:hai_rate"]
    stage.part.stop()
    assert stage.read() == PLAIN


def test_iterations_of_less_than_a_byte(tmp_path: Path) -> None:
    """As a job may say of itself."""
    stage = Stage(tmp_path, "on")
    stage.begin()
    for step in range(1, 4):
        stage.process.count(step, iterations=step * 10**6, now=1)
        stage.tick()
    assert stage.read()[Knob.AI_RATE] > PLAIN[Knob.AI_RATE]  # all of an iteration is sent
    stage.part.stop()
    assert stage.read() == PLAIN


def test_a_port_of_several_jobs_is_left_alone(stage: Stage) -> None:
    stage.world.job("b")
    stage.world.process("b", os.getppid())
    stage.unfair(Mode.STATIC, a=0.8)
    stage.begin()
    stage.tick()
    assert stage.read() == PLAIN
    assert "expected one job, got a, b" in stage.part.view().left_alone["eth0"]


def test_it_stands_aside_when_somebody_else_sets_one(stage: Stage) -> None:
    stage.unfair(Mode.STATIC, a=0.8)
    stage.begin()
    stage.tick()
    (stage.tree / "rpg_time_reset").write_text("300\n")
    (found,) = stage.part.verify()
    assert (found.expected, found.found) == ("125", "300")
    for _ in range(3):
        stage.tick()
    assert stage.read()[Knob.TIME_RESET] == 300
    assert "left alone" in stage.world.host.journal.notes[-1].text
    assert "somebody else set" in stage.part.view().left_alone["eth0"]
    stage.part.stop()
    assert stage.read()[Knob.TIME_RESET] == 300
    stage.unfair(Mode.OFF)
    stage.begin()
    stage.tick()
    stage.unfair(Mode.STATIC, a=0.5)  # asked for again: from what is there now
    stage.tick()
    assert stage.read()[Knob.TIME_RESET] == 600


def test_a_killed_agent_is_rolled_back(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.unfair(Mode.STATIC, a=0.8)
    stage.begin()
    stage.tick()
    stage.make().start()  # the next agent's
    assert stage.read() == PLAIN
    stage.tick()
    assert stage.read()[Knob.TIME_RESET] == 125
    stage.world.host.journal.close()
    journal = Journal(stage.world.folder / "run")
    journal.open()
    monkeypatch.setattr(mechanisms, "Knobs", lambda: stage.knobs)
    assert mechanisms.undo_all(journal, (dcqcn.KIND,), "rolled back") == []
    assert stage.read() == PLAIN
    assert not [key for key in journal.active if key.startswith("dcqcn")]


def test_nothing_to_set(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    stage = Stage(tmp_path / "a", "off")
    assert stage.part.disabled_reason() == "rdma.dcqcn is off"
    (tmp_path / "b").mkdir()
    stage = Stage(tmp_path / "b")
    stage.knobs = Knobs(tmp_path / "none", tmp_path / "none")
    assert stage.make().disabled_reason() == "no NIC shows DCQCN parameters"
