"""F = 1 is the plain algorithm: on the same ACKs the same window as the kernel's own, exactly.

progs/shadow.bpf.c runs the kernel's own operation and the product's on each event of real
connections with real losses, and counts where they differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostcc.bpf.loader.object import BpfObject
from hostcc.lab.scenario import FabricSpec
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.params import JobParams, Mode, Shape, Variant
from tests.mltcp.stage import (
    SLOT,
    Stage,
    delivered,
    follow,
    mltcp_from,
    slow_link,
    stall_link,
    state,
)

pytestmark = pytest.mark.kernel

BYTES = 8_000_000
SHADOWS = {
    Variant.RENO: "shadow_reno",
    Variant.CUBIC: "shadow_cubic",
    Variant.HOSTCC: "shadow_host",
}
CUBIC_LIKE = [Variant.CUBIC, Variant.HOSTCC]
STATIC = JobParams(name="shadow", mode=Mode.STATIC)
ONE = replace(STATIC, mode=Mode.MLTCP, shape=Shape(slope=0, intercept=1))


@dataclass
class Shadow:
    """The adapter with operations that run twice, and the tally."""

    kernel: MltcpKernel
    obj: BpfObject
    stage: Stage

    def __post_init__(self) -> None:
        self._before = self.stage.fabric.counters()["right"]

    def counts(self) -> dict[str, np.void]:
        operations = self.obj.map("shadow_counts").lookup_batch()[1]
        return {
            name.removeprefix("SHADOW_").lower(): operations[number]
            for name, number in self.obj.enums.items()
            if name.startswith("SHADOW_") and name != "SHADOW_OPS"
        }

    def clear(self) -> None:
        table = self.obj.map("shadow_counts")
        for key in range(table.max_entries):
            table.update(key, np.zeros((), table.value_dtype))

    def busy(self, flows: int = 2, rounds: int = 1) -> None:
        """Lose packets, time out for nothing, lose more."""
        sender, receiver = self.stage.pair()
        self.stage.dial(sender, receiver, flows=flows)
        self.transfer(sender, rounds)
        assert delivered(sender, receiver) == BYTES * rounds

    def transfer(self, sender: Any, rounds: int = 1) -> None:
        sender.start("send", sizes=[BYTES] * rounds, gaps_ms=[30] * rounds)
        stall_link(self.stage, 0.05)
        sender.answer()

    def assert_same(self, *operations: str) -> None:
        """No difference in any operation, and these were really exercised."""
        counts = self.counts()
        for name, row in counts.items():
            told = f"{name}: wanted {row['want']}, got {row['got']}, word {row['word']}"
            assert row["mismatches"] == 0, told
            assert row["overruns"] == 0, name
        for name in operations:
            assert counts[name]["calls"] > 0, name
        assert counts["avoid"]["calls"] > 200  # the slower the machine, the fewer ACKs
        assert counts["ssthresh"]["calls"] > 2
        # What could not be compared, because a tick of the clock came between.
        for row in counts.values():
            assert row["ticked"] <= 5 + row["calls"] // 20
        assert (self.stage.fabric.counters()["right"] - self._before).drops > 10


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(FabricSpec(rate_mbit=200, buffer_packets=20)) as made:
        yield made


@contextmanager
def shadowed(
    stage: Stage, progs: Path, params: JobParams, stale_s: float = 3600
) -> Iterator[Shadow]:
    operations = {params.variant: SHADOWS[params.variant]}
    with mltcp_from(progs / "shadow.bpf.o", operations, stale_s) as (kernel, obj):
        follow(kernel, stage, params)
        yield Shadow(kernel, obj, stage)
        stage.clear()


def expected_of(variant: Variant) -> list[str]:
    """Operations that the traffic must have exercised."""
    more = ["init", "state", "event", "acked"] if variant in CUBIC_LIKE else []
    return ["ssthresh", "avoid", *more]


@pytest.mark.parametrize("variant", SHADOWS)
def test_static_factor_of_one(stage: Stage, progs: Path, variant: Variant) -> None:
    with shadowed(stage, progs, replace(STATIC, variant=variant)) as shadow:
        shadow.busy()
        shadow.assert_same(*expected_of(variant))


@pytest.mark.parametrize("variant", [Variant.RENO, Variant.CUBIC])
def test_function_that_is_one(stage: Stage, progs: Path, variant: Variant) -> None:
    """Through learning and F's table, not around them."""
    with shadowed(stage, progs, replace(ONE, variant=variant)) as shadow:
        shadow.busy(rounds=3)
        shadow.assert_same(*expected_of(variant))
        assert state(shadow.kernel)["iterations"] > 0


@pytest.mark.parametrize("variant", SHADOWS)
def test_switched_off_while_connected(stage: Stage, progs: Path, variant: Variant) -> None:
    wild = replace(STATIC, variant=variant, static_weight=3)
    with shadowed(stage, progs, wild) as shadow:
        sender, receiver = stage.pair()
        stage.dial(sender, receiver, flows=2)
        shadow.transfer(sender)
        shadow.kernel.set_job(SLOT, replace(wild, mode=Mode.OFF))
        shadow.clear()
        shadow.transfer(sender)
        shadow.assert_same("avoid")
        assert delivered(sender, receiver) == 2 * BYTES


@pytest.mark.parametrize("variant", SHADOWS)
def test_agent_that_is_silent(stage: Stage, progs: Path, variant: Variant) -> None:
    """Whatever the job was told, without a heartbeat it is plain."""
    silent = replace(STATIC, variant=variant, static_weight=3)
    if variant is Variant.HOSTCC:
        silent = replace(silent, mode=Mode.MLTCP)
    with shadowed(stage, progs, silent, stale_s=0.001) as shadow:
        shadow.busy(rounds=2)
        shadow.assert_same(*expected_of(variant))


@pytest.mark.parametrize("variant", SHADOWS)
def test_another_factor_shows(stage: Stage, progs: Path, variant: Variant) -> None:
    """The comparison can fail: with F = 3 the windows differ, in avoidance only."""
    with shadowed(stage, progs, replace(STATIC, variant=variant, static_weight=3)) as shadow:
        shadow.busy()
        counts = shadow.counts()
        assert counts["avoid"]["mismatches"] > 0
        for name in ("init", "ssthresh", "state", "event", "acked", "undo"):
            assert counts[name]["mismatches"] == 0


def test_undo_after_a_time_out_for_nothing(stage: Stage, progs: Path) -> None:
    """A few packets on a path that suddenly takes longer than a time-out, but loses nothing."""
    with shadowed(stage, progs, replace(STATIC, variant=Variant.CUBIC)) as shadow:
        sender, receiver = stage.pair()
        stage.dial(sender, receiver)
        for _ in range(20):
            sender.ask("send", sizes=[50_000] * 3, gaps_ms=[1] * 3)
            with slow_link(stage):
                sender.ask("send", sizes=[8000], gaps_ms=[0])
            if shadow.counts()["undo"]["calls"] > 3:
                break
        shadow.transfer(sender)
        shadow.assert_same("undo", "state")
        delivered(sender, receiver)
