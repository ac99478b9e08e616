"""A job that observes sockets: `python -m benchmarks.socket_prober DIRECTORY`.

Rank 0 keeps some connections to rank 1 open and sends requests over each of them, which rank 1
answers.  At the same time rank 0 opens a new connection to itself every few milliseconds, and
records the congestion controls of its two ends, and those of agents that are registered.  At the
end it writes `probes.json` into the directory and prints one iteration for the lab to count.  The
lab starts it, with its environment (docs/lab.md).
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

from benchmarks import programs

HELD = 32
"""Connections that are kept open."""
PROBE_EVERY_S = 0.01
ASK_EVERY_S = 0.25
PATIENCE_S = 60.0
OUTLASTS_S = 60.0
"""At most that it goes on after its time while new sockets still get an agent's control."""
NAME_BYTES = 16


class Probe(msgspec.Struct, frozen=True):
    """One new socket."""

    at_s: float
    """CLOCK_MONOTONIC."""
    control: str
    """Congestion control of the connecting socket; empty: it could not connect."""
    accepted: str
    """Of the socket at the other end, whose listener is as old as the prober."""
    registered: tuple[str, ...]
    """Agents' congestion controls that the kernel offered."""


class Probes(msgspec.Struct, frozen=True):
    """What rank 0 saw."""

    probes: tuple[Probe, ...]
    held: int
    broken: int
    """Held connections that failed or did not answer."""


def connect(address: tuple[str, int], deadline: float) -> socket.socket:
    """A connection; the other side may not listen yet."""
    while True:
        try:
            return socket.create_connection(address, timeout=PATIENCE_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def probe(listener: socket.socket) -> Probe:
    """Open a connection within the host, look at both ends, reset it."""
    now = time.monotonic()
    registered = tuple(sorted(programs.registered()))
    try:
        with socket.create_connection(listener.getsockname(), timeout=1.0) as link:
            accepted, _ = listener.accept()
            with accepted:
                names = control_of(link), control_of(accepted)
            # A reset leaves no TIME-WAIT behind.
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        return Probe(now, "", "", registered)
    return Probe(now, *names, registered)


def control_of(link: socket.socket) -> str:
    """A socket's congestion control."""
    name = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, NAME_BYTES)
    return name.rstrip(b"\0").decode()


def is_default(control: str) -> bool:
    """Whether a new socket's congestion control is that of the host, not an agent's."""
    return bool(control) and not control.startswith(programs.OURS)


def answers(link: socket.socket) -> bool:
    """Whether the other side of a held connection answers."""
    try:
        link.sendall(b"?")
        return link.recv(1) == b"?"
    except OSError:
        return False


def watch(address: tuple[str, int], seconds: float) -> Probes:
    """Rank 0, for so many seconds, and until the agents' death is seen, which may come later."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(1.0)
    patience = time.monotonic() + PATIENCE_S
    held = [connect(address, patience) for _ in range(HELD)]
    broken: set[int] = set()
    seen: list[Probe] = []
    # Until the jobs begin as well: their agents may be killed soon after that.
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.monotonic()
    ask_at = begin
    while (now := time.monotonic()) < begin + seconds or (
        now < begin + seconds + OUTLASTS_S and not (seen and is_default(seen[-1].control))
    ):
        seen.append(probe(listener))
        if now >= ask_at:
            broken |= {number for number, link in enumerate(held) if not answers(link)}
            ask_at = now + ASK_EVERY_S
        time.sleep(max(0.0, now + PROBE_EVERY_S - time.monotonic()))
    broken |= {number for number, link in enumerate(held) if not answers(link)}
    for link in (*held, listener):
        link.close()
    return Probes(tuple(seen), HELD, len(broken))


def serve(address: tuple[str, int], seconds: float) -> None:
    """Rank 1: answer until the held connections are closed, or for so many seconds."""
    deadline = time.monotonic() + seconds + OUTLASTS_S + 2 * PATIENCE_S
    poll = select.epoll()
    listener = socket.create_server(address, backlog=HELD)
    listener.settimeout(PATIENCE_S)
    print("ready", flush=True)
    links = {}
    for _ in range(HELD):
        link, _ = listener.accept()
        links[link.fileno()] = link
        poll.register(link, select.EPOLLIN)
    while links and time.monotonic() < deadline:
        for fd, _ in poll.poll(1.0):
            try:
                data = links[fd].recv(4096)
                links[fd].sendall(data)
            except OSError:
                data = b""
            if not data:
                poll.unregister(fd)
                links.pop(fd).close()


def main() -> None:
    """Run one rank."""
    peers = os.environ["HOSTCC_PEERS"].split(",")
    address = (peers[1], int(os.environ["HOSTCC_PORT"]))
    iterations = int(os.environ["HOSTCC_ITERATIONS"])
    seconds = iterations * float(os.environ["HOSTCC_COMPUTE_MS"]) / 1e3
    if os.environ["HOSTCC_RANK"] == "1":
        serve(address, seconds)
        return
    found = watch(address, seconds)
    Path(sys.argv[1], "probes.json").write_bytes(msgspec.json.encode(found))
    print(f"iteration 1 {seconds:.6f}", flush=True)


if __name__ == "__main__":
    main()
