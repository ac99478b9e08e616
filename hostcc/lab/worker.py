"""The built-in job: compute by sleeping, then exchange a fixed number of bytes over TCP.

Started on each host of a job as `python -m hostcc.lab.worker`, configured by the environment
that every lab command gets (docs/lab.md) and by HOSTCC_LAB_WORKER, a JSON object.

push: rank 0 sends to rank 1 and waits for a one-byte answer that all has arrived; in several
bursts with an answer each where the job asks for them, as a pipeline's micro-batches.
allreduce: a ring; 2 (n - 1) steps, in each every rank sends a part to its successor and waits
for the part of its predecessor.

Lines on standard output: `ready`; then, on the rank that measures, for each iteration
`iteration N SECONDS START_NS END_NS`, clock CLOCK_MONOTONIC; at the end
`retransmitted SEGMENTS SENT_SEGMENTS`.  Standard input: `start NS` releases the job at that
time; `stop` or end of file ends it at the next iteration boundary.
"""

from __future__ import annotations

import gc
import json
import os
import random
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from hostcc import mark
from hostcc.lab.exchange import Amounts, Exchange, PeerGoneError, shares

TCP_INFO_BYTES = 256
CONNECT_PATIENCE_S = 20.0
FIXED_PORTS = range(33000, 45000)
"""Within what kernels choose from by themselves, or they would not take it."""
IP_LOCAL_PORT_RANGE = 51  # linux/in.h


@dataclass(frozen=True)
class Work:
    """What one rank does."""

    job: str
    rank: int
    peers: tuple[str, ...]
    port: int
    pattern: str
    flows: int
    compute_s: float
    bytes: int
    jitter: float
    bytes_jitter: float
    bursts: int
    burst_pause_s: float
    """Of the compute time, between two bursts."""
    change_at: int
    """Iteration from which on it has other bytes; 0: none."""
    change_bytes: float
    """Times those before."""
    change_pause_s: float
    """Computing besides, in that iteration."""
    start_s: float
    iterations: int
    """0: until told to stop."""
    stop_after_s: float
    """0: never by time."""
    congestion_control: str
    """Empty: the host's default."""
    seed: int
    fixed_ports: bool
    """Source ports follow from the seed, so that switches hash them alike in every run."""
    marks: bool
    """Whether the agent is told where iterations end."""

    def bytes_in(self, iteration: int) -> int:
        """Bytes of an iteration, counted from 1."""
        changed = 0 < self.change_at <= iteration
        return max(1, round(self.bytes * self.change_bytes)) if changed else self.bytes

    @property
    def successor(self) -> int:
        """Rank that this one sends to."""
        return (self.rank + 1) % len(self.peers)


def from_environment() -> Work:
    """Read the worker's orders."""
    orders = json.loads(os.environ["HOSTCC_LAB_WORKER"])
    return Work(
        job=os.environ["HOSTCC_JOB"],
        rank=int(os.environ["HOSTCC_RANK"]),
        peers=tuple(os.environ["HOSTCC_PEERS"].split(",")),
        port=int(os.environ["HOSTCC_PORT"]),
        **orders,
    )


def configure(link: socket.socket, congestion_control: str) -> None:
    """Options of every data socket."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if congestion_control:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())


def listen(work: Work) -> socket.socket:
    """Listen on the rank's address for its predecessor's connections."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    configure(listener, work.congestion_control)
    listener.bind((work.peers[work.rank], work.port))
    listener.listen(work.flows)
    return listener


def accept(listener: socket.socket, work: Work) -> list[socket.socket]:
    """The predecessor's connections, in the order that both sides count them in."""
    links: list[socket.socket] = []
    listener.settimeout(CONNECT_PATIENCE_S)
    for _ in range(work.flows):
        link, _ = listener.accept()
        configure(link, work.congestion_control)
        links.append(link)
    listener.close()
    # Sorted by the sender's port on both sides, so that "flow 0" is the same connection.
    return sorted(links, key=lambda link: int(link.getpeername()[1]))


def connect(work: Work) -> list[socket.socket]:
    """Open the connections to the successor; waits for it to listen."""
    links = []
    deadline = time.monotonic() + CONNECT_PATIENCE_S
    for port in source_ports(work):
        while True:
            link = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            configure(link, work.congestion_control)
            if port:
                suggest_port(link, port)
            try:
                link.connect((work.peers[work.successor], work.port))
                break
            except OSError:
                link.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        links.append(link)
    return sorted(links, key=lambda link: int(link.getsockname()[1]))


def source_ports(work: Work) -> list[int]:
    """Of each connection to the successor; 0: the kernel's choice."""
    if not work.fixed_ports:
        return [0] * work.flows
    chance = random.Random(f"{work.seed}/{work.job}/{work.rank}/ports")
    return chance.sample(FIXED_PORTS, work.flows)


def suggest_port(link: socket.socket, port: int) -> None:
    """The port to take where nobody else chooses one; kernels before 6.3 choose another."""
    with suppress(OSError):
        link.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("=HH", port, port))


