"""Raw sockets that send probes and receive the answers; needs CAP_NET_RAW."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import select
import socket
import struct
import time

from hostcc.errors import HostccError, InputError
from hostcc.paths import packets, probe_filter
from hostcc.paths.packets import Reply, Target
from hostcc.paths.search import Probe
from hostcc.system.closing import Closing

_ICMP_FILTER, _SOL_RAW, _ICMP6_FILTER = 1, 255, 1
_SO_ATTACH_FILTER = 26
_WANTED4, _WANTED6 = (0, 3, 11), (1, 3, 129)
_MAX_BYTES = 2048
_BURST = 512


class ProbeSocket(Closing):
    """Sends to one target and receives its answers.  A context manager.

    It belongs to the network namespace of the thread that makes it.  Raises HostccError.
    """

    def __init__(self, target: Target, prefix: int) -> None:
        """`prefix`: the upper half of all tokens; only what has it is heard."""
        self.target = target
        self._v6 = target.ipv6
        try:
            with contextlib.ExitStack() as stack:
                family = socket.AF_INET6 if self._v6 else socket.AF_INET
                self._out = stack.enter_context(
                    socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
                )
                icmp = socket.IPPROTO_ICMPV6 if self._v6 else socket.IPPROTO_ICMP
                self._in = stack.enter_context(socket.socket(family, socket.SOCK_RAW, icmp))
                self._in.setblocking(False)
                self._filter()
                self._attach(prefix)
                stack.pop_all()
        except OSError as error:
            needs = "; needs root (CAP_NET_RAW)" if isinstance(error, PermissionError) else ""
            words = f"probing {target.dst}: raw socket: {error.strerror}{needs}"
            raise HostccError(words) from None

    def send(self, probe: Probe) -> None:
        """Send one probe; a full queue is a lost probe.  Raises HostccError without a route."""
        if probe.port:
            packet = packets.probe(self.target, probe.port, probe.ttl, probe.token)
        else:
            packet = packets.echo(self.target, probe.ttl, probe.token)
        try:
            self._out.sendto(packet, (self.target.dst, 0))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise HostccError(f"probing {self.target.dst}: {error.strerror}") from None

    def wait(self, seconds: float) -> None:
        """Wait until an answer arrives, at most so many seconds."""
        select.select([self._in], [], [], max(0.0, seconds))

    def replies(self) -> list[Reply]:
        """Return all answers that have arrived."""
        found = []
        for _ in range(_BURST):
            try:
                data, where = self._in.recvfrom(_MAX_BYTES)
            except OSError:
                break
            if not self._v6:
                data = data[(data[0] & 0xF) * 4 :]
            responder = str(ipaddress.ip_address(where[0].partition("%")[0]))
            reply = packets.parse_reply(self.target, responder, data)
            if reply is not None:
                found.append(reply)
        return found

    def close(self) -> None:
        """Close both sockets."""
        self._out.close()
        self._in.close()

    def _filter(self) -> None:
        if self._v6:
            words = [0xFFFFFFFF] * 8
            for kind in _WANTED6:
                words[kind >> 5] &= ~(1 << (kind & 31))
            self._in.setsockopt(
                socket.IPPROTO_ICMPV6, _ICMP6_FILTER, struct.pack("8I", *words)
            )  # fmt: skip
        else:
            blocked = 0xFFFFFFFF
            for kind in _WANTED4:
                blocked &= ~(1 << kind)
            self._in.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("I", blocked))

    def _attach(self, prefix: int) -> None:
        instructions = probe_filter.program(self.target, prefix)
        code = ctypes.create_string_buffer(probe_filter.encoded(instructions))
        fprog = struct.pack("@HP", len(instructions), ctypes.addressof(code))
        self._in.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)


def source_address(dst: str) -> str:
    """Find the address that this host sends to `dst` from.  Raises InputError, HostccError."""
    try:
        wanted = ipaddress.ip_address(dst)
    except ValueError:
        raise InputError(f"destination: expected an IP address, got {dst!r:.60}") from None
    if wanted.is_multicast or wanted.is_unspecified:
        raise InputError(f"destination: expected the address of a host, got {dst}")
    family = socket.AF_INET6 if wanted.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((dst, packets.ROCE_PORT))  # sends nothing, chooses a route
            return str(sock.getsockname()[0])
    except OSError as error:
        raise HostccError(f"{dst}: {error.strerror}") from None


def now() -> float:
    """Read the clock of searches, seconds."""
    return time.monotonic()
