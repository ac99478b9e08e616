"""Gates in the plan of the shim, and what processes of jobs say of their bursts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.daemon.gates.gates_task import HoldTotals
from hostcc.daemon.gates.job_gates import BurstEvent, Gate
from hostcc.daemon.gates.shim_gates import ShimGates
from hostcc.schedule.gates.groups import Exchange
from hostcc.verbs.burst_states import Phase
from tests.daemon.gates.shims import Shims, sleeper

pytestmark = pytest.mark.unit

PERIOD_S, BURST_S = 0.3, 0.1
GATE = Gate(0.0, Exchange(PERIOD_S, BURST_S, BURST_S, 0.9))
BEGIN, HELD, OPENED, END = BurstEvent


class World:
    """Job a with two processes."""

    def __init__(self, folder: Path) -> None:
        self.shims = Shims(folder)
        self._sleeper = sleeper()
        self.pids = self.shims.add("a"), self.shims.add("a", self._sleeper.pid)
        self.region = self.shims.publish()
        self.gates: ShimGates = self.shims.gates()
        self.gates.look()
        self.gates.arm({"a": GATE})
        self.gates.bursts(10.0)

    def bursts(self, now_s: float) -> list[tuple[BurstEvent, float]]:
        found = self.gates.bursts(now_s)
        assert {burst.job for burst in found} <= {"a"}
        return [(burst.event, round(burst.at_s, 6)) for burst in found]

    def close(self) -> None:
        self.gates.close()
        self._sleeper.kill()
        self._sleeper.wait()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_a_job_sends_as_long_as_one_of_its_processes(world: World) -> None:
    one, other = world.pids
    assert world.gates.jobs == {"a"}
    world.shims.says(one, Phase.SENDING, 10.001)
    assert world.bursts(10.004) == [(BEGIN, 10.001)]
    world.shims.says(other, Phase.SENDING, 10.005)
    world.shims.says(one, Phase.IDLE, 10.006)
    assert world.bursts(10.008) == []
    world.shims.says(other, Phase.IDLE, 10.009)
    assert world.bursts(10.012) == [(END, 10.009)]
    world.shims.says(one, Phase.HELD, 10.201)
    world.shims.says(other, Phase.HELD, 10.203)
    assert world.bursts(10.204) == [(HELD, 10.201)]
    world.shims.says(other, Phase.SENDING, 10.304, held_s=0.101)
    assert world.bursts(10.305) == [(BEGIN, 10.304)]
    held = world.gates.holds()["a"]
    assert (held.turns, held.iterations) == (1, 2)
    assert held.held_s == pytest.approx(0.101)


def test_nothing_of_one_burst_is_lost_between_two_readings(world: World) -> None:
    """Neither its end, nor that it waited: that counts in the job's budget."""
    one, _ = world.pids
    world.shims.says(one, Phase.SENDING, 10.001)
    world.gates.bursts(10.002)
    world.shims.says(one, Phase.IDLE, 10.05)
    world.shims.says(one, Phase.SENDING, 10.20)
    assert world.bursts(10.21) == [(BEGIN, 10.2)]
    world.shims.says(one, Phase.IDLE, 10.22)
    assert world.bursts(10.3) == [(END, 10.22)]
    world.shims.says(one, Phase.SENDING, 10.412, held_s=0.01)
    assert world.bursts(10.413) == [(HELD, 10.402), (BEGIN, 10.412)]


def test_what_can_not_have_happened_is_not_believed(world: World) -> None:
    """A process may write what it likes into its own file."""
    one, _ = world.pids
    for said_s in (3.0, 1e6):
        world.shims.says(one, Phase.SENDING, said_s)
        (burst,) = world.gates.bursts(11.0)
        assert 10.0 <= burst.at_s <= 11.0
        world.shims.says(one, Phase.IDLE, said_s)
        world.gates.bursts(11.0)
    path = world.shims.path_of(one)
    path.write_bytes(b"")
    assert world.gates.bursts(12.0) == []


