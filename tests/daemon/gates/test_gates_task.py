"""The part: gates of this host's jobs on a kernel in memory, and what other hosts are told."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path as FolderPath

import msgspec
import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.job import JobRequest
from hostcc.config.sections.shifts import ShiftsConfig
from hostcc.daemon.changes import kinds
from hostcc.daemon.gates.gate_notes import Over, Sending, Waiting
from hostcc.daemon.gates.gates_task import FORGET_S, planned
from hostcc.errors import InputError
from hostcc.mltcp.params import Mode
from hostcc.schedule.gates.lone_bursts import MIN_BURSTS
from hostcc.verbs.burst_states import Phase
from tests.daemon.declared import check_declared
from tests.daemon.gates.worlds import BEGIN, BURST_S, END, HELD, OPENED, SENT, World, known, rings
from tests.daemon.profiling.hosts import OWN
from tests.hosts import Ask, Host, play
from tests.patience import eventually

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: FolderPath) -> World:
    made = World(tmp_path, "a")
    made.tick()
    return made


def test_a_job_waits_for_a_job_of_other_hosts(world: World) -> None:
    assert world.closed_s("a") == 0
    world.heard("h2", Sending("b", 300, 0))
    assert world.closed_s("a") == pytest.approx(1.5 * BURST_S)
    world.burst("a", HELD)
    world.now += 0.1
    world.heard("h2", Over("b", 0))
    assert world.closed_s("a") == 0
    world.burst("a", OPENED)
    world.burst("a", END)
    each = [Waiting("a", 300, 0), Sending("a", 300, 0), Over("a", 0)]
    for peer in ("h2", "h3", "h4"):
        assert [note for to, note in world.cluster.sent if to == peer] == each
    assert {to for to, _ in world.cluster.sent} == {"h2", "h3", "h4"}


def test_only_the_first_host_of_a_job_speaks_for_it(tmp_path: FolderPath) -> None:
    world = World(tmp_path, "a", member="h3")
    world.tick()
    world.burst("a", BEGIN)
    assert world.cluster.sent == []
    world.burst("a", END)
    world.heard("h4", Sending("b", 300, 0))
    assert world.closed_s("a") == 0, "h2 speaks for b"
    world.heard("h2", Sending("b", 300, 0))
    assert world.closed_s("a") > 0
    world.heard("h1", Sending("a", 300, 0))
    assert world.closed_s("a") == 0, "the other half of the job sends already"
    world.heard("h9", Sending("unknown", 300, 0))


def learn(world: World) -> None:
    world.profiles.sure["a"] = 0.9
    for _ in range(MIN_BURSTS):
        assert world.profiles.lone_rates == {}
        world.burst("a", BEGIN)
        world.now += 0.2
        world.burst("a", END)
        world.now += 1.0
        world.tick()


def test_profiles_learn_how_fast_a_job_sends_alone(world: World) -> None:
    learn(world)
    assert world.profiles.lone_rates == {"a": pytest.approx(SENT / 0.2)}
    world.plans.result = None
    world.tick()
    assert "a" in world.profiles.lone_rates, "also where it takes no turns any more"
    world.now += FORGET_S
    world.tick()
    assert world.profiles.lone_rates == {}
    world.plans.result = rings(a=("h1", "h3"), b=("h2", "h4"))
    world.tick()
    learn(world)
    world.part.stop()
    assert world.profiles.lone_rates == {}, "nobody would forget it later"


def test_what_is_no_note_is_refused(world: World) -> None:
    with pytest.raises(InputError):
        world.cluster.hear("h2", b"\xc1 no note")


def test_jobs_of_one_host_without_a_plan(tmp_path: FolderPath) -> None:
    world = World(tmp_path, "a", "b")
    world.plans.result = None
    world.tick()
    assert world.backend.gates == {}, "nothing is known of them"
    for name in ("a", "b"):
        known(world, name)
    world.now += 5
    world.tick()
    assert world.closed_s("a") == world.closed_s("b") == 0
    world.burst("a", BEGIN)
    assert world.closed_s("b") == pytest.approx(1.5 * 0.088, rel=0.01)
    assert world.closed_s("a") == 0
    world.burst("a", END)
    assert world.closed_s("b") == 0
    assert world.cluster.sent == []


def test_jobs_whose_paths_the_plan_does_not_know(tmp_path: FolderPath) -> None:
    """This host decides about them, and the plan about the others."""
    world = World(tmp_path, "a", "x", "y")
    assert world.plans.result is not None
    world.plans.result = replace(world.plans.result, blind=frozenset("y"))
    for name in ("x", "y"):
        known(world, name)
    world.tick()
    world.burst("x", BEGIN)
    assert world.closed_s("y") > 0
    assert world.closed_s("a") == 0
    world.heard("h2", Sending("b", 300, 0))
    assert world.closed_s("a") > 0
    assert world.part.view().local
    assert {note.job for _, note in world.cluster.sent} <= {"a"}


def test_stopping_opens_and_disarms(world: World) -> None:
    assert kinds.GATES in world.host.journal.active
    world.heard("h2", Sending("b", 300, 0))
    world.part.stop()
    assert world.backend.gates == {world.slot("a"): (False, 0)}
    assert kinds.GATES not in world.host.journal.active
    world.part.start()
    world.tick()
    assert world.closed_s("a") == 0


def test_jobs_that_end_while_turns_are_off_are_forgotten(tmp_path: FolderPath) -> None:
    world = World(tmp_path, "a", "b")
    world.plans.result = None
    for name in ("a", "b"):
        known(world, name)
    world.tick()
    world.part.stop()
    world.table.jobs.clear()
    world.table.edition += 1
    world.part.start()
    world.tick()
    assert world.part.view().gated == []


def test_a_job_in_mode_off_has_no_gate(world: World) -> None:
    world.table.share(Mode.OFF, {}, "a test")
    world.tick()
    assert world.backend.gates == {world.slot("a"): (False, 0)}
    (row,) = world.part.view().gated
    assert row.reason == "mode off"


def test_switches(world: World) -> None:
    assert world.part.disabled_reason() == ""
    world.part.toggled = False
    assert world.part.disabled_reason() == "hostcc shifts off"
    off = ShiftsConfig(enabled=False)
    world.host.config = msgspec.structs.replace(world.host.config, shifts=off)
    world.part.toggled = None
    assert world.part.disabled_reason() == "shifts.enabled is false"
    world.part.toggled = True
    assert world.part.disabled_reason() == ""
    world.host.engine = None
    assert world.part.disabled_reason() == "nothing is changed on this host"


def test_the_journal_has_what_is_armed(world: World) -> None:
    """Also where only `hostcc shifts on` arms gates, and after a reload."""
    world.part.stop()
    for share, step in ((0.2, world.part.start), (0.1, world.tick)):
        off = ShiftsConfig(enabled=False, max_share=share)
        world.host.config = msgspec.structs.replace(world.host.config, shifts=off)
        step()
        assert world.host.journal.active[kinds.GATES].after == kinds.gates(share).after


def test_what_a_start_changes_is_planned() -> None:
    (change,) = planned(Config(agent=OWN))
    assert (change.id, change.before) == (kinds.GATES, "open")
    assert planned(Config(agent=OWN, shifts=ShiftsConfig(enabled=False))) == []


def test_status_says_who_waits_for_whom(world: World) -> None:
    state = world.backend.states[world.slot("a")]
    state["held_ns"], state["holds"], state["iterations"] = 500_000_000, 4, 100
    check_declared(world.part)
    view = world.part.view()
    (row,) = view.gated
    assert (row.job, row.rivals, row.reason) == ("a", ["b"], None)
    assert (row.turns_waited, row.held_s, row.held_per_iteration_s) == (4, 0.5, 0.005)
    assert not view.local
    assert row.turns_for_s is not None
    world.now += 7.0
    world.tick()
    assert world.part.view().gated[0].turns_for_s == row.turns_for_s + 7.0
    world.plans.result = None
    world.tick()
    view = world.part.view()
    assert view.local
    assert (view.gated[0].rivals, view.gated[0].reason) == ([], None)
    assert view.gated[0].turns_for_s is None


def test_jobs_that_have_ended_count_in_the_totals(world: World) -> None:
    state = world.backend.states[world.slot("a")]
    state["held_ns"], state["holds"] = 500_000_000, 4
    world.tick()
    del world.table.jobs["a"]
    world.table.edition += 1
    world.tick()
    view = world.part.view()
    assert (view.gated, view.turns_waited, view.held_s) == ([], 4, 0.5)


def test_another_engine_gets_its_gates(world: World) -> None:
    table = world.host.act()
    table.register("a", JobRequest(), os.getpid())
    world.table, world.backend = table, world.host.engine.backend
    world.burst("a", BEGIN)
    assert world.backend.gates == {}, "not armed yet"
    world.tick()
    assert world.closed_s("a") == 0


def test_the_switch_of_an_agent(tmp_path: FolderPath) -> None:
    """`hostcc shifts`: over the control socket to the part, and back."""
    agent = Host(tmp_path).agent()

    async def scene(ask: Ask) -> None:
        off = await ask("shifts", enabled=False)
        assert (off["enabled"], off["before"], off["reason"]) == (False, True, None)
        assert agent.roster.gates.disabled_reason() == "hostcc shifts off"
        on = await ask("shifts", enabled=True)
        assert (on["enabled"], on["before"], on["reason"]) == (True, False, None)
        assert agent.roster.gates.disabled_reason() == ""

    play(agent, scene)


class Mixed(World):
    """Job r sends by RDMA, job t by TCP, over one link."""

    def __init__(self, folder: FolderPath) -> None:
        super().__init__(folder, "r", "t")
        self.plans.result = None
        self.pid = self.shims.add("r")
        self.shims.publish()
        known(self, "t")
        self.profiles.sure["r"], self.links["r"] = 0.9, {"eth0": None}
        self.now += 5
        self.tick()

    def says(self, phase: Phase, held_s: float = 0.0) -> None:
        self.shims.says(self.pid, phase, self.now, held_s)
        self.tick()

    def closed_rdma_s(self) -> float:
        gate = self.shims.gate("r")
        assert gate is not None
        return max(0.0, gate.closed_until_ns / 1e9 - self.now)


def test_jobs_of_both_kinds_are_one_group(tmp_path: FolderPath) -> None:
    world = Mixed(tmp_path)
    assert {row.job: row.rivals for row in world.part.view().gated} == {"r": ["t"], "t": ["r"]}
    assert world.closed_s("t") == world.closed_rdma_s() == 0
    assert not world.backend.gates.get(world.slot("r"), (False, 0))[0], "the shim holds it"
    world.burst("t", BEGIN)
    assert world.closed_rdma_s() == pytest.approx(1.5 * 0.088, rel=0.01)
    world.says(Phase.HELD)
    world.now += 0.05
    world.burst("t", END)
    assert world.closed_rdma_s() == 0
    world.says(Phase.SENDING, held_s=0.05)
    assert world.closed_s("t") > 0
    world.now += 0.05
    world.says(Phase.IDLE)
    assert world.closed_s("t") == 0
    view = world.part.view()
    rows = {row.job: row for row in view.gated}
    assert (rows["r"].rdma, rows["t"].rdma) == (True, False)
    assert rows["r"].turns_waited == view.turns_waited == 1
    times_s = [rows["r"].held_s, rows["r"].held_per_iteration_s, view.held_s]
    assert times_s == pytest.approx([0.05] * 3)
    check_declared(world.part)


def test_rdma_is_followed_between_ticks(tmp_path: FolderPath) -> None:
    world = Mixed(tmp_path)

    async def scene() -> None:
        await world.part.tick()
        world.shims.says(world.pid, Phase.SENDING, world.now)
        await eventually(lambda: world.closed_s("t") > 0)
        world.shims.says(world.pid, Phase.IDLE, world.now)
        await eventually(lambda: world.closed_s("t") == 0)
        world.part.stop()

    asyncio.run(scene())
    assert world.shims.gate("r") is None


def test_verify_sees_a_gate_of_the_shim_that_is_another(tmp_path: FolderPath) -> None:
    world = Mixed(tmp_path)
    assert world.part.verify() == []
    assert world.shims.region is not None
    world.shims.region.set_gate("r", None)
    (found,) = world.part.verify()
    assert (found.id, found.target) == (kinds.GATES, "gate of job r")


def test_nothing_is_held_in_mode_off_nor_after_the_switch(tmp_path: FolderPath) -> None:
    world = Mixed(tmp_path)
    world.burst("t", BEGIN)
    assert world.closed_rdma_s() > 0
    world.part.stop()
    assert world.shims.gate("r") is None
    world.part.start()
    world.now += 5
    world.tick()
    assert world.shims.gate("r") is not None
    world.table.share(Mode.OFF, {}, "a test")
    world.tick()
    assert world.shims.gate("r") is None
    assert {row.reason for row in world.part.view().gated} == {"mode off"}


def test_a_job_whose_processes_end_is_held_by_the_kernel(tmp_path: FolderPath) -> None:
    """Or whose connections send more than its queue pairs."""
    world = Mixed(tmp_path)
    world.shims.jobs.clear()
    world.tick()
    assert world.shims.gate("r") is None
    assert {row.rdma for row in world.part.view().gated} == {False}


def test_all_jobs_begin_together_which_costs_no_turn(tmp_path: FolderPath) -> None:
    world = World(tmp_path, "a", "stranger")  # the plan knows nothing of the second
    world.tick()
    assert world.part.hold_together(0.0, armed_s=1.0)
    assert world.closed_s("stranger") == 0
    assert world.backend.gates[world.slot("stranger")][0]
    assert world.part.hold_together(0.8, armed_s=0.81)
    assert [world.closed_s(name) for name in ("a", "stranger")] == pytest.approx([0.8, 0.8])
    world.burst("a", HELD)
    assert world.cluster.sent == []
    world.now += 0.5
    world.tick()
    assert world.closed_s("a") == pytest.approx(0.3)
    world.now += 0.32
    world.tick()
    assert world.closed_s("a") == 0
    assert (
        world.slot("stranger") not in world.backend.gates
        or not world.backend.gates[world.slot("stranger")][0]
    )
    world.burst("a", OPENED)
    assert {type(note) for _, note in world.cluster.sent} == {Sending}
    world.part.toggled = False
    assert not world.part.hold_together(0.8, armed_s=1.0)
