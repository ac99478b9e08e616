"""Whose bytes_ratio a flow goes by, and who goes by none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hostcc.lab.scenario import FabricSpec
from hostcc.mltcp.backend import Records
from hostcc.mltcp.params import JobParams, Mode, Scope, Variant
from hostcc.mltcp.shape import f_of
from tests.mltcp.stage import SLOT, Stage, attempts, delivered, enums, follow, mltcp_from, state

pytestmark = pytest.mark.kernel

BYTES = 400_000
JOB = JobParams(name="training", variant=Variant.RENO)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(FabricSpec(rate_mbit=200, buffer_packets=60)) as made:
        yield made


@pytest.mark.parametrize("scope", Scope)
def test_ratio_of_the_job_or_of_the_flow(stage: Stage, progs: Path, scope: Scope) -> None:
    """When one flow has sent its half and the other begins, only the job is half-way."""
    params = replace(JOB, scope=scope)
    with mltcp_from(progs / "trace.bpf.o", {Variant.RENO: "trace_reno"}) as (kernel, obj):
        ring = obj.ringbuf("traces", "trace_record")

        def factors() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            follow(kernel, stage, params)
            sender, receiver = stage.pair()
            ports = stage.dial(sender, receiver, flows=2)
            sender.ask("send", sizes=[BYTES] * 4, gaps_ms=[60] * 4)
            assert state(kernel)["iterations"] == 3
            ring.consume()
            for flow in (0, 1):
                sender.ask("send", sizes=[BYTES // 2], gaps_ms=[0], only=[flow])
            records = ring.consume()
            assert state(kernel)["iterations"] == 4
            delivered(sender, receiver)
            second: Records = records[records["lport"] == ports[1]]
            return second["f_q10"] / 1024.0

        def scene() -> None:
            stage.clear()
            kernel.set_job(SLOT, None)
            seen = factors()
            start = 0.5 if scope is Scope.JOB else 0.0
            # The first ACK already counts a few packets.
            assert f_of(params.shape, start) - 0.01 <= seen[0] <= f_of(params.shape, start + 0.3)
            assert seen[-1] == pytest.approx(float(f_of(params.shape, 1.0)), abs=0.1)
            assert (np.diff(seen) >= 0).all()

        attempts(scene)
    stage.clear()


@pytest.mark.parametrize("variant", [Variant.CUBIC, Variant.HOSTCC])
def test_job_without_a_period_is_plain(stage: Stage, progs: Path, variant: Variant) -> None:
    """Once it has been found out, its window is that of plain cubic to the bit."""
    names = {Variant.CUBIC: "shadow_cubic", Variant.HOSTCC: "shadow_host"}
    sizes = [size * 1000 for size in (900, 300, 2000, 150, 700, 1600, 200, 500, 1500, 3000, 100)]
    gaps = [17.0, 45, 30, 22, 60, 15, 35, 20, 50, 25, 40]
    with mltcp_from(progs / "shadow.bpf.o", {variant: names[variant]}) as (kernel, obj):
        table = obj.map("shadow_counts")
        counts = table.lookup_batch()[1]
        follow(kernel, stage, replace(JOB, variant=variant, mode=Mode.MLTCP))
        sender, receiver = stage.pair()
        stage.dial(sender, receiver, flows=4)
        for _ in range(2):
            sender.ask("send", sizes=sizes, gaps_ms=gaps)
            assert state(kernel)["stance"] == enums()["HCC_STANCE_LEARN"]
            counts = table.lookup_batch()[1]
            for key in range(table.max_entries):
                table.update(key, np.zeros((), table.value_dtype))
        assert delivered(sender, receiver) == 2 * sum(sizes)
    stage.clear()
    avoid = counts[obj.enums["SHADOW_AVOID"]]
    assert avoid["calls"] > 300
    assert counts["mismatches"].sum() == 0
