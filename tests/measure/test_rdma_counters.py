"""Counters of RDMA ports and processes, out of recorded trees and of damaged ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure import rdma_counters
from hostcc.measure.rdma_counters import (
    CounterDelta,
    HostRdma,
    counted,
    packets,
    parse_processes,
    parse_rate,
)

pytestmark = pytest.mark.unit

RECORDED = Path(__file__).parent / "data/rdma-rxe.host"

# What `rdma -j statistic qp show` prints, by its source (iproute2, rdma/stat.c), for an mlx5
# port that counts by process with its optional counters on.
ROW = {
    "ifindex": 2, "ifname": "mlx5_2", "port": 1, "cntn": 4, "qp-type": "RC", "pid": 31337,
    "comm": "python3", "rx_write_requests": 12, "rdma_tx_bytes": 5_000_000_000,
    "rdma_rx_bytes": 17, "rdma_tx_packets": 1_220_704, "rdma_rx_packets": 1, "lqpn": [178, 179],
}  # fmt: skip


def grow(root: Path, lines: list[str]) -> Path:
    """The tree of a recording: `path = first line` each."""
    for line in lines:
        name, _, text = line.partition(" = ")
        if not line.startswith("#"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
    return root


def test_soft_roce(tmp_path: Path) -> None:
    sysfs = grow(tmp_path, RECORDED.read_text().splitlines())
    (port,) = rdma_counters.read_ports(sysfs)
    assert (port.device, port.port, port.netdev) == ("rxa", 1, "va")
    assert (port.link_layer, port.rate_bps) == ("Ethernet", 10**10)
    # It counts packets, not bytes: those are unknown, not 0.
    assert port.counted == CounterDelta(None, None, 704, 11)
    assert "lifespan" not in port.raw
    assert port.raw["rdma_sends"] == 0


def test_words_of_four_octets(tmp_path: Path) -> None:
    """By Documentation/ABI/stable/sysfs-class-infiniband; several ports, in order."""
    ports = [f"mlx5_{n}/ports/{p}" for n in (1, 0) for p in (1, 2)]
    lines = [
        line
        for number, port in enumerate(ports)
        for line in (
            f"{port}/rate = 400 Gb/sec (4X NDR)", f"{port}/counters/port_xmit_data = {number + 1}",
            f"{port}/counters/port_rcv_data = {2**62}", f"{port}/counters/port_xmit_packets = 5",
            f"{port}/hw_counters/rx_bytes = 1",
        )
    ]  # fmt: skip
    found = list(rdma_counters.read_ports(grow(tmp_path, lines)))
    assert [(p.device, p.port) for p in found] == [
        ("mlx5_0", 1), ("mlx5_0", 2), ("mlx5_1", 1), ("mlx5_1", 2),
    ]  # fmt: skip
    assert found[2].counted == CounterDelta(4, 2**64, 5, None)
    assert found[2].rate_bps == 4 * 10**11


def test_nonsense_is_skipped(tmp_path: Path) -> None:
    lines = [
        "a/ports/1/hw_counters/tx_bytes = -1", "a/ports/1/hw_counters/rx_bytes = 12 34",
        "a/ports/1/hw_counters/tx_pkts = " + "9" * 60, "a/ports/1/hw_counters/rx_pkts = ٣",
        "a/ports/1/hw_counters/ok = 7", "a/ports/1/rate = fast", "a/ports/0/rate = 1 Gb/sec",
        "a/ports/99/rate = 1 Gb/sec", "a/ports/x/rate = 1 Gb/sec", "b c/ports/1/rate = 1 Gb/sec",
    ]  # fmt: skip
    (port,) = rdma_counters.read_ports(grow(tmp_path, lines))
    assert port.raw == {"ok": 7}
    assert port.counted == CounterDelta(None, None, None, None)
    assert (port.rate_bps, port.netdev, port.link_layer) == (None, "", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100 Gb/sec (4X EDR)", 10**11), ("2.5 Gb/sec (1X SDR)", 25 * 10**8), ("0 Gb/sec", None),
     ("", None), ("100 Mb/sec", None), ("9999999 Gb/sec", None)],
)  # fmt: skip
def test_rate(text: str, expected: int | None) -> None:
    assert parse_rate(text) == expected


def test_processes() -> None:
    (process,) = parse_processes(json.dumps([ROW]).encode())
    assert (process.device, process.port, process.pid) == ("mlx5_2", 1, 31337)
    assert process.queue_pairs == (178, 179)
    assert process.counted == CounterDelta(5_000_000_000, 17, 1_220_704, 1)
    assert "pid" not in process.raw
    assert process.raw["rx_write_requests"] == 12


@pytest.mark.parametrize(
    "row",
    [
        7,
        {**ROW, "pid": "31337"},
        {**ROW, "pid": True},
        {**ROW, "port": -1},
        {**ROW, "ifname": "a b"},
        {k: v for k, v in ROW.items() if k != "pid"},  # bound by type, not by process
    ],
)
def test_other_rows_are_skipped(row: object) -> None:
    assert parse_processes(json.dumps([row, ROW]).encode()) == parse_processes(
        json.dumps([ROW]).encode()
    )


@given(st.one_of(st.binary(max_size=200), st.text(max_size=50).map(str.encode)))
def test_any_output(text: bytes) -> None:
    parse_processes(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from([*ROW, "x"]), inner, max_size=9)
        ),
        max_leaves=30,
    )
)
def test_any_json(value: object) -> None:
    for process in parse_processes(json.dumps(value).encode()):
        assert process.pid >= 0
        assert all(count >= 0 for count in process.raw.values())


def test_names_of_drivers() -> None:
    assert counted({"tx_bytes": 3, "port_xmit_data": 2}).tx_bytes == 8
    assert counted({"rcvd_pkts": 3}).rx_packets == 3
    assert counted({}) == CounterDelta(None, None, None, None)


def test_host_without_devices_or_tool(tmp_path: Path) -> None:
    assert HostRdma(tmp_path / "none").read() == rdma_counters.Reading((), ())
    sysfs = grow(tmp_path, RECORDED.read_text().splitlines())
    reading = HostRdma(sysfs, tool="hostcc-has-no-such-tool").read()
    assert len(reading.ports) == 1
    assert reading.processes is None
    assert "iproute2" in HostRdma(sysfs, tool="hostcc-has-no-such-tool").unbind("rxa", 1)
    assert "no such port" in HostRdma(sysfs).bind_by_process("rxa; reboot", 1)


def test_tool(tmp_path: Path) -> None:
    """The real reader with a tool that prints what iproute2's would, or fails as it would."""
    sysfs = grow(tmp_path / "sys", RECORDED.read_text().splitlines())
    tool, asked = tmp_path / "rdma", tmp_path / "asked"
    tool.write_text(f"#!/bin/sh\necho \"$@\" >>{asked}\nprintf '%s' '{json.dumps([ROW])}'\n")
    tool.chmod(0o755)
    source = HostRdma(sysfs, str(tool))
    processes = source.read().processes
    assert processes
    assert processes[0].pid == 31337
    assert source.bind_by_process("rxa", 1) == ""
    assert asked.read_text().splitlines() == [
        "-j statistic qp show", "statistic qp set link rxa/1 auto pid on",
    ]  # fmt: skip
    tool.write_text("#!/bin/sh\necho 'error: Operation not supported' >&2; exit 1\n")
    assert source.read().processes is None
    assert source.unbind("rxa", 1) == "error: Operation not supported"


def test_packets_sent_and_lost(tmp_path: Path) -> None:
    """Both have to be counted; of a driver that counts in both folders the standard's one."""
    base = tmp_path / "mlx5_0/ports/1"
    for folder in ("counters", "hw_counters"):
        (base / folder).mkdir(parents=True)
    assert packets("mlx5_0", tmp_path) is None
    (base / "counters/port_xmit_packets").write_text("1000\n")
    assert packets("mlx5_0", tmp_path) is None
    for name, value in (
        ("packet_seq_err", 3),
        ("local_ack_timeout_err", 4),
        ("out_of_sequence", 9),
    ):
        (base / "hw_counters" / name).write_text(f"{value}\n")
    assert packets("mlx5_0", tmp_path) == (1000, 7)  # what comes in out of order others have sent
    assert packets("mlx5_1", tmp_path) is None