def test_what_is_written(world: World) -> None:
    gate = world.shims.gate("a")
    assert gate is not None
    assert (gate.closed_until_ns, gate.period_ns) == (0, 300_000_000)
    assert gate.silence_ns == 100_000_000, "half of what it is silent"
    world.gates.arm({"a": GATE._replace(closed_until_s=12.5, silence_s=0.004)})
    gate = world.shims.gate("a")
    assert gate is not None
    assert (gate.closed_until_ns, gate.silence_ns) == (12_500_000_000, 4_000_000)
    assert world.gates.differences() == []
    world.region.set_gate("a", None)
    (found,) = world.gates.differences()
    assert (found.id, found.target) == ("gates", "gate of job a")
    world.gates.arm({})
    assert not world.gates.is_armed()
    assert world.gates.differences() == []


def test_another_plan_has_no_gates_yet(world: World) -> None:
    region = world.shims.publish()
    assert region.gate("a") is None
    assert world.gates.differences() == []
    world.gates.arm({"a": GATE})
    assert region.gate("a") is not None
    world.shims.region = None
    world.gates.arm({"a": GATE})
    assert not world.gates.is_armed()


def test_a_job_without_an_entry_gets_its_gate_with_the_entry(tmp_path: Path) -> None:
    shims = Shims(tmp_path)
    region = shims.publish()
    shims.add("a")
    gates = shims.gates()
    gates.arm({"a": GATE})
    assert not gates.is_armed()
    shims.publish()
    gates.arm({"a": GATE})
    assert gates.is_armed()
    assert region.gate("a") is None
    gates.close()


def test_processes_come_and_go(world: World) -> None:
    one, other = world.pids
    world.shims.jobs["a"].remove(one)
    world.shims.says(other, Phase.SENDING, 10.001)
    world.shims.says(one, Phase.HELD, 10.0)
    world.gates.look()
    assert [burst.event for burst in world.gates.bursts(10.002)] == [BEGIN]
    path = world.shims.path_of(other)
    path.unlink()  # another program in the process
    world.shims.says(other, Phase.IDLE, 10.003)
    world.gates.look()
    assert [burst.event for burst in world.gates.bursts(10.004)] == [END]
    world.shims.jobs.clear()
    world.gates.look()
    assert world.gates.jobs == frozenset()
    assert world.gates.holds() == {}


def test_what_a_process_was_held_counts_once_while_others_of_its_job_go_on(world: World) -> None:
    """Processes of a job that ends do not end at one moment."""
    one, other = world.pids
    totals = HoldTotals()
    for pid, turns in ((one, 3), (other, 2)):
        for _ in range(turns):
            world.shims.says(pid, Phase.HELD, 10.0)
            world.shims.says(pid, Phase.SENDING, 10.1, held_s=0.1)
            world.shims.says(pid, Phase.IDLE, 10.2)
    totals.update(world.gates.holds())
    for pid in (one, other):
        world.shims.jobs["a"].remove(pid)
        world.gates.look()
        totals.update(world.gates.holds())
        assert (totals.turns_waited, round(totals.held_s, 6)) == (3, 0.3)
    world.shims.jobs["a"].append(other)
    world.gates.look()
    assert world.gates.holds()["a"].turns == 2, "of those before it none was left"


def test_a_process_in_a_pid_namespace_of_its_own(tmp_path: Path) -> None:
    """As those of pods: its file has another name than its number here."""
    shims = Shims(tmp_path)
    shims.spaces[os.getpid()] = "4026532281-1"
    pid = shims.add("a")
    shims.publish()
    gates = shims.gates()
    gates.look()
    assert gates.jobs == {"a"}
    gates.arm({"a": GATE})
    gates.bursts(10.0)
    shims.says(pid, Phase.SENDING, 10.001)
    assert [burst.event for burst in gates.bursts(10.002)] == [BEGIN]
    gates.close()
