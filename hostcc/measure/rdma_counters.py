"""RDMA bytes: what the kernel exports per port and per process, through one interface.

RDMA bypasses sockets and BPF, so counters are all there is: of ports in sysfs
(Documentation/ABI/stable/sysfs-class-infiniband), of processes where the driver can bind
queue pairs to counters by process (`rdma statistic`).  What a driver does not count is None,
never 0.  All of it is untrusted text: bounded, and skipped when it is not a number.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import msgspec

from hostcc.system.validate import UNDECODABLE

SYSFS = Path("/sys/class/infiniband")
MAX_DEVICES, MAX_PORTS, MAX_COUNTERS, MAX_PROCESSES = 64, 16, 512, 4096
MAX_TOOL_BYTES = 4 << 20
TOOL_S = 5.0
LARGEST = (1 << 64) - 1

_SETTINGS = frozenset({"lifespan"})
"""Files among the counters that are none: for how long the kernel keeps what it read, ms."""
_NAME = re.compile(r"^[A-Za-z0-9_.:-]{1,64}\Z")
_RATE = re.compile(r"^(\d{1,6})(?:\.(\d))? Gb/sec")

# (name, bytes that one count stands for), the first that a driver has.  The IB names count
# words of four octets; bnxt_re, efa and hns count bytes; mlx5's rdma_* are optional counters.
_TX_BYTES = (("port_xmit_data", 4), ("rdma_tx_bytes", 1), ("tx_bytes", 1))
_RX_BYTES = (("port_rcv_data", 4), ("rdma_rx_bytes", 1), ("rx_bytes", 1))
_TX_PACKETS = (
    ("port_xmit_packets", 1), ("rdma_tx_packets", 1), ("tx_pkts", 1), ("sent_pkts", 1),
)  # fmt: skip
_RX_PACKETS = (
    ("port_rcv_packets", 1), ("rdma_rx_packets", 1), ("rx_pkts", 1), ("rcvd_pkts", 1),
)  # fmt: skip


RETRANSMISSIONS = (
    "packet_seq_err", "out_of_sequence", "local_ack_timeout_err", "implied_nak_seq_err",
    "rnr_nak_retry_err", "completer_retry_err", "duplicate_request", "out_of_seq_request",
)  # fmt: skip
"""What drivers count of packets that were sent again: mlx5's names, then Soft-RoCE's."""


LOST = ("packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err", "completer_retry_err")
"""Of these, what the sender counts of packets that were lost."""


class CounterDelta(msgspec.Struct, frozen=True):
    """What was counted since some moment in the past; None is unknown."""

    tx_bytes: int | None
    rx_bytes: int | None
    tx_packets: int | None
    rx_packets: int | None


class Port(msgspec.Struct, frozen=True):
    """One port of one device."""

    device: str
    port: int
    link_layer: str
    """Ethernet, InfiniBand, or empty."""
    rate_bps: int | None
    """Bits per second, as the device says; software devices say what they like."""
    netdev: str
    """The network interface below a RoCE device; empty when there is none."""
    counted: CounterDelta
    raw: dict[str, int]
    """All counters by the driver's names."""


class Process(msgspec.Struct, frozen=True):
    """Queue pairs of one process on one port, bound to one set of counters."""

    device: str
    port: int
    pid: int
    queue_pairs: tuple[int, ...]
    counted: CounterDelta
    raw: dict[str, int]


class Reading(msgspec.Struct, frozen=True):
    """All counters at one moment."""

    ports: tuple[Port, ...]
    processes: tuple[Process, ...] | None
    """None: nobody can say, because there is no `rdma` tool or it failed."""


class RdmaCounters(Protocol):
    """The one interface; HostRdma is the real one."""

    def read(self) -> Reading:
        """All ports, and all processes that are bound."""

    def bind_by_process(self, device: str, port: int) -> str:
        """Ask for counters per process; why not, or empty when the kernel took the setting.

        It also takes it for drivers without such counters: what counts shows in `read`.
        """

    def unbind(self, device: str, port: int) -> str:
        """Undo `bind_by_process`; why not, or empty when it is undone."""


