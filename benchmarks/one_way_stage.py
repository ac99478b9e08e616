"""Two jobs on a bottleneck, and every segment of one connection as both of its hosts see it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np

from benchmarks.one_way_delay import Segments
from hostcc.lab import netns
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.scenario import FabricSpec, JobSpec, Scenario
from hostcc.lab.scenario_hosts import hosts_of

RATE_MBIT = 50
BUFFER_PACKETS = 60
DEVICE = "eth0"
ETH_P_ALL, PACKET_OUTGOING = 3, 4
SO_TIMESTAMPNS, SO_RCVBUFFORCE, SO_MAX_PACING_RATE = 35, 33, 47
CAPTURE_BYTES = 1 << 26
"""Buffer of a capture; what does not fit is lost, and counts as never seen."""
HEAD_BYTES = 128
CHUNK = bytes(1 << 14)
SECOND_NS = 1e9


@dataclass(frozen=True)
class Burst:
    """How a connection sends; the default is all the time, as fast as it can."""

    on_s: float = 0.0
    """Out of each period; 0: always."""
    off_s: float = 0.0
    first_s: float = 0.0
    """When the first one begins."""
    pace_bytes: int = 0
    """Bytes a second at most; 0: any."""

    def silent_s(self, since_s: float) -> float:
        """Return for how long it does not send, so long after the connection began; 0: it does."""
        since_s -= self.first_s
        if since_s < 0 or not self.on_s:
            return max(0.0, -since_s)
        period_s = self.on_s + self.off_s
        phase_s = since_s % period_s
        return period_s - phase_s if phase_s > self.on_s else 0.0


@dataclass
class Capture:
    """Heads of the TCP segments that pass a host's device."""

    heads: list[tuple[int, bool, bytes]] = field(default_factory=list)
    """Nanoseconds since the epoch, whether it leaves, from the IPv4 header on."""

    def of(self, source: int, target: int, *, leaving: bool) -> Segments:
        """Return the segments from one port to another, in the order in which they were seen."""
        rows = [
            (at_ns, *found)
            for at_ns, out, head in self.heads
            if out is leaving and (found := _parsed(head, source, target)) is not None
        ]
        table = np.array(rows or np.empty((0, 6)), np.int64).T
        at_ns, end, size, ack, tsval, number = table
        return Segments(at_ns / SECOND_NS, end, size, ack, tsval, number)


class Stage:
    """Hosts h1 and h3 on the left, h2 and h4 on the right of one bottleneck in each direction."""

    def __init__(self) -> None:
        fabric = FabricSpec(rate_mbit=RATE_MBIT, buffer_packets=BUFFER_PACKETS)
        jobs = tuple(JobSpec(name=f"job{n}", comm_ms=1) for n in range(2))
        self._fabric = Dumbbell(fabric, hosts_of(Scenario(job=jobs)))
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Stage:
        with ExitStack() as stack:
            stack.enter_context(self._fabric)
            self._fabric.set_congestion_control("cubic")
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._fabric.close()

    def connect(self, sender: int, receiver: int, burst: Burst) -> tuple[int, int]:
        """Let a host send to another one until `end`; returns both ports."""
        address = self._fabric.hosts[receiver].address
        listener = self._inside(receiver, lambda: socket.create_server((address, 0)))
        target = listener.getsockname()
        sending = self._inside(sender, lambda: socket.create_connection(target))
        receiving, _ = listener.accept()
        listener.close()
        if burst.pace_bytes:
            sending.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, burst.pace_bytes)
        self._sockets += [sending, receiving]
        self._run(lambda: self._send(sending, burst))
        self._run(lambda: _drain(receiving))
        return sending.getsockname()[1], target[1]

    def end(self) -> None:
        """End all connections."""
        self._stop.set()
        for one in self._sockets:
            with suppress(OSError):  # a peer may have closed it
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()
        self._sockets, self._threads = [], []
        self._stop.clear()

    @contextmanager
    def capture(self, *hosts: int) -> Iterator[list[Capture]]:
        """Record what passes these hosts' devices."""
        made = [Capture() for _ in hosts]
        ended = threading.Event()
        sockets = [self._inside(host, _tap) for host in hosts]
        threads = [
            threading.Thread(target=_record, args=(tap, one, ended))
            for tap, one in zip(sockets, made, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            yield made
        finally:
            ended.set()
            for thread in threads:
                thread.join()
            for tap in sockets:
                tap.close()

    def _inside(self, host: int, function: Callable[[], socket.socket]) -> socket.socket:
        return netns.inside(self._fabric.namespace(self._fabric.hosts[host].name), function)

    def _run(self, function: Callable[[], None]) -> None:
        thread = threading.Thread(target=function)
        thread.start()
        self._threads.append(thread)

    def _send(self, sending: socket.socket, burst: Burst) -> None:
        began = time.monotonic()
        try:
            while not self._stop.wait(burst.silent_s(time.monotonic() - began)):
                sending.sendall(CHUNK)
        except OSError:
            return  # `end` has shut it down


def _drain(receiving: socket.socket) -> None:
    into = bytearray(1 << 16)
    try:
        while receiving.recv_into(into):
            pass
    except OSError:
        return


def _tap() -> socket.socket:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    tap.bind((DEVICE, ETH_P_ALL))
    tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, CAPTURE_BYTES)
    tap.settimeout(0.1)
    return tap


def _record(tap: socket.socket, into: Capture, ended: threading.Event) -> None:
    while True:
        try:
            head, more, _, address = tap.recvmsg(HEAD_BYTES, 64)
        except TimeoutError:
            if ended.is_set():
                return
            continue
        if more:
            seconds, nanoseconds = struct.unpack("qq", more[0][2])
            leaves = address[2] == PACKET_OUTGOING
            into.heads.append((seconds * 10**9 + nanoseconds, leaves, head))


def _parsed(head: bytes, source: int, target: int) -> tuple[int, int, int, int, int] | None:
    """Return end, payload, ack, TSval and identification of a TCP segment of these ports."""
    if len(head) < 40 or head[0] >> 4 != 4 or head[9] != socket.IPPROTO_TCP:
        return None
    start = 4 * (head[0] & 15)
    (ports,) = struct.unpack_from("!I", head, start)
    if ports != source << 16 | target:
        return None
    total, number = struct.unpack_from("!HH", head, 2)
    sequence, ack = struct.unpack_from("!II", head, start + 4)
    options = start + 20
    if head[options : options + 4] != b"\x01\x01\x08\x0a":  # as Linux lays out time stamps
        return None
    (tsval,) = struct.unpack_from("!I", head, options + 4)
    size = total - start - 4 * (head[start + 12] >> 4)
    return sequence + size, size, ack, tsval, number
