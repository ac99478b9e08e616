"""Reads paths from in-band network telemetry, as a collector writes it down.

One JSON object a line, in a file that grows or in datagrams to a UNIX socket (at most 64 KiB and
1,000 lines each):

    {"src": "198.18.0.2", "dst": "198.18.1.2", "protocol": "tcp", "src_port": 49153,
     "dst_port": 5001, "hops": ["leaf1", "spine2", "leaf2"], "at": 1760000000.0}

`hops` are the switches in order by any names that are the same in all records; `at` is in
seconds since the epoch.  docs/internals/paths.md has the fields and bounds.
"""

from __future__ import annotations

import socket
import stat
from pathlib import Path
from threading import Lock
from typing import Annotated, Literal

import msgspec

from hostcc.errors import HostccError, InputError
from hostcc.limits import VISIBLE
from hostcc.model import PathTable
from hostcc.paths import probed_tables
from hostcc.paths.packets import Target
from hostcc.paths.probed_tables import LinkNames
from hostcc.paths.sources import PROTOCOLS

MAX_LINE_BYTES = 8192
MAX_DATAGRAM_BYTES = 1 << 16
MAX_DATAGRAM_LINES = 1000
MAX_HELD_BYTES = 64 << 20
"""Memory of all records that are kept: some 50,000 of six hops."""
MAX_READ_BYTES = 4 << 20
"""Bytes of a file read at once: the rest is for the next time."""
MAX_AHEAD_S = 60.0
"""A record may be this much newer than the host's clock."""

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Name = Annotated[str, msgspec.Meta(pattern=rf"^{VISIBLE}{{1,64}}\Z")]
Address = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Fa-f:.]{0,64}\Z")]


class Report(msgspec.Struct, frozen=True):
    """One record; other fields are ignored, collectors have many."""

    src: Address
    dst: Address
    protocol: Literal["tcp", "udp"]
    src_port: Port
    dst_port: Port
    hops: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=32)]
    at: Annotated[float, msgspec.Meta(ge=0, le=1e11)]


_DECODER = msgspec.json.Decoder(Report)
_Key = tuple[bytes, bytes, int, int]


class TelemetrySource:
    """A PathSource of records.  Any thread may call; nobody waits for more than a record."""

    def __init__(self) -> None:
        self._flows: dict[_Key, dict[int, Report]] = {}
        self._held = 0
        # Of what is held.
        self._lock = Lock()
        self.refused = 0
        """Lines that were no records, or for which there was no room."""
        # Of the file, and how far it was read.
        self._reading = Lock()
        self._file: Path | None = None
        self._offset = 0
        self._rest = b""

    def __len__(self) -> int:
        """Count the records that are kept."""
        return sum(map(len, list(self._flows.values())))

    def feed(self, data: bytes, most: int | None = None) -> int:
        """Take whole lines, at most `most`; returns how many there were.

        Invalid records are counted and skipped.
        """
        lines = data.splitlines()
        for line in lines[:most]:
            if not line.strip():
                continue
            try:
                if len(line) > MAX_LINE_BYTES:
                    raise InputError("line too long")
                self._take(_DECODER.decode(line))
            except (msgspec.MsgspecError, InputError, ValueError, RecursionError):
                self.refused += 1
        if most is not None and len(lines) > most:
            self.refused += len(lines) - most
        return min(len(lines), most or len(lines))

    def read_file(self, path: Path) -> None:
        """Take what was added to a file since the last call.  Raises HostccError."""
        with self._reading:
            try:
                data = self._added(path)
            except OSError as error:
                raise HostccError(f"{path}: {error.strerror}") from None
            whole, newline, rest = (self._rest + data).rpartition(b"\n")
            self._rest = rest[: MAX_LINE_BYTES + 1]
        self.feed(whole + newline)

    def _added(self, path: Path) -> bytes:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # reading could wait for ever
            raise HostccError(f"{path}: expected a regular file")
        if path != self._file or found.st_size < self._offset:  # rotated
            self._file, self._offset, self._rest = path, 0, b""
        with path.open("rb") as file:
            file.seek(self._offset)
            data = file.read(MAX_READ_BYTES)
        self._offset += len(data)
        return data

    def read_socket(self, sock: socket.socket) -> int:
        """Take a datagram of a non-blocking socket; returns its lines, 0: none waits."""
        try:
            data = sock.recv(MAX_DATAGRAM_BYTES)
        except OSError:
            return 0
        return max(1, self.feed(data, MAX_DATAGRAM_LINES))

    def forget(self, now: float, max_age_s: float = 600.0) -> None:
        """Drop records that are too old or from the future; `now`: seconds since the epoch."""
        first, last = now - max_age_s, now + MAX_AHEAD_S
        for key in list(self._flows):
            with self._lock:
                ports = self._flows.get(key, {})
                for port in [port for port, one in ports.items() if not first <= one.at <= last]:
                    self._held -= _size(ports.pop(port))
                if not ports:
                    self._flows.pop(key, None)

    def table(self, target: Target) -> PathTable | None:
        """Return the paths of a target; see sources.PathSource."""
        key = (_packed(target.src), _packed(target.dst), target.protocol, target.dst_port)
        with self._lock:
            reports = dict(self._flows.get(key, {}))
        if not reports:
            return None
        ways: dict[tuple[str, ...], list[int]] = {}
        for port, report in reports.items():
            ways.setdefault(report.hops, []).append(port)
        made = {hops: tuple(found) for hops, found in ways.items()}
        newest = max(report.at for report in reports.values())
        return probed_tables.table_of(target.src, target.dst, made, newest, LinkNames.ROUTER)

    def _take(self, report: Report) -> None:
        ends = _packed(report.src), _packed(report.dst)
        key = (*ends, PROTOCOLS[report.protocol], report.dst_port)
        with self._lock:
            known = self._flows.get(key, {}).get(report.src_port)
            if known is not None and known.at > report.at:
                return
            held = self._held + _size(report) - (_size(known) if known is not None else 0)
            if held > MAX_HELD_BYTES:
                raise InputError("too many records")
            self._held = held
            self._flows.setdefault(key, {})[report.src_port] = report


def _size(report: Report) -> int:
    # Bytes that it takes, dictionaries and all: more rather than less.
    return 700 + sum(72 + len(name) * 4 for name in report.hops)


def _packed(address: str) -> bytes:
    # The same for every spelling of an address.  Raises ValueError.
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.inet_pton(family, address.partition("%")[0])
    except OSError:
        raise ValueError("expected an address") from None
