"""The gate of a job: while closed, next to nothing of a burst leaves; it opens by itself, too.

A burst is held only at the boundary of an iteration, so every scene sends some iterations first,
and closes the gate once the last acknowledgement is in.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hostcc.lab.scenario import FabricSpec
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.params import JobParams, Variant
from tests.mltcp.stage import (
    SLOT,
    Peer,
    Stage,
    attempts,
    delivered,
    enums,
    mltcp,
    slow_link,
    state,
    until,
)

pytestmark = pytest.mark.kernel

RATE_MBIT = 200
BYTES = 2_000_000
FLOWS = 4
FIRST_BYTES = 10_000
UNLIMITED = 2**32 - 1
PACKET_BYTES = 1500
LONG_NS = 3600 * 10**9
GAP_MS = 250
PAUSE_S = 0.4
"""Before the burst that is held: what it may wait is its period, which is longer than that."""
STALE_S = 0.4
JOB = JobParams(name="training", variant=Variant.CUBIC)
ALL = [Variant.RENO, Variant.CUBIC, Variant.DCTCP, Variant.HOSTCC]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(FabricSpec(rate_mbit=RATE_MBIT, buffer_packets=60)) as made:
        made.sysctl({"net/ipv4/tcp_ecn": "1"})
        yield made


@pytest.fixture(scope="module")
def kernel() -> Iterator[MltcpKernel]:
    with mltcp() as made:
        yield made


def kind(name: str) -> int:
    return enums()[f"HCC_EVENT_{name}"]


def told(kernel: MltcpKernel) -> list[int]:
    """The kinds of the events since the last call, without ends of iterations."""
    events = kernel.events()
    mine = events[(events["slot"] == SLOT) & (events["kind"] != kind("ITERATION"))]
    return [int(one) for one in mine["kind"]]


def periodic(
    kernel: MltcpKernel,
    stage: Stage,
    variant: Variant = Variant.CUBIC,
    *,
    armed: bool = True,
    below: str = "job",
) -> tuple[Peer, Peer]:
    """A job that is known, whose flows are at rest."""
    stage.clear()
    until(lambda: state(kernel)["flows"] == 0, "the end of earlier connections")
    kernel.set_job(SLOT, None)
    kernel.set_job(SLOT, replace(JOB, variant=variant))
    kernel.attach_cgroup(SLOT, stage.group(0, below))
    kernel.set_gate(SLOT, armed=armed)
    sender, receiver = stage.pair(below=below)
    stage.dial(sender, receiver, flows=FLOWS)
    sender.ask("send", sizes=[BYTES] * 4, gaps_ms=[GAP_MS] * 3 + [0])
    until(lambda: state(kernel)["busy"] == 0, "the last acknowledgement")
    time.sleep(PAUSE_S)
    kernel.beat()
    kernel.events()
    assert state(kernel)["iterations"] == 3
    return sender, receiver


def close(kernel: MltcpKernel, ns: int = LONG_NS) -> int:
    deadline_ns = time.monotonic_ns() + ns
    kernel.set_gate(SLOT, armed=True, closed_until_ns=deadline_ns)
    return deadline_ns


def held(kernel: MltcpKernel) -> bool:
    return bool(state(kernel)["burst"] == enums()["HCC_BURST_HELD"])


def begin_held(kernel: MltcpKernel, sender: Peer, size: int = BYTES) -> None:
    """Start a burst at a closed gate."""
    sender.start("send", sizes=[size], gaps_ms=[0])
    until(lambda: state(kernel)["iterations"] >= 4, "the next iteration")


@pytest.mark.parametrize("variant", ALL)
def test_a_closed_gate_lets_a_few_packets_through_until_it_is_opened(
    kernel: MltcpKernel, stage: Stage, variant: Variant
) -> None:
    def scene() -> None:
        sender, receiver = periodic(kernel, stage, variant)
        acked = int(state(kernel)["bytes_acked"])
        close(kernel)
        began_s = time.monotonic()
        begin_held(kernel, sender)
        time.sleep(0.1)
        assert held(kernel)
        sent = int(state(kernel)["bytes_acked"]) - acked
        turns = 2 + (time.monotonic() - began_s) / (enums()["HCC_HOLD_GAP_MIN_US"] / 1e6)
        assert 0 < sent <= FLOWS * 2 * PACKET_BYTES * turns
        assert sent < BYTES / 2
        kernel.set_gate(SLOT, armed=True)
        sender.answer()
        now = state(kernel)
        assert told(kernel) == [kind("HELD"), kind("OPENED"), kind("END")]
        assert now["holds"] == 1
        assert 0.1e9 < now["held_ns"] <= (time.monotonic() - began_s) * 1e9
        assert delivered(sender, receiver) == 5 * BYTES

    attempts(scene)


def test_an_open_gate_holds_nothing(kernel: MltcpKernel, stage: Stage) -> None:
    def scene() -> None:
        sender, receiver = periodic(kernel, stage)
        sender.ask("send", sizes=[BYTES], gaps_ms=[0])
        assert told(kernel) == [kind("BEGIN"), kind("END")]
        assert state(kernel)["holds"] == 0
        assert delivered(sender, receiver) == 5 * BYTES

    attempts(scene)


@pytest.mark.parametrize("variant", [Variant.RENO, Variant.CUBIC, Variant.DCTCP])
def test_first_windows_are_as_fast_as_the_job_until_they_are_acknowledged(
    kernel: MltcpKernel, stage: Stage, variant: Variant
) -> None:
    def scene() -> None:
        sender, receiver = periodic(kernel, stage, variant)
        with slow_link(stage):
            paces = sender.ask("begin", size=FIRST_BYTES)
        sender.ask("send", sizes=[BYTES - FLOWS * FIRST_BYTES], gaps_ms=[0])
        # The link's first packet is acknowledged at once.
        assert paces.count(UNLIMITED) <= 1
        share = pytest.approx(RATE_MBIT / 8 * 1e6 / FLOWS, rel=0.3)
        assert all(pace == share for pace in paces if pace != UNLIMITED)
        assert set(sender.ask("pacing")) == {UNLIMITED}
        assert delivered(sender, receiver) == 5 * BYTES

    attempts(scene)


def test_a_gate_that_is_not_armed_is_open(kernel: MltcpKernel, stage: Stage) -> None:
    def scene() -> None:
        sender, receiver = periodic(kernel, stage, armed=False)
        kernel.set_gate(SLOT, armed=False, closed_until_ns=time.monotonic_ns() + LONG_NS)
        sender.ask("send", sizes=[BYTES], gaps_ms=[0])
        assert told(kernel) == []
        assert state(kernel)["holds"] == 0
        assert delivered(sender, receiver) == 5 * BYTES

    attempts(scene)


@pytest.mark.parametrize("variant", ALL)
def test_a_flow_that_is_not_at_rest_waits_as_well(
    kernel: MltcpKernel, stage: Stage, variant: Variant
) -> None:
    """As after a burst whose last acknowledgement ended a recovery."""

    def scene() -> None:
        sender, receiver = periodic(kernel, stage, variant, armed=False)
        acked = int(state(kernel)["bytes_acked"])
        close(kernel)
        begin_held(kernel, sender)
        time.sleep(0.1)
        assert held(kernel)
        assert 0 < int(state(kernel)["bytes_acked"]) - acked < BYTES / 2
        kernel.set_gate(SLOT, armed=True)
        sender.answer()
        assert told(kernel) == [kind("HELD"), kind("OPENED"), kind("END")]
        assert set(sender.ask("pacing")) == {UNLIMITED}
        assert delivered(sender, receiver) == 5 * BYTES

    attempts(scene)


def test_what_follows_a_long_pause_is_not_held(kernel: MltcpKernel, stage: Stage) -> None:
    """It may be a checkpoint."""

    def scene() -> None:
        sender, receiver = periodic(kernel, stage)
        time.sleep(4 * GAP_MS / 1e3)
        close(kernel)
        sender.ask("send", sizes=[BYTES], gaps_ms=[0])
        assert told(kernel) == [kind("BEGIN"), kind("END")]
        assert state(kernel)["holds"] == 0
        assert delivered(sender, receiver) == 5 * BYTES

    attempts(scene)


def test_a_hold_ends_at_its_deadline(kernel: MltcpKernel, stage: Stage) -> None:
    def scene() -> None:
        sender, receiver = periodic(kernel, stage)
        deadline_ns = close(kernel, 250_000_000)
        begin_held(kernel, sender)
        assert held(kernel)
        sender.answer()
        assert time.monotonic_ns() > deadline_ns
        assert told(kernel) == [kind("HELD"), kind("OPENED"), kind("END")]
        assert delivered(sender, receiver) == 5 * BYTES

    attempts(scene)


def test_a_hold_is_no_longer_than_a_period(kernel: MltcpKernel, stage: Stage) -> None:
    def scene() -> None:
        sender, receiver = periodic(kernel, stage)
        close(kernel)
        begin_held(kernel, sender, 3 * BYTES)  # more than leaves meanwhile
        assert held(kernel)
        sender.answer()
        now = state(kernel)
        assert told(kernel) == [kind("HELD"), kind("OPENED"), kind("END")]
        assert now["held_ns"] > now["period_ns"]
        assert delivered(sender, receiver) == 7 * BYTES

    attempts(scene)


def test_nothing_is_held_without_heartbeat(stage: Stage) -> None:
    with mltcp(Variant.CUBIC, stale_s=STALE_S) as kernel:

        def scene() -> None:
            sender, receiver = periodic(kernel, stage, below="left-alone")
            close(kernel)
            begin_held(kernel, sender)  # the agent is gone from here on
            assert held(kernel)
            sender.answer()
            assert told(kernel) == [kind("HELD"), kind("OPENED"), kind("END")]
            time.sleep(STALE_S)
            sender.ask("send", sizes=[BYTES], gaps_ms=[0])
            assert told(kernel) in ([], [kind("BEGIN"), kind("END")])
            assert state(kernel)["holds"] == 1
            assert delivered(sender, receiver) == 6 * BYTES

        attempts(scene)


def test_a_burst_that_has_begun_is_not_held(kernel: MltcpKernel, stage: Stage) -> None:
    """What idles within an iteration and goes on is not at a boundary, whatever the gate says."""

    def scene() -> None:
        sender, receiver = periodic(kernel, stage)
        # Half of its bytes, and the rest after a silence that ends no iteration.
        kernel.set_job(SLOT, replace(JOB, silence_us=30_000))
        sender.ask("send", sizes=[BYTES // 2], gaps_ms=[0])
        close(kernel)
        sender.ask("send", sizes=[BYTES // 2], gaps_ms=[0])
        assert told(kernel) == [kind("BEGIN"), kind("END")]
        assert state(kernel)["holds"] == 0
        assert delivered(sender, receiver) == 5 * BYTES

    attempts(scene)


def test_windows_come_back(kernel: MltcpKernel, stage: Stage) -> None:
    """A socket that is given back at rest has the window that it had."""
    namespace = [stage.namespace(0)]

    def windows() -> list[int]:
        rows = kernel.flows(namespace)
        return [int(one) for one in rows[rows["slot"] == SLOT]["cwnd"]]

    def scene() -> None:
        sender, receiver = periodic(kernel, stage)
        assert max(windows()) == 2
        kernel.switch_sockets(namespace, SLOT, to_default=True)
        assert set(sender.ask("controls")) == {"cubic"}
        assert min(windows()) > 2
        assert delivered(sender, receiver) == 4 * BYTES

    attempts(scene)
