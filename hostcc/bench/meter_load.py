"""Traffic for meter-cost: `python -m hostcc.bench.meter_load sink|source|churn`.

Each reads lines from standard input, answers with one line each, and ends with it.

sink: the first line is a port; afterwards any line is answered by `BYTES NANOSECONDS`.
source: the first line is JSON, see `Source`; answers `open N` and sends until the end.
churn: the same; opens and closes so many connections a second, and answers any line with the
number of those so far.
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

from hostcc.bench.holder import PATIENCE_S, allow_files

PIECE = bytes(1 << 17)
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Source(msgspec.Struct, frozen=True):
    """What a source does."""

    port: int
    addresses: list[str]
    """Destinations; flow i of a group goes to address i modulo their number."""
    groups: list[str]
    """cgroups, one a job; flows are dealt out to them.  A socket belongs to the group that its
    process is in when it is made."""
    flows: int
    """Connections in all; of churn: connections a second."""
    destinations: int = 8
    """So many different ones a job."""


def sink() -> None:
    """Accept, drain and count."""
    poll = select.epoll()
    links: dict[int, socket.socket] = {}
    listener = socket.create_server(("", int(sys.stdin.readline())), backlog=8192)
    listener.setblocking(False)
    poll.register(listener, select.EPOLLIN)
    poll.register(sys.stdin, select.EPOLLIN | select.EPOLLHUP)
    print("listening", flush=True)
    total, room = 0, bytearray(1 << 20)
    while True:
        for fd, _ in poll.poll():
            if fd in links:
                got = _receive(links[fd], room)
                total += max(0, got)
                if not got:
                    poll.unregister(fd)
                    links.pop(fd).close()
            elif fd == listener.fileno():
                for link in _accept(listener):
                    links[link.fileno()] = link
                    poll.register(link, select.EPOLLIN)
            elif not os.read(fd, 64):
                return
            else:
                print(total, time.monotonic_ns(), flush=True)


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


def source(what: Source) -> None:
    """Open all, then send as much as goes."""
    poll = select.epoll()
    links: dict[int, socket.socket] = {}
    for number in range(what.flows):
        group = number % len(what.groups)
        if number < len(what.groups) or len(what.groups) > 1:
            (Path(what.groups[group]) / "cgroup.procs").write_text(str(os.getpid()))
        link = _connect(what, number)
        link.setblocking(False)
        links[link.fileno()] = link
        poll.register(link, select.EPOLLOUT)
    poll.register(sys.stdin, select.EPOLLIN | select.EPOLLHUP)
    print(f"open {len(links)}", flush=True)
    while True:
        for fd, _ in poll.poll():
            if fd not in links:
                return
            try:
                links[fd].send(PIECE)
            except BlockingIOError:
                continue


def churn(what: Source) -> None:
    """Open, send a little, close: at even times, catching up when late."""
    poll = select.poll()
    poll.register(sys.stdin, select.POLLIN | select.POLLHUP)
    (Path(what.groups[0]) / "cgroup.procs").write_text(str(os.getpid()))
    print("open 0", flush=True)
    start, done = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - start) * what.flows)
        for _ in range(min(100, due - done)):
            with _connect(what, done) as link:
                # Thousands in TIME_WAIT would be another benchmark.
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                link.send(PIECE[:1000])
            done += 1
        if poll.poll(0 if due - done > 100 else 5):
            if not sys.stdin.readline():
                return
            print(done, flush=True)


def _connect(what: Source, number: int) -> socket.socket:
    job, turn = number % len(what.groups), number // len(what.groups)
    index = (job * what.destinations + turn % what.destinations) % len(what.addresses)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((what.addresses[index], what.port), timeout=5.0)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def main() -> None:
    """Run one role."""
    allow_files()
    if sys.argv[1] == "sink":
        sink()
        return
    what = msgspec.json.decode(sys.stdin.readline(), type=Source)
    source(what) if sys.argv[1] == "source" else churn(what)


if __name__ == "__main__":
    main()