class Orders:
    """The runner's words on standard input."""

    def __init__(self) -> None:
        self.stopped = False
        self._fd = sys.stdin.fileno()
        self._text = b""

    def wait_start(self) -> float:
        """Block until released; returns the start time, CLOCK_MONOTONIC seconds."""
        while b"\n" not in self._text:
            data = os.read(self._fd, 4096)
            if not data:
                raise SystemExit(0)
            self._text += data
        line, self._text = self._text.split(b"\n", 1)
        return int(line.split()[1]) / 1e9

    def check(self) -> bool:
        """Whether an order to stop has come, without waiting."""
        if not self.stopped and select.select([self._fd], [], [], 0)[0]:
            self.stopped = True
        return self.stopped

    def sleep_until(self, deadline: float) -> None:
        """Sleep, but notice an order to stop."""
        while (left := deadline - time.monotonic()) > 0:
            if self.stopped or left < 0.002:
                time.sleep(left)
                continue
            if select.select([self._fd], [], [], left - 0.001)[0]:
                self.stopped = True


def say(line: str) -> None:
    """One line to the runner."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def varying_bytes(work: Work) -> Iterator[int]:
    """Bytes of every iteration: the same sequence on both ranks, and under every variant."""
    chance = random.Random(f"{work.seed}/{work.job}/bytes")
    for number in count(1):
        jitter = work.bytes_jitter * chance.uniform(-1, 1)
        yield max(1, round(work.bytes_in(number) * (1 + jitter)))


def bursts(work: Work, links: Sequence[socket.socket], whole: int) -> list[Amounts]:
    """What each connection carries in each burst of an iteration of `whole` bytes."""
    return [
        list(zip(links, shares(part, work.flows), strict=True))
        for part in shares(whole, work.bursts)
    ]


def send_side(work: Work, links: list[socket.socket], orders: Orders) -> None:
    """Rank 0 of a push."""
    exchange = Exchange(links)
    sizes = varying_bytes(work)
    answer = [(links[0], 1)]

    def communicate() -> None:
        for number, parts in enumerate(bursts(work, links, next(sizes))):
            if number:
                time.sleep(work.burst_pause_s)
            exchange.transfer(parts, answer)

    iterate(work, orders, communicate, report=True)
    report_retransmissions(links)
    exchange.close()


def receive_side(work: Work, links: list[socket.socket]) -> None:
    """Rank 1 of a push: until the sender closes."""
    exchange = Exchange(links)
    answer = [(links[0], 1)]
    try:
        for size in varying_bytes(work):
            for parts in bursts(work, links, size):
                exchange.transfer((), parts)
                exchange.transfer(answer, ())
    except PeerGoneError:
        exchange.close()


def ring(
    work: Work, outward: list[socket.socket], inward: list[socket.socket], orders: Orders
) -> None:
    """Every rank of an all-reduce; rank 0 reports, and its leaving ends the others."""
    exchange = Exchange([*outward, *inward])
    steps = 2 * (len(work.peers) - 1)
    numbers = count(1)

    @cache
    def plans(size: int) -> list[tuple[Amounts, Amounts]]:
        made: list[tuple[Amounts, Amounts]] = []
        for part in shares(size, steps):
            sizes = shares(part, work.flows)
            made.append(
                (list(zip(outward, sizes, strict=True)), list(zip(inward, sizes, strict=True)))
            )
        return made

    def communicate() -> None:
        for sending, receiving in plans(work.bytes_in(next(numbers))):
            exchange.transfer(sending, receiving)

    try:
        iterate(work, orders, communicate, report=work.rank == 0)
    except PeerGoneError:
        if work.rank == 0:
            raise
    report_retransmissions(outward)
    exchange.close()


def iterate(work: Work, orders: Orders, communicate: Callable[[], None], report: bool) -> None:
    """Compute, communicate, repeat, until the count, the time or the runner ends it."""
    chance = random.Random(f"{work.seed}/{work.job}")
    follows = work.pattern == "allreduce" and not report
    now = orders.wait_start() + work.start_s
    orders.sleep_until(now)
    end_time = now + work.stop_after_s if work.stop_after_s else float("inf")
    done = 0
    while follows or not (
        orders.check() or now >= end_time or (work.iterations and done >= work.iterations)
    ):
        start = now
        compute = work.compute_s - (work.bursts - 1) * work.burst_pause_s
        compute *= 1 + work.jitter * chance.uniform(-1, 1)
        done += 1
        if done == work.change_at:
            compute += work.change_pause_s
        if follows:
            time.sleep(max(0.0, start + compute - time.monotonic()))
        else:
            orders.sleep_until(start + compute)
        communicate()
        now = time.monotonic()
        if work.marks:
            mark.iteration()
        if report:
            say(f"iteration {done} {now - start:.6f} {int(start * 1e9)} {int(now * 1e9)}")


def report_retransmissions(links: list[socket.socket]) -> None:
    """Segments sent again and segments sent, over all connections, from TCP_INFO."""
    again = sent = 0
    for link in links:
        info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        if len(info) < 140:
            continue
        # linux/tcp.h: tcpi_total_retrans, tcpi_segs_out.
        again += struct.unpack_from("I", info, 100)[0]
        sent += struct.unpack_from("I", info, 136)[0]
    say(f"retransmitted {again} {sent}")


def main() -> None:
    """Run one rank."""
    gc.disable()
    work = from_environment()
    # The default of 50 us would be the largest part of the jitter of a short iteration.
    Path("/proc/self/timerslack_ns").write_text("1000")
    orders = Orders()
    if work.pattern == "push":
        if work.rank == 0:
            links = connect(work)
            say("ready")
            send_side(work, links, orders)
        else:
            listener = listen(work)
            links = accept(listener, work)
            say("ready")
            receive_side(work, links)
        return
    listener = listen(work)
    outward = connect(work)
    inward = accept(listener, work)
    say("ready")
    ring(work, outward, inward, orders)


if __name__ == "__main__":
    main()
