"""Paths from in-band network telemetry, as a collector writes it down.

One JSON object a line, in a file that grows or in datagrams to a UNIX socket:

    {"src": "198.18.0.2", "dst": "198.18.1.2", "protocol": "tcp", "src_port": 49153,
     "dst_port": 5001, "hops": ["leaf1", "spine2", "leaf2"], "at": 1760000000.0}

`hops` are the switches in order by any names that are the same in all records; `at` is in
seconds since the epoch.  docs/paths.md has the fields and bounds.
"""

from __future__ import annotations

import ipaddress
import socket
import stat
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from hostcc.errors import HostccError, InputError
from hostcc.model import PathTable
from hostcc.paths import tables
from hostcc.paths.packets import Target
from hostcc.paths.sources import PROTOCOLS
from hostcc.paths.tables import LinkNames

MAX_LINE_BYTES = 8192
MAX_FLOWS = 200_000
MAX_READ_BYTES = 4 << 20
"""Of a file at one visit: the rest is for the next."""

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class Report(msgspec.Struct, frozen=True):
    """One record; other fields are ignored, collectors have many."""

    src: Annotated[str, msgspec.Meta(max_length=64)]
    dst: Annotated[str, msgspec.Meta(max_length=64)]
    protocol: Literal["tcp", "udp"]
    src_port: Port
    dst_port: Port
    hops: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=32)]
    at: Annotated[float, msgspec.Meta(ge=0, le=1e11)]


_DECODER = msgspec.json.Decoder(Report)
_Key = tuple[str, str, int, int]


class TelemetrySource:
    """A PathSource fed with records; what is older than `max_age_s` is forgotten."""

    def __init__(self, max_age_s: float = 600.0) -> None:
        self._max_age_s = max_age_s
        self._flows: dict[_Key, dict[int, Report]] = {}
        self._count = 0
        self.refused = 0
        """Lines that were no records."""
        self._offset = 0
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take whole lines; what is no record is counted and passed over."""
        for line in data.splitlines():
            if not line.strip():
                continue
            try:
                if len(line) > MAX_LINE_BYTES:
                    raise InputError("line too long")
                self._take(_DECODER.decode(line))
            except (msgspec.MsgspecError, InputError, ValueError, RecursionError):
                self.refused += 1

    def read_file(self, path: Path) -> None:
        """Take what was added to a file since the last visit.  Raises HostccError."""
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):  # reading could wait for ever
                raise HostccError(f"{path}: expected a regular file")
            if found.st_size < self._offset:  # rotated
                self._offset, self._rest = 0, b""
            with path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(MAX_READ_BYTES)
        except OSError as error:
            raise HostccError(f"{path}: {error.strerror}") from None
        self._offset += len(data)
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest[: MAX_LINE_BYTES + 1]
        self.feed(whole + newline)

    def read_socket(self, sock: socket.socket) -> None:
        """Take all datagrams that wait in a non-blocking UNIX socket."""
        for _ in range(10_000):
            try:
                self.feed(sock.recv(1 << 16))
            except (BlockingIOError, InterruptedError):
                return

    def forget(self, now: float) -> None:
        """Drop what is too old, `now` in seconds since the epoch."""
        for key, ports in list(self._flows.items()):
            old = [port for port, one in ports.items() if one.at < now - self._max_age_s]
            for port in old:
                del ports[port]
            self._count -= len(old)
            if not ports:
                del self._flows[key]

    def table(self, target: Target) -> PathTable | None:
        """See sources.PathSource."""
        key = (_plain(target.src), _plain(target.dst), target.protocol, target.dst_port)
        ports = self._flows.get(key)
        if not ports:
            return None
        ways: dict[tuple[str, ...], list[int]] = {}
        for port, report in ports.items():
            ways.setdefault(report.hops, []).append(port)
        made = {hops: tuple(found) for hops, found in ways.items()}
        newest = max(report.at for report in ports.values())
        return tables.table_of(target.src, target.dst, made, newest, LinkNames.ROUTER)

    def _take(self, report: Report) -> None:
        key = (_plain(report.src), _plain(report.dst), PROTOCOLS[report.protocol], report.dst_port)
        ports = self._flows.setdefault(key, {})
        known = ports.get(report.src_port)
        if known is not None and known.at > report.at:
            return
        if known is None:
            if self._count >= MAX_FLOWS:
                raise InputError("too many flows")
            self._count += 1
        ports[report.src_port] = report


def _plain(address: str) -> str:
    """One spelling of each address.  Raises ValueError."""
    return str(ipaddress.ip_address(address))


def listen(path: Path) -> socket.socket:
    """A UNIX datagram socket for collectors to send to.  Raises HostccError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        path.unlink(missing_ok=True)
        sock.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        sock.close()
        raise HostccError(f"{path}: {error.strerror}") from None
    return sock
