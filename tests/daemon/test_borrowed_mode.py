"""Modes on loan: they come back, however a comparison ends, and others' choices stay."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.job import JobRequest
from hostcc.daemon.api.credentials import Peer
from hostcc.daemon.api.messages import Borrow
from hostcc.daemon.borrowed_mode import LEASE_S, TOPIC, BorrowedMode
from hostcc.errors import HostccError, InputError
from hostcc.mltcp.params import Mode
from tests.daemon.profiling.hosts import OWN, ToyHost

pytestmark = pytest.mark.unit

ROOT = Peer(1, 0, frozenset(), 0)


class Notes:
    """The cluster: other hosts, and what they are told."""

    def __init__(self) -> None:
        self.name = "h1"
        self.others: tuple[str, ...] = ()
        self.sent: list[tuple[str, bytes]] = []
        self.hear: Any = None

    def listen(self, topic: str, hear: Any) -> None:
        assert topic == TOPIC
        self.hear = hear

    def records(self) -> dict[str, dict[str, object]]:
        return {name: {} for name in (self.name, *self.others)}

    def send(self, peer: str, topic: str, data: bytes) -> bool:
        assert topic == TOPIC
        self.sent.append((peer, data))
        return True

    def flush(self) -> None:
        pass


class Gates:
    """Holds that were asked for."""

    def __init__(self) -> None:
        self.held: list[float] = []

    def hold_together(self, for_s: float, armed_s: float) -> bool:
        assert armed_s == LEASE_S
        self.held.append(for_s)
        return True


class World:
    """A host with two jobs under the default mode."""

    def __init__(self, folder: Path) -> None:
        self.host = ToyHost(folder, Config(agent=OWN))
        self.table = self.host.act()
        for name in ("a", "b"):
            self.table.register(name, JobRequest(), os.getpid())
        self.cluster, self.gates, self.now = Notes(), Gates(), 50.0
        cluster: Any = self.cluster
        gates: Any = self.gates
        self.part = BorrowedMode(self.host, cluster, gates, lambda: self.now)
        self.part.start()

    def borrow(self, mode: Mode | None, **more: Any) -> Any:
        return asyncio.run(self.part.borrow(Borrow(mode=mode, **more), ROOT))

    def mode(self) -> Mode:
        return self.table.mode

    def tick(self) -> None:
        asyncio.run(self.part.tick())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_was_before_comes_back(world: World) -> None:
    world.table.share(Mode.STATIC, {"a": 2.0}, "an administrator")
    assert world.borrow(Mode.OFF).mode == "off"
    assert world.mode() is Mode.OFF
    assert world.borrow(Mode.MLTCP).lease_s == LEASE_S
    assert world.part.view().mode == "mltcp"
    assert world.borrow(None).mode == "static"
    assert (world.table.mode, world.table.weights) == (Mode.STATIC, {"a": 2.0})
    assert world.part.view().mode is None


def test_nobody_asks_any_more(world: World) -> None:
    world.borrow(Mode.OFF)
    world.now += LEASE_S - 1
    world.tick()
    assert world.mode() is Mode.OFF
    world.borrow(Mode.OFF)
    world.now += LEASE_S - 1
    world.tick()
    assert world.mode() is Mode.OFF
    world.now += 1
    world.tick()
    assert world.mode() is Mode.MLTCP


def test_a_choice_of_somebody_else_stays(world: World) -> None:
    world.borrow(Mode.OFF)
    world.table.share(Mode.STATIC, {"b": 3.0}, "an administrator")
    with pytest.raises(HostccError, match="somebody else has chosen"):
        world.borrow(Mode.OFF)
    world.borrow(None)
    world.now += LEASE_S
    world.tick()
    assert (world.table.mode, world.table.weights) == (Mode.STATIC, {"b": 3.0})


def test_the_end_of_the_part_is_that_of_the_loan(world: World) -> None:
    world.borrow(Mode.OFF)
    asyncio.run(world.part.stop())
    assert world.mode() is Mode.MLTCP
    assert world.cluster.hear is None


def test_jobs_begin_together_and_weigh_the_same(world: World) -> None:
    found = world.borrow(Mode.STATIC, alike=True, together_s=0.5)
    assert found.together
    assert world.gates.held == [0.5]
    assert world.table.weights == {"a": 1.0, "b": 1.0}


def test_other_hosts_do_the_same(world: World, tmp_path: Path) -> None:
    world.cluster.others = ("h2", "h3")
    assert world.borrow(Mode.OFF).hosts_told == 2
    (tmp_path / "other").mkdir()
    other = World(tmp_path / "other")
    assert [peer for peer, _ in world.cluster.sent] == ["h2", "h3"]
    other.cluster.hear("h1", world.cluster.sent[0][1])
    assert other.mode() is Mode.OFF
    assert other.part.view().by == "hostcc compare, on h1"
    assert other.cluster.sent == []  # who hears does not pass it on
    other.now += LEASE_S
    other.tick()
    assert other.mode() is Mode.MLTCP


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"\x93\xa3off\xc2\xcb\x7f\xf0\0\0\0\0\0\0", b"x" * 99]
)
def test_notes_that_are_none_are_refused(world: World, data: bytes) -> None:
    with pytest.raises(InputError, match="a note of compare"):
        world.cluster.hear("h2", data)
    assert world.mode() is Mode.MLTCP


def test_without_programs_there_is_nothing_to_borrow(world: World) -> None:
    world.host.engine = None
    assert world.part.disabled_reason()
    with pytest.raises(HostccError, match="nothing is changed on this host"):
        world.borrow(Mode.OFF)
