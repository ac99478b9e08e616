"""tc commands of the bottleneck, and its counters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hostcc.lab.scenario import FabricSpec
from hostcc.lab.shaping import (
    QueueCounters,
    bottleneck_commands,
    burst_bytes,
    parse_counters,
)

OUTPUT = """[
 {"kind":"htb","handle":"1:","root":true,"options":{},"bytes":9,"packets":9,"drops":3},
 {"kind":"bfifo","handle":"10:","parent":"1:1","options":{"limit":45420},
  "bytes":15140,"packets":10,"drops":3,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"""


def test_commands_of_the_default() -> None:
    lines = bottleneck_commands("mid", FabricSpec())
    assert "rate 200000000bit ceil 200000000bit" in lines[1]
    assert "burst 4000 cburst 4000 quantum 1514" in lines[1]
    assert lines[2].endswith("bfifo limit 90840")


@given(st.floats(1, 10_000), st.integers(1280, 9000))
def test_burst_holds_a_packet_and_the_timer(rate: float, mtu: int) -> None:
    burst = burst_bytes(FabricSpec(rate_mbit=rate, mtu=mtu))
    assert burst >= 2 * mtu
    assert burst >= int(rate * 1e6 / 8 * 100e-6)


def test_counters_are_the_fifos() -> None:
    counters = parse_counters(OUTPUT)
    assert counters == QueueCounters(packets=10, bytes=15140, drops=3)
    assert parse_counters("[]") == QueueCounters()


def test_loss_is_of_what_was_offered() -> None:
    counters = QueueCounters(99, 0, 5) - QueueCounters(0, 0, 4)
    assert counters.loss_percent == 1.0
    assert QueueCounters().loss_percent == 0.0