class HostRdma:
    """Counters of this host.  Reading never raises for what a device lacks.

    A binding outlives this process: whoever binds keeps a journal.
    """

    def __init__(self, sysfs: Path = SYSFS, tool: str = "rdma") -> None:
        self._sysfs = sysfs
        self._tool = shutil.which(tool)

    def read(self) -> Reading:
        """All ports, and all processes that are bound."""
        ports = tuple(read_ports(self._sysfs))
        if not ports:
            return Reading((), ())
        text, _ = self._ask("-j", "statistic", "qp", "show")
        return Reading(ports, None if text is None else parse_processes(text))

    def bind_by_process(self, device: str, port: int) -> str:
        """Ask for counters per process; why not, or empty when the kernel took the setting."""
        return self._set(device, port, "pid", "on")

    def unbind(self, device: str, port: int) -> str:
        """Undo `bind_by_process`; why not, or empty when it is undone."""
        return self._set(device, port, "off")

    def _set(self, device: str, port: int, *mode: str) -> str:
        if not _NAME.match(device) or not 0 < port <= MAX_PORTS:
            return f"no such port: {device!r:.70}/{port}"
        link = f"{device}/{port}"
        return self._ask("statistic", "qp", "set", "link", link, "auto", *mode)[1]

    def _ask(self, *arguments: str) -> tuple[bytes | None, str]:
        # (what the tool printed, why not).  By the tool, not by netlink: pyroute2 has no counters
        # of RDMA, and this one knows the nested answers of every kernel since 5.2.
        if self._tool is None:
            return None, "no `rdma` tool; install the package iproute2"
        try:
            done = subprocess.run(
                [self._tool, *arguments], capture_output=True, timeout=TOOL_S, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, f"rdma {' '.join(arguments)}: {type(error).__name__}"
        if done.returncode:
            words = " ".join(done.stderr.decode(errors="replace").split())[:200]
            return None, words or f"rdma: exit status {done.returncode}"
        return done.stdout[:MAX_TOOL_BYTES], ""


def read_ports(sysfs: Path = SYSFS) -> Iterable[Port]:
    """Every port below `sysfs`, in order."""
    for device in _names(sysfs, MAX_DEVICES):
        ports = sysfs / device / "ports"
        for name in _names(ports, MAX_PORTS):
            if name.isdecimal() and 0 < int(name) <= MAX_PORTS:
                yield _port(device, int(name), ports / name)


def retransmissions(device: str, sysfs: Path = SYSFS) -> int | None:
    """Count what a device had to send again, on all ports; None: it does not count that.

    Reads these few files alone: a NIC's firmware answers for each.
    """
    ports = sysfs / device / "ports"
    files = (ports / port / "hw_counters" / name for port in _names(ports, MAX_PORTS)
             for name in RETRANSMISSIONS)  # fmt: skip
    values = [int(text) for file in files if (text := _line(file)).isascii() and text.isdecimal()]
    return sum(values) if values else None


def packets(device: str, sysfs: Path = SYSFS) -> tuple[int, int] | None:
    """Count packets that a device sent, and how often some of its were lost; None: it does not."""
    sent, lost = [], []
    for port in _names(sysfs / device / "ports", MAX_PORTS):
        base = sysfs / device / "ports" / port
        if (found := _file(base, _TX_PACKETS)) is not None:
            sent.append(int(_line(found[0]) or 0) * found[1])
        rows = (_line(base / "hw_counters" / name) for name in LOST)
        lost += [int(row) for row in rows if row.isascii() and row.isdecimal()]
    return (sum(sent), sum(lost)) if sent and lost else None


def _port(device: str, number: int, path: Path) -> Port:
    # The same name in both means the same; `counters` is the one that a standard describes.
    raw = {**_counters(path / "hw_counters"), **_counters(path / "counters")}
    return Port(
        device, number, _line(path / "link_layer"), parse_rate(_line(path / "rate")),
        _line(path / "gid_attrs/ndevs/0"), counted(raw), raw,
    )  # fmt: skip


def counted(raw: Mapping[str, int]) -> CounterDelta:
    """Bytes and packets out of a driver's counters, whatever it calls them.  Pure."""
    return CounterDelta(
        _first(raw, _TX_BYTES), _first(raw, _RX_BYTES),
        _first(raw, _TX_PACKETS), _first(raw, _RX_PACKETS),
    )  # fmt: skip


def _first(raw: Mapping[str, int], names: Iterable[tuple[str, int]]) -> int | None:
    return next((raw[name] * unit for name, unit in names if name in raw), None)


class ByteFiles(msgspec.Struct, frozen=True):
    """Where a port counts bytes: for who reads nothing but these, often."""

    device: str
    port: int
    rate_bps: int | None
    tx: tuple[Path, int]
    """File, and the bytes that one count stands for."""
    rx: tuple[Path, int]

    def read(self) -> tuple[int, int] | None:
        """Bytes sent and received since some moment; None when the port is gone."""
        values = [(_line(path), unit) for path, unit in (self.tx, self.rx)]
        if not all(text.isascii() and text.isdecimal() for text, _ in values):
            return None
        sent, taken = (int(text) * unit for text, unit in values)
        return sent, taken


def byte_files(sysfs: Path = SYSFS) -> Iterable[ByteFiles]:
    """The ports that count bytes in both directions."""
    for port in read_ports(sysfs):
        base = sysfs / port.device / "ports" / str(port.port)
        tx, rx = (_file(base, names) for names in (_TX_BYTES, _RX_BYTES))
        if tx is not None and rx is not None:
            yield ByteFiles(port.device, port.port, port.rate_bps, tx, rx)


def _file(port: Path, names: Iterable[tuple[str, int]]) -> tuple[Path, int] | None:
    places = ((port / folder / name, unit) for name, unit in names
              for folder in ("counters", "hw_counters"))  # fmt: skip
    return next(((path, unit) for path, unit in places if _line(path).isdecimal()), None)


def parse_rate(text: str) -> int | None:
    """Bits per second from a line such as `100 Gb/sec (4X EDR)` or `2.5 Gb/sec (1X SDR)`."""
    match = _RATE.match(text)
    if not match:
        return None
    tenths = int(match[1]) * 10 + int(match[2] or 0)
    return tenths * 100_000_000 or None


def parse_processes(text: bytes) -> tuple[Process, ...]:
    """Processes in what `rdma -j statistic qp show` prints; anything unexpected is skipped."""
    try:
        rows: Any = msgspec.json.decode(text or b"[]")
    except UNDECODABLE:
        return ()
    found = (_process(row) for row in (rows if isinstance(rows, list) else [])[:MAX_PROCESSES])
    return tuple(process for process in found if process is not None)


def _process(row: Any) -> Process | None:
    if not isinstance(row, dict):
        return None
    device, port, pid = row.get("ifname"), row.get("port"), row.get("pid")
    if not isinstance(device, str) or not _NAME.match(device):
        return None
    if not _whole(port, MAX_PORTS) or not _whole(pid, 1 << 22):
        return None
    pairs = row.get("lqpn")
    numbers = tuple(n for n in pairs if _whole(n, 1 << 24)) if isinstance(pairs, list) else ()
    skip = {"ifindex", "port", "cntn", "pid"}
    values = ((k, v) for k, v in row.items() if k not in skip and _whole(v, LARGEST))
    raw = {k: v for k, v in values if _NAME.match(k)}
    return Process(device, port, pid, numbers, counted(raw), raw)


def _whole(value: Any, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _names(path: Path, most: int) -> list[str]:
    try:
        return sorted(entry.name for entry in path.iterdir() if _NAME.match(entry.name))[:most]
    except OSError:
        return []


def _counters(path: Path) -> dict[str, int]:
    found = {}
    for name in _names(path, MAX_COUNTERS):
        if name in _SETTINGS:
            continue
        text = _line(path / name)
        if text.isascii() and text.isdecimal() and int(text) <= LARGEST:
            found[name] = int(text)
    return found


def _line(path: Path) -> str:
    """A file's first line, at most 64 characters; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(64).decode("ascii", "replace")
    except OSError:
        return ""
    line = text.partition("\n")[0].strip()
    return line if line.isprintable() else ""
