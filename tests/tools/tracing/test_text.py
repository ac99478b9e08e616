"""What a person reads: lines out of records, whatever is unknown in them."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tools.tracing import trace_flows, trace_qdisc, trace_windows
from tools.tracing.netns_names import Namespaces
from tools.tracing.scaling import Progress
from tools.tracing.socket_jobs import TracedJob
from tools.tracing.trace_iterations import Timeline
from tools.tracing.trace_qdisc import DisciplineCounters, Leaf, handle
from tools.tracing.trace_windows import WindowScaling, flow_progress

pytestmark = pytest.mark.unit

COUNTS = {
    "packets": 10,
    "bytes": 15000,
    "drops": 2,
    "dropped_bytes": 3000,
    "waited": 4,
    "waited_ns": 8_000_000,
}


class Unnamed(Namespaces):
    """Knows one namespace."""

    def name(self, number: int) -> str:
        return f"ns{number}"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0xFFFFFFFF, "root"), (0x10000, "1:"), (0x10001, "1:1"), (0xABCD0012, "abcd:12"), (0, "0:")],
)
def test_handles(number: int, text: str) -> None:
    assert handle(number) == text


def a_qdisc(seen: DisciplineCounters, below: list[tuple[int, Leaf]]) -> dict[str, Any]:
    row = SimpleNamespace(
        handle=0x10000, parent=0xFFFFFFFF, ifindex=7, netns=3, kind=b"htb\0", name=b"eth0"
    )
    return trace_qdisc.describe(row, seen, below, {5: 100}, Unnamed(), 1.0)


def test_a_qdisc() -> None:
    leaves = [
        (5, Leaf(0x100000, 0x10001, "bfifo", 3, 4500, 102, counted=True)),
        (6, Leaf(0x110000, 0x10002, "pfifo_fast", 0, 0, 0, counted=False)),
    ]
    record = a_qdisc(DisciplineCounters(COUNTS, {80: 4}), leaves)
    assert (record["netns"], record["device"], record["drops"]) == ("ns3", "eth0", 2)
    assert record["delay_us"]["mean"] == 2000.0
    assert [leaf["drops"] for leaf in record["below"]] == [2, None]
    first, second, third = trace_qdisc.text(record).splitlines()
    assert (
        "ns3 eth0: htb 1: parent root  10 packets  15.0 kB  dropped 2  delay mean 2.00 ms" in first
    )
    assert second.strip() == "bfifo 10: parent 1:1  dropped 2  backlog 3 packets 4.50 kB"
    assert third.strip() == "pfifo_fast 11: parent 1:2  dropped -  backlog - packets -"


def test_a_qdisc_that_nothing_left() -> None:
    record = a_qdisc(DisciplineCounters({**COUNTS, "waited": 0}, {}), [])
    assert record["delay_us"] is None
    assert "no delay measured" in trace_qdisc.text(record)
    assert trace_qdisc.duration(0.4) == "<1 us"


def test_what_came_since() -> None:
    new = DisciplineCounters(COUNTS, {1: 5, 2: 7}).since(
        DisciplineCounters({**COUNTS, "packets": 4}, {1: 5})
    )
    assert new.counts["packets"] == 6
    assert new.counts["drops"] == 0
    assert new.buckets == {1: 0, 2: 7}


def a_window(**other: Any) -> Any:
    import ctypes

    octets = (ctypes.c_ubyte * 16)(*socket.inet_aton("198.18.0.1"))
    ends = SimpleNamespace(
        family=socket.AF_INET, lport=1, rport=2, netns=4, local=octets, remote=octets
    )
    values = {
        "at_ns": 10**9, "bytes_acked": 5, "pacing": 2**64 - 1, "ends": ends, "cwnd": 10,
        "ssthresh": 0x7FFFFFFF, "srtt_us": 0, "min_rtt_us": 2**32 - 1, "inflight": 0, "mss": 1448,
        "control": b"cubic\0",
    }  # fmt: skip
    return SimpleNamespace(**{**values, **other})


def test_a_window_of_which_little_is_known() -> None:
    record = trace_windows.sample(
        TracedJob("train"), 0xAB, a_window(), WindowScaling(), 2 * 10**9, Unnamed()
    )
    assert (record["local"], record["remote"]) == ("198.18.0.1:1", "198.18.0.1:2")
    assert record["age_s"] == 1.0
    unknown = ("ssthresh_packets", "srtt_us", "min_rtt_us", "pacing_bytes_per_s", "f", "stance")
    assert [record[key] for key in unknown] == [None] * 6
    shown = trace_windows.text(record, 1.5).split()[4:]
    assert shown == ["cubic", "10", "-", "0", "-", "-", "-", "-"]


def test_a_window_of_which_all_is_known() -> None:
    row = a_window(ssthresh=20, srtt_us=1500)
    scaled = WindowScaling("mltcp", "scaled", 0.5, 1.125)
    record = trace_windows.sample(TracedJob("train"), 1, row, scaled, 10**9, Unnamed())
    words = trace_windows.text(record, 1.5).split()
    assert words[5:] == ["10", "20", "0", "1.50", "ms", "0.500", "1.125", "scaled"]


def test_a_sockets_own_progress() -> None:
    form = np.dtype(
        {"names": ["flow"], "formats": [[("flow_kib", "u4"), ("total_kib", "u4")]],
         "offsets": [8], "itemsize": 104}
    )  # fmt: skip
    raw = bytearray(104)
    raw[8:16] = np.array([3, 4], "u4").tobytes()
    assert flow_progress(form, bytes(raw)) == Progress(3 << 10, 4 << 10)
    assert flow_progress(None, bytes(raw)) is None


def test_gateways() -> None:
    assert trace_flows.gateway(0, bytes(16)) is None
    assert trace_flows.gateway(socket.AF_INET, bytes([198, 18, 0, 1]) + bytes(12)) == "198.18.0.1"
    assert trace_flows.gateway(socket.AF_INET6, bytes([0xFD]) + bytes(14) + b"\1") == "fd00::1"


def test_a_flow_nobody_is_known_to_have_made() -> None:
    record = {
        "at": 0.0, "event": "accepted", "job": None, "pid": None, "command": None, "netns": "-",
        "local": "a:1", "remote": "b:2", "device": None, "gateway": "c",
    }  # fmt: skip
    assert trace_flows.text(record).endswith(" accepted -                ?                      "
                                       "a:1 -> b:2  dev ? via c  netns -")  # fmt: skip
    row = SimpleNamespace(at_ns=3 * 10**9, bytes_sent=10, bytes_received=2000)
    end = trace_flows.closed({**record, "at_ns": 10**9}, row)
    assert (end["event"], end["lasted_s"]) == ("closed", 2.0)
    assert "at_ns" not in end
    assert trace_flows.text(end).endswith("after 2.00 s, sent 10 B, received 2.00 kB")


def test_lanes_of_several_jobs_have_one_scale() -> None:
    line = Timeline(0.05, 1)
    busy = np.zeros(10, np.int64)
    for job, size in (("b", 800), ("a", 100)):
        rows = np.column_stack([np.arange(10), np.full(10, size), busy])
        assert line.add(job, None, rows) == []
    (first, second) = line.lanes(0.0, 0.064)
    assert first == ("a", "." * 10 + " " * 54)
    assert second == ("b", "#" * 10 + " " * 54)
    (a, b) = line.idle(1.0)
    assert {a[0], b[0]} == {"a", "b"}
    assert line.latest["b"].bytes == 8000
    assert line.lanes(5.0, 6.0) == [("a", " " * 64), ("b", " " * 64)]
