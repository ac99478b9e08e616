"""tc commands of links: rate, queues by DSCP, guarantees; and the counters of the queues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.lab.network import settings_of
from hostcc.lab.scenario import FabricSpec
from hostcc.lab.shaping import (
    QueueCounters,
    burst_bytes,
    commands,
    guarantees,
    parse_counters,
    rate_commands,
)
from hostcc.lab.topology import FabricSettings, Queueing

pytestmark = pytest.mark.unit

DEFAULT = FabricSettings(**settings_of(FabricSpec()))

OUTPUT = """[
 {"kind":"htb","handle":"1:","root":true,"options":{},"bytes":9,"packets":9,"drops":3},
 {"kind":"bfifo","handle":"10:","parent":"1:1","options":{"limit":45420},
  "bytes":15140,"packets":10,"drops":3,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"""


def test_commands_of_the_default() -> None:
    lines = commands("mid", DEFAULT, DEFAULT.rate_mbit)
    assert "rate 200000000bit ceil 200000000bit" in lines[1]
    assert "burst 4000 cburst 4000 quantum 1514" in lines[1]
    assert lines[2].endswith("bfifo limit 90840")


@given(st.floats(1, 10_000), st.integers(1280, 9000))
def test_burst_holds_a_packet_and_the_timer(rate: float, mtu: int) -> None:
    burst = burst_bytes(FabricSettings(mtu=mtu), rate)
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


def spec(queues: Queueing, levels: tuple[int, ...] = (40, 32)) -> FabricSettings:
    return FabricSettings(queues=queues, levels=levels)


def test_a_fifo_is_one_class_without_filters() -> None:
    lines = commands("spine1", spec(Queueing.FIFO), 100)
    assert not [line for line in lines if "filter" in line]
    assert len([line for line in lines if "bfifo" in line]) == 1


def test_strict_queues_borrow_in_order_and_nothing_starves() -> None:
    lines = commands("spine1", spec(Queueing.STRICT), 100)
    prios = [
        line.split("prio ")[1].split()[0] for line in lines if "class" in line and " prio " in line
    ]
    assert prios == ["0", "1", "2"]
    assert "match ip dsfield 0xa0 0xfc flowid 1:1" in "\n".join(lines)
    assert "match ip dsfield 0xc0 0xfc flowid 1:1" in "\n".join(lines)
    assert lines[0].endswith("htb default 3")


@given(
    st.sampled_from(Queueing),
    st.lists(st.integers(1, 47), max_size=12, unique=True),
    st.floats(1, 10_000),
)
def test_guarantees_never_exceed_the_rate(queues: Queueing, levels: list[int], rate: float) -> None:
    given_rates = guarantees(spec(queues, tuple(levels)), rate)
    assert all(one > 0 for one in given_rates)
    assert sum(given_rates) <= rate * (1 + 1e-9)


def test_another_rate_changes_every_class() -> None:
    lines = rate_commands("spine1", spec(Queueing.SHARES), 20)
    assert all(line.startswith("class change dev spine1") for line in lines)
    assert all("ceil 20000000bit" in line for line in lines)
    assert len(lines) == 4
