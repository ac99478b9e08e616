"""Iterations as the kernel sees them, against what a sender on a real path did."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from hostcc.lab.scenario import FabricSpec
from hostcc.mltcp.backend import Records
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.params import JobParams, Variant
from hostcc.model import BoundaryHint
from tests.mltcp.stage import (
    SLOT,
    Stage,
    delivered,
    enums,
    follow,
    mltcp,
    state,
    stretched,
    until,
)

pytestmark = pytest.mark.kernel

BYTES = 400_000
JOB = JobParams(name="training", variant=Variant.RENO)
SCALED = "HCC_STANCE_SCALED"


@pytest.fixture(scope="module")
def near() -> Iterator[Stage]:
    with Stage(FabricSpec(rate_mbit=200, buffer_packets=60)) as made:
        yield made


@pytest.fixture(scope="module")
def far() -> Iterator[Stage]:
    with Stage(FabricSpec(rate_mbit=200, buffer_packets=60, base_rtt_us=10_000)) as made:
        yield made


@pytest.fixture(scope="module")
def kernel() -> Iterator[MltcpKernel]:
    with mltcp() as made:
        yield made


def conf(kernel: MltcpKernel) -> np.void:
    """What the programs read of the job."""
    found: np.void = kernel._confs.lookup(SLOT)
    return found


def boundaries(kernel: MltcpKernel) -> Records:
    events = kernel.events()
    seen: Records = events[events["slot"] == SLOT]
    return seen


def fresh(kernel: MltcpKernel, stage: Stage, params: JobParams) -> None:
    """Forget what was learned, once the sockets of before are gone."""
    stage.clear()
    until(lambda: state(kernel)["flows"] == 0, "the end of earlier connections")
    kernel.set_job(SLOT, None)
    follow(kernel, stage, params)
    kernel.events()


def regular(
    kernel: MltcpKernel, stage: Stage, params: JobParams, flows: int, gap_ms: float, count: int = 6
) -> None:
    """A regular job; every boundary seen, every byte counted."""
    fresh(kernel, stage, params)
    sender, receiver = stage.pair()
    stage.dial(sender, receiver, flows=flows)
    began_s = time.monotonic()
    sender.ask("send", sizes=[BYTES] * count, gaps_ms=[gap_ms] * count)
    seen, now = boundaries(kernel), state(kernel)
    assert delivered(sender, receiver) == count * BYTES
    assert len(seen) == count - 1
    # A SYN counts one byte.
    assert BYTES <= seen["bytes"][0] <= BYTES + flows
    assert (seen["bytes"][1:] == BYTES).all()
    assert (seen["period_ns"] > gap_ms * 1e6).all()
    assert (seen["period_ns"] < (time.monotonic() - began_s) * 1e9).all()
    assert (seen["comm_ns"] < seen["period_ns"]).all()
    assert now["total_bytes"] == BYTES
    assert now["iterations"] == count - 1
    assert now["flows"] == flows
    assert now["busy"] == 0
    assert now["stance"] == enums()[SCALED]


@pytest.mark.parametrize("flows", [1, 8, 32])
@pytest.mark.parametrize("variant", [Variant.RENO, Variant.HOSTCC])
def test_near(kernel: MltcpKernel, near: Stage, variant: Variant, flows: int) -> None:
    params = replace(JOB, variant=variant)
    stretched(lambda longer: regular(kernel, near, params, flows, 60 * longer))


@pytest.mark.parametrize("flows", [1, 32])
@pytest.mark.parametrize("variant", [Variant.CUBIC, Variant.HOSTCC])
def test_far(kernel: MltcpKernel, far: Stage, variant: Variant, flows: int) -> None:
    params = replace(JOB, variant=variant)
    stretched(lambda longer: regular(kernel, far, params, flows, 200 * longer, count=4))


@pytest.mark.parametrize("after_idle", ["0", "1"])
def test_slow_start_after_idle(kernel: MltcpKernel, near: Stage, after_idle: str) -> None:
    """The window that the kernel takes away in a gap is no matter for boundaries."""
    near.sysctl({"net/ipv4/tcp_slow_start_after_idle": after_idle})
    stretched(lambda longer: regular(kernel, near, JOB, 4, 60 * longer))
    near.sysctl({"net/ipv4/tcp_slow_start_after_idle": "1"})


def test_totals_and_silence_that_were_given(kernel: MltcpKernel, near: Stage) -> None:
    def scene(longer: float) -> None:
        given = replace(JOB, bytes_per_iteration=5_000_000, silence_us=round(30_000 * longer))
        fresh(kernel, near, given)
        sender, receiver = near.pair()
        near.dial(sender, receiver, flows=2)
        gaps_ms = [10 * longer, 10 * longer, 80 * longer]
        sender.ask("send", sizes=[BYTES] * 9, gaps_ms=gaps_ms * 3)
        seen = boundaries(kernel)
        delivered(sender, receiver)
        assert len(seen) == 2
        assert (abs(seen["bytes"] - 3.0 * BYTES) <= 2).all()
        assert state(kernel)["total_bytes"] == 5_000_000

    stretched(scene)


def test_a_hint(kernel: MltcpKernel, near: Stage) -> None:
    """The silences between iterations differ more than half of the usual one allows."""

    def scene(longer: float, given_us: float, iterations: list[int]) -> None:
        fresh(kernel, near, replace(JOB, silence_us=round(given_us * longer)))
        times = (0.2 * longer, 0.1 * longer, 0.02 * longer)
        kernel.set_hint(SLOT, BoundaryHint(*times, bytes=2 * BYTES, margin_bytes=BYTES / 4))
        sender, receiver = near.pair()
        near.dial(sender, receiver, flows=2)
        gaps_ms = [gap * longer for gap in (10, 200, 10, 40, 10, 40, 10, 200, 10, 0)]
        sender.ask("send", sizes=[BYTES] * 10, gaps_ms=gaps_ms)
        seen = boundaries(kernel)
        delivered(sender, receiver)
        assert [round(one / BYTES) for one in seen["bytes"].tolist()] == iterations

    stretched(lambda longer: scene(longer, 0, [2, 2, 2, 2]))
    stretched(lambda longer: scene(longer, 100_000, [2, 6]))  # what was given comes first


def test_a_hint_lasts_while_a_job_does(kernel: MltcpKernel) -> None:
    hint = BoundaryHint(0.2, 0.1, 0.02, 2 * BYTES, BYTES / 4)
    kernel.set_job(SLOT, JOB)
    kernel.set_hint(SLOT, hint)
    first = conf(kernel)
    assert first["hint_id"]
    assert first["hint_period_us"] == 200_000
    assert first["hint_silence_us"] == 100_000
    assert first["hint_pause_us"] == 20_000
    assert (first["hint_bytes"], first["hint_margin_bytes"]) == (2 * BYTES, BYTES // 4)
    kernel.set_job(SLOT, replace(JOB, weight=2.0))
    assert conf(kernel)["hint_id"] == first["hint_id"]
    kernel.set_hint(SLOT, hint)
    assert conf(kernel)["hint_id"] not in (0, first["hint_id"])
    kernel.set_hint(SLOT, None)
    assert conf(kernel)["hint_id"] == 0
    kernel.set_hint(SLOT, replace(hint, period_s=1e9, bytes=1e15))
    assert conf(kernel)["hint_period_us"] == 2**32 - 1
    kernel.set_job(SLOT, None)
    kernel.set_hint(SLOT, hint)  # of no job
    kernel.set_job(SLOT, JOB)
    assert conf(kernel)["hint_id"] == 0
    kernel.set_job(SLOT, None)


def test_pauses_within_iterations(kernel: MltcpKernel, near: Stage) -> None:
    """Bursts with pauses between them make a job plain; as much at once does not."""

    def scene(longer: float, bursts: int, reason: str) -> None:
        fresh(kernel, near, replace(JOB, variant=Variant.HOSTCC))
        sender, receiver = near.pair()
        near.dial(sender, receiver, flows=4)
        sizes = [4 * BYTES // bursts] * bursts
        gaps_ms = [*[20 * longer] * (bursts - 1), 120 * longer]
        sender.ask("send", sizes=sizes * 10, gaps_ms=gaps_ms * 10)
        assert delivered(sender, receiver) == 40 * BYTES
        assert state(kernel)["total_bytes"] == 4 * BYTES
        assert state(kernel)["plain"] == enums()[reason]

    stretched(lambda longer: scene(longer, 4, "HCC_PLAIN_BURSTS"))
    stretched(lambda longer: scene(longer, 1, "HCC_PLAIN_UNMETERED"))  # what is left here


def test_several_jobs_are_told_apart(kernel: MltcpKernel, near: Stage) -> None:
    def scene(longer: float) -> None:
        fresh(kernel, near, JOB)
        kernel.set_job(2, None)
        kernel.set_job(2, replace(JOB, name="other"))
        kernel.attach_cgroup(2, near.group(0, "other"))
        pairs = [near.pair(), near.pair(below="other")]
        for sender, receiver in pairs:
            near.dial(sender, receiver, flows=2)
        for (sender, _), size in zip(pairs, (BYTES, 2 * BYTES), strict=True):
            sender.start("send", sizes=[size] * 4, gaps_ms=[60 * longer] * 4)
        for sender, _ in pairs:
            sender.answer()
        assert state(kernel)["total_bytes"] == BYTES
        assert state(kernel, 2)["total_bytes"] == 2 * BYTES
        for sender, receiver in pairs:
            delivered(sender, receiver)

    stretched(scene)
    kernel.detach_cgroup(2)
