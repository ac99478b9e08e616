"""Bursts and the gate before them: on the shim's own source, and in a program that knows nothing.

Absent hardware: a stand-in for libibverbs (native/fake_verbs.c) is plain memory.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostcc.pcie.library import HERE as PCIE
from hostcc.verbs.build import HERE, VERBS_HEADER
from hostcc.verbs.burst_states import BurstFile, BurstState, Phase, open_bursts
from hostcc.verbs.plan_region import BurstGate, PlanRegion, RdmaJob
from tests.patience import until
from tests.verbs.test_shim_native import NATIVE, places, program
from tests.verbs.test_shim_odd import Odd, Places, odd

__all__ = ["odd", "places", "program"]
pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
    pytest.mark.slow,
]
OPEN = BurstGate(closed_until_ns=0, period_ns=60_000_000_000, silence_ns=50_000_000)
"""Of the program, which computes for 100 ms; on a busy machine for longer."""
KNOWN = 4
"""Bursts after which one may be held."""


@pytest.fixture(scope="module", params=["", "-fsanitize=thread", "-fsanitize=undefined,address"])
def bursts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Also with sanitizers, which end the program with an error."""
    made = tmp_path_factory.mktemp("bursts") / "bursts"
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *request.param.split(),
         f"-I{HERE}", f"-I{PCIE}", "-pthread", "-o", str(made), str(NATIVE / "bursts.c")],
        check=True,
    )  # fmt: skip
    return made


@pytest.mark.parametrize("what", ["phases", "bounds", "pattern", "under-way", "arming", "threads"])
def test_bursts(bursts: Path, what: str) -> None:
    """On a clock of the test's own, so that every nanosecond of a hold counts."""
    done = subprocess.run([bursts, what], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "good\n", "")


def opened(one: Odd) -> BurstFile | None:
    count = one.count()
    return None if count is None else open_bursts(count.path)


class Iterating:
    """The program, and where it is in its bursts."""

    def __init__(self, odd: Path, places: Places) -> None:
        self.region = PlanRegion.create(places[0], jobs=2, stale_s=60.0)
        self.region.publish([RdmaJob("other"), RdmaJob("job")])
        assert self.region.set_gate("job", OPEN)
        self.one = Odd(odd, "bursts", places)
        self.one.until(lambda count: count.pid > 0)
        file = opened(self.one)
        assert file is not None
        self._file = file
        self.one.go()

    def close_gate(self) -> None:
        far_ns = time.monotonic_ns() + 600_000_000_000
        self.region.set_gate("job", BurstGate(far_ns, OPEN.period_ns, OPEN.silence_ns))

    def state(self) -> BurstState:
        state = self._file.read()
        assert state is not None
        return state

    def until(self, good: Callable[[BurstState], bool]) -> BurstState:
        until(lambda: good(self.state()), lambda: f"another state than {self.state()}")
        return self.state()

    def end(self) -> None:
        self.one.go()
        assert self.one.says() == "good"
        self.one.end()
        assert not self._file.is_current()
        self._file.close()


@pytest.fixture
def iterating(odd: Path, places: Places) -> Iterating:
    return Iterating(odd, places)


def test_a_burst_waits_until_the_gate_opens(iterating: Iterating) -> None:
    """Changes of the plan change nothing in that."""
    iterating.until(lambda state: state.bursts >= KNOWN and state.phase is Phase.IDLE)
    assert iterating.state().holds == 0
    iterating.close_gate()
    held = iterating.until(lambda state: state.phase is Phase.HELD)
    iterating.region.publish([RdmaJob("other"), RdmaJob("job", 0x20)])
    iterating.region.set_gate("other", OPEN)
    iterating.region.set_gate("job", OPEN)
    after = iterating.until(lambda state: state.bursts > held.bursts)
    assert (after.holds, after.held_ns > 0) == (held.holds, True)
    iterating.end()
    iterating.region.close()


@pytest.mark.parametrize("how", ["heartbeat", "region", "entry", "switch"])
def test_nobody_waits_for_an_agent_that_is_gone(iterating: Iterating, how: str) -> None:
    """It has died, or ended, or forgotten the job, or `hostcc shifts off`."""
    region = iterating.region
    iterating.until(lambda state: state.bursts >= KNOWN and state.phase is Phase.IDLE)
    iterating.close_gate()
    iterating.until(lambda state: state.phase is Phase.HELD)
    if how == "heartbeat":
        region._header.stale_us = 1
    elif how == "region":
        region.close()
    elif how == "entry":
        region.publish([RdmaJob("other")])
    else:
        region.set_gate("job", None)
    gone = iterating.until(lambda state: state.phase is not Phase.HELD)
    count = iterating.one.count()
    assert count is not None
    iterating.one.until(lambda now: now.iterations > count.iterations + KNOWN)
    assert iterating.state().holds == gone.holds
    iterating.end()
    if how != "region":
        region.close()


def test_without_a_gate_nothing_is_counted(odd: Path, places: Places) -> None:
    """Nor while it is armed for another job."""
    region = PlanRegion.create(places[0], jobs=2, stale_s=60.0)
    region.publish([RdmaJob("other"), RdmaJob("job")])
    region.set_gate("other", OPEN)
    one = Odd(odd, "bursts", places)
    one.go()
    one.until(lambda count: count.iterations >= KNOWN)
    file = opened(one)
    assert file is not None
    assert file.read() == BurstState(Phase.IDLE, 0, 0, 0, 0)
    one.go()
    assert one.says() == "good"
    one.end()
    file.close()
    region.close()
