"""The DCTCP variant against an oracle, on a bottleneck that marks instead of dropping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostcc.lab.ecn import marked_packets
from hostcc.lab.scenario import FabricSpec
from hostcc.mltcp.params import JobParams, Mode, Shape, Variant
from tests.mltcp.dctcp_oracle import ECN_OK, EVENT_IS_CE, EVENT_LOSS
from tests.mltcp.dctcp_trace import Trace, recording
from tests.mltcp.stage import Stage, attempts, delivered, slow_link, stall_link

pytestmark = pytest.mark.kernel

BYTES = 2_000_000
JOB = JobParams(name="marked", variant=Variant.DCTCP, mode=Mode.STATIC)
ONE = replace(JOB, mode=Mode.MLTCP, shape=Shape(slope=0, intercept=1))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(FabricSpec(rate_mbit=200, buffer_packets=60, ecn_threshold_packets=10)) as made:
        yield made


def well_marked(trace: Trace) -> bool:
    """Windows grown and cut often enough, and alpha has been moved both ways."""
    alphas = {int(r["alpha_q10"]) for r in trace.of("in_ack")}
    return (
        len(alphas) > 10
        and len(trace.of("avoid")) > 300
        and len(trace.of("ssthresh")) > 5
        and len(trace.of("event", EVENT_IS_CE)) > 20
    )


@pytest.mark.parametrize("params", [JOB, ONE], ids=["static", "function"])
@pytest.mark.parametrize("v6", [False, True], ids=["v4", "v6"])
def test_who_connects_sends(stage: Stage, progs: Path, params: JobParams, v6: bool) -> None:
    """The congestion control is chosen before the SYN is sent."""
    with recording(stage, progs, params) as recorder:
        sender, receiver = stage.pair()
        stage.dial(sender, receiver, flows=2, v6=v6)
        trace = recorder.until(well_marked, lambda: sender.ask("send", sizes=[BYTES], gaps_ms=[30]))
        delivered(sender, receiver)
    assert trace.differences() == []
    assert all(r["ecn_flags"] & ECN_OK for r in trace.of("avoid"))


def test_who_accepts_sends(stage: Stage, progs: Path) -> None:
    with recording(stage, progs, JOB) as recorder:
        sender, receiver = stage.pair()
        stage.dial(receiver, sender, to=0)
        receiver.ask("turn_round", accepted=False)
        sender.ask("turn_round", accepted=True)
        trace = recorder.until(well_marked, lambda: sender.ask("send", sizes=[BYTES], gaps_ms=[0]))
        delivered(sender, receiver)
    assert trace.differences() == []
    assert all(r["ecn_flags"] & ECN_OK for r in trace.of("avoid"))


def test_losses_and_time_outs(stage: Stage, progs: Path) -> None:
    with recording(stage, progs, JOB) as recorder:
        sender, receiver = stage.pair()
        stage.dial(sender, receiver, flows=8)

        def overload() -> None:
            sender.start("send", sizes=[BYTES], gaps_ms=[0])
            stall_link(stage, 0.05)
            sender.answer()

        trace = recorder.until(lambda t: len(t.of("event", EVENT_LOSS)) > 3, overload)
        delivered(sender, receiver)
    assert trace.differences() == []


def test_undo_after_a_time_out_for_nothing(stage: Stage, progs: Path) -> None:
    with recording(stage, progs, JOB) as recorder:
        sender, receiver = stage.pair()
        stage.dial(sender, receiver)

        def late() -> None:
            sender.ask("send", sizes=[50_000] * 3, gaps_ms=[1] * 3)
            with slow_link(stage):
                sender.ask("send", sizes=[5000], gaps_ms=[0])

        trace = recorder.until(lambda t: bool(t.of("undo")), late)
        delivered(sender, receiver)
    assert trace.differences() == []


def test_every_mark_is_reported(stage: Stage, progs: Path) -> None:
    """What the sender counts is what the receiver saw, packet for packet: no delayed ACK
    speaks for both a marked and an unmarked packet."""
    other = stage.fabric.namespace(stage.host(1).name)

    # A loss that is none is sent again, and both copies can be marked: no probes for the tail.
    probes = "net.ipv4.tcp_early_retrans"
    stage.sysctl({probes: "0"})

    def scene() -> None:
        stage.clear()
        before = marked_packets(other)
        with recording(stage, progs, JOB) as recorder:
            sender, receiver = stage.pair()
            stage.dial(sender, receiver)
            # The last ones pass an empty queue, and the trace of their ACK has the final count.
            sender.ask("send", sizes=[2 * BYTES, 1000, 1000], gaps_ms=[20, 5, 0])
            trace = recorder.trace()
            delivered(sender, receiver)
        assert not trace.of("undo")
        assert marked_packets(other) - before > 50
        assert max(r["delivered_ce"] for r in trace.records) == marked_packets(other) - before

    try:
        attempts(scene, 20)  # after a time-out on a busy machine it is the same
    finally:
        stage.sysctl({probes: "3"})


def test_another_factor_shows(stage: Stage, progs: Path) -> None:
    """The comparison can fail: with F = 3 the windows differ, in avoidance only."""
    with recording(stage, progs, replace(JOB, static_weight=3)) as recorder:
        sender, receiver = stage.pair()
        stage.dial(sender, receiver)
        sender.ask("send", sizes=[2 * BYTES], gaps_ms=[0])
        delivered(sender, receiver)
        differences = recorder.trace().differences()
    assert differences
    assert all(", avoid: cwnd" in line for line in differences)
