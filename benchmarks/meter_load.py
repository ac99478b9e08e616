"""Traffic of meter-cost and ack-cost: `-m benchmarks.meter_load pump|sink|churn|stream CPU`.

Each reads lines from standard input, answers with one line each, and ends with it.

pump: the first line is JSON, see `Load`; answers `open N`; each further line is a number of
seconds, for which it sends and receives over loopback: answered by `BYTES NANOSECONDS`.
sink: the first line is a port; accepts and drains.
churn: the first line is JSON; opens and closes connections to the sink at the given rate, and
answers any line with their number so far.
stream: as pump, but it sends to the sink, over all connections as fast as they take it; `open N`
is followed by the congestion control of each.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time
from pathlib import Path

import msgspec

from benchmarks.holder import PATIENCE_S, allow_files
from hostcc.lab.variants import CONTROL_NAME_MAX

PIECE = bytes(1 << 16)
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Load(msgspec.Struct, frozen=True):
    """What to send."""

    port: int
    """Of the sink; the pump has listeners of its own."""
    addresses: list[str]
    """Destinations: each job has `destinations` of them, and its flows go to these in turn."""
    groups: list[str]
    """cgroups, one a job; flows are dealt out to them.  A socket belongs to the group that its
    process is in when it is made."""
    flows: int
    """Connections in all; of churn: connections a second."""
    destinations: int = 8


def sink() -> None:
    """Accept and drain."""
    poll = select.epoll()
    links: dict[int, socket.socket] = {}
    listener = socket.create_server(("", int(sys.stdin.readline())), backlog=8192)
    listener.setblocking(False)
    poll.register(listener, select.EPOLLIN)
    poll.register(sys.stdin, select.EPOLLIN | select.EPOLLHUP)
    print("listening", flush=True)
    room = bytearray(1 << 20)
    while True:
        for fd, _ in poll.poll():
            if fd in links:
                if not _receive(links[fd], room):
                    poll.unregister(fd)
                    links.pop(fd).close()
            elif fd == listener.fileno():
                for link in _accept(listener):
                    links[link.fileno()] = link
                    poll.register(link, select.EPOLLIN)
            else:
                return


def _accept(listener: socket.socket) -> list[socket.socket]:
    links: list[socket.socket] = []
    while len(links) < 256:
        try:
            links.append(listener.accept()[0])
        except OSError:
            break
    return links


def _receive(link: socket.socket, room: bytearray) -> int:
    """Bytes taken; 0 when it is closed, less when there was nothing."""
    try:
        return link.recv_into(room, 0, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return -1
    except OSError:
        return 0


Pair = tuple[socket.socket, socket.socket]


def pump(what: Load) -> None:
    """Send a piece and receive it, over each connection in turn.

    One process on one CPU has both ends, so nothing waits for anything, and throughput is what
    a CPU can do: it does not depend on the scheduler or on congestion control.
    """
    pairs: list[Pair] = []
    for job, group in enumerate(what.groups):
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
        with socket.create_server(("", 0)) as listener:
            port = listener.getsockname()[1]
            for turn in range(len(range(job, what.flows, len(what.groups)))):
                out = _connect(what, job, turn, port)
                pairs.append((out, listener.accept()[0]))
    print(f"open {len(pairs)}", flush=True)
    room = memoryview(bytearray(len(PIECE)))
    at = 0
    while line := sys.stdin.readline():
        start, sent = time.monotonic_ns(), 0
        end = start + int(float(line) * 1e9)
        while (now := time.monotonic_ns()) < end:
            out, into = pairs[at]
            at = (at + 1) % len(pairs)
            out.sendall(PIECE)
            left = len(PIECE)
            while left:
                left -= into.recv_into(room, left)
            sent += len(PIECE)
        print(sent, now - start, flush=True)


def churn(what: Load) -> None:
    """Open, send a little, close: at even times, catching up when late."""
    poll = select.poll()
    poll.register(sys.stdin, select.POLLIN | select.POLLHUP)
    (Path(what.groups[0]) / "cgroup.procs").write_text(str(os.getpid()))
    print("open 0", flush=True)
    start, done = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - start) * what.flows)
        for _ in range(min(100, due - done)):
            with _connect(what, 0, done, what.port) as link:
                # Thousands in TIME_WAIT would be another benchmark.
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                link.send(PIECE[:1000])
            done += 1
        if poll.poll(0 if due - done > 100 else 5):
            if not sys.stdin.readline():
                return
            print(done, flush=True)


def stream(what: Load) -> None:
    """Keep the send buffers of all connections full while it is asked to."""
    (Path(what.groups[0]) / "cgroup.procs").write_text(str(os.getpid()))
    poll = select.poll()
    links: dict[int, socket.socket] = {}
    for turn in range(what.flows):
        link = _connect(what, 0, turn, what.port)
        link.setblocking(False)
        links[link.fileno()] = link
        poll.register(link, select.POLLOUT)
    controls = [
        link.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONTROL_NAME_MAX)
        for link in links.values()
    ]
    print(f"open {len(links)}", *(name.rstrip(b"\0").decode() for name in controls), flush=True)
    while line := sys.stdin.readline():
        start, sent = time.monotonic_ns(), 0
        end = start + int(float(line) * 1e9)
        while (now := time.monotonic_ns()) < end:
            for fd, _ in poll.poll():
                sent += links[fd].send(PIECE)
        print(sent, now - start, flush=True)


def _connect(what: Load, job: int, turn: int, port: int) -> socket.socket:
    index = (job * what.destinations + turn % what.destinations) % len(what.addresses)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((what.addresses[index], port), timeout=5.0)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def main() -> None:
    """Run one role."""
    allow_files()
    os.sched_setaffinity(0, {int(sys.argv[2])})
    if sys.argv[1] == "sink":
        sink()
        return
    what = msgspec.json.decode(sys.stdin.readline(), type=Load)
    {"pump": pump, "churn": churn, "stream": stream}[sys.argv[1]](what)


if __name__ == "__main__":
    main()
