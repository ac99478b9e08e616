"""One end of test traffic, driven by JSON lines; standard library only.

    python peer.py

Every order is one line on standard input, every answer one line on standard output.  All
data is checked: each side hashes what it sent or received on each connection.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import random
import selectors
import socket
import struct
import sys
import termios
import threading
import time
from typing import Any

TCP_CONGESTION = 13
SO_MAX_PACING_RATE = 47
PIECE_BYTES = 1 << 16
PAYLOAD = memoryview(random.Random(1).randbytes(1 << 20))
GIVE_UP_S = 60


def control(sock: socket.socket) -> str:
    name = sock.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16)
    return name.partition(b"\0")[0].decode()


def unsent(sock: socket.socket) -> int:
    """Bytes that the other side has not acknowledged yet."""
    answer = fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4))
    count: int = struct.unpack("i", answer)[0]
    return count


def end(link: socket.socket, address: tuple[Any, ...]) -> str:
    """One end of a connection: of both families, two may have the same port."""
    return f"{link.family.name} {address[1]}"


class Peer:
    """Sockets of this process and what passed through them."""

    def __init__(self) -> None:
        self.listeners: list[socket.socket] = []
        self.sockets: list[socket.socket] = []
        self.sent: list[int] = []
        self.hashes: list[Any] = []
        self.received: dict[str, tuple[int, str]] = {}
        """By the sender's family and port: bytes and their hash, once it has closed."""
        self.accepted: list[socket.socket] = []
        self.answer_first = 0

    # ---- receiving: one thread a connection ----

    def listen(self, address: str, port: int = 0, control: str = "", backlog: int = 512) -> int:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if control:
            listener.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, control.encode())
        listener.bind((address, port))
        listener.listen(backlog)
        self.listeners.append(listener)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        bound: int = listener.getsockname()[1]
        return bound

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                link, source = listener.accept()
            except OSError:
                return
            self.accepted.append(link)
            name = end(link, source)
            threading.Thread(target=self._swallow, args=(link, name), daemon=True).start()

    def _swallow(self, link: socket.socket, name: str) -> None:
        digest, count = hashlib.blake2b(digest_size=8), 0
        buffer = bytearray(1 << 18)
        try:
            while got := link.recv_into(buffer):
                digest.update(memoryview(buffer)[:got])
                count += got
        except OSError:
            count = -1
        self.received[name] = (count, digest.hexdigest())
        link.close()
        self.accepted.remove(link)

    def turn_round(self, accepted: bool) -> None:
        """From now on the accepting side sends (it says so with `accepted`), the other receives."""
        if accepted:
            self.accepted_controls(1)
            self.sockets = list(self.accepted)
            self.sent = [0] * len(self.sockets)
            self.hashes = [hashlib.blake2b(digest_size=8) for _ in self.sockets]
            return
        for link in self.sockets:
            link.setblocking(True)
            self.accepted.append(link)
            name = end(link, link.getpeername())
            threading.Thread(target=self._swallow, args=(link, name), daemon=True).start()
        self.sockets = []

    def results(self, count: int) -> dict[str, tuple[int, str]]:
        """What arrived, once so many connections are at their end."""
        deadline = time.monotonic() + GIVE_UP_S
        while len(self.received) < count and time.monotonic() < deadline:
            time.sleep(0.002)
        done, self.received = self.received, {}
        return done

    def accepted_controls(self, count: int) -> list[str]:
        deadline = time.monotonic() + GIVE_UP_S
        while len(self.accepted) < count and time.monotonic() < deadline:
            time.sleep(0.002)
        return [control(link) for link in self.accepted]

    # ---- sending ----

    def connect(
        self, address: str, port: int, flows: int = 1, control: str = "", pacing: int = 0,
        source_port: int = 0,
    ) -> list[int]:  # fmt: skip
        """Open connections; returns their local ports."""
        ports = []
        for _ in range(flows):
            link = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            if control:
                link.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, control.encode())
            if pacing:
                link.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, pacing)
            if source_port:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                link.bind(("", source_port))
            link.settimeout(GIVE_UP_S)
            link.connect((address, port))
            link.setblocking(False)
            self.sockets.append(link)
            self.sent.append(0)
            self.hashes.append(hashlib.blake2b(digest_size=8))
            ports.append(link.getsockname()[1])
        return ports

    def send(self, sizes: list[int], gaps_ms: list[float], only: list[int] | None = None) -> float:
        """Iterations: so many bytes over all flows, wait until acknowledged, pause.

        Returns the longest time (ms) that this process was kept from running meanwhile.
        """
        flows = only if only is not None else list(range(len(self.sockets)))
        longest = 0.0
        for size, gap in zip(sizes, gaps_ms, strict=True):
            share, more = divmod(size, len(flows))
            longest = max(longest, self._exchange({f: share + (i < more) for i, f in
                                                   enumerate(flows)}))  # fmt: skip
            time.sleep(gap / 1e3)
        return 1e3 * longest

    def _exchange(self, left: dict[int, int]) -> float:
        longest, before = 0.0, time.monotonic()
        deadline = before + GIVE_UP_S
        flows = list(left)
        with selectors.DefaultSelector() as waiting:
            for flow in flows:
                waiting.register(self.sockets[flow], selectors.EVENT_WRITE, flow)
            while any(left.values()) or any(unsent(self.sockets[flow]) for flow in flows):
                now = time.monotonic()
                longest, before = max(longest, now - before), now
                if now > deadline:
                    raise TimeoutError(f"stuck with {left}")
                if not any(left.values()):
                    time.sleep(0.0005)
                    continue
                for key, _ in waiting.select(0.01):
                    flow = key.data
                    if not left[flow]:
                        continue
                    left[flow] -= self._push(flow, left[flow])
                    if not left[flow]:
                        waiting.unregister(key.fileobj)
        return longest

    def begin(self, size: int) -> list[int]:
        """Begin to send `size` bytes of each flow; return how they are paced, at once."""
        for flow in range(len(self.sockets)):
            self._push(flow, size)
        return self.pacing()

    def _push(self, flow: int, limit: int) -> int:
        start = self.sent[flow] % (len(PAYLOAD) - PIECE_BYTES)
        piece = PAYLOAD[start : start + min(limit, PIECE_BYTES)]
        try:
            count = self.sockets[flow].send(piece)
        except BlockingIOError:
            return 0
        self.hashes[flow].update(piece[:count])
        self.sent[flow] += count
        return count

    def churn(self, address: str, port: int, times: int, seed: int) -> int:
        """Open and close connections in every way there is; returns how many were opened."""
        dice = random.Random(seed)
        for _ in range(times):
            link = socket.create_connection((address, port), GIVE_UP_S)
            if dice.random() < 0.7:
                link.send(PAYLOAD[: dice.randrange(1, 30_000)])
            if dice.random() < 0.3:  # reset, with data on its way
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif dice.random() < 0.3:
                with contextlib.suppress(OSError):
                    link.shutdown(socket.SHUT_WR)
            link.close()
        return times

    def reconnect(self, address: str, port: int) -> None:
        """Dissolve the first connection and use its socket for another."""
        link = self.sockets[0]
        link.setblocking(True)
        raw = struct.pack("H14x", socket.AF_UNSPEC)
        import ctypes

        if ctypes.CDLL(None, use_errno=True).connect(link.fileno(), raw, len(raw)):
            raise OSError(ctypes.get_errno(), "disconnect")
        link.connect((address, port))
        link.setblocking(False)

    def peer_ports(self) -> list[int]:
        return [link.getpeername()[1] for link in self.sockets]

    def controls(self) -> list[str]:
        return [control(link) for link in self.sockets]

    def choose(self, control: str) -> None:
        for link in self.sockets:
            link.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, control.encode())

    def pacing(self) -> list[int]:
        return [link.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE) & 0xFFFFFFFF
                for link in self.sockets]  # fmt: skip

    def digests(self) -> dict[str, tuple[int, str]]:
        return {
            end(link, link.getsockname()): (count, digest.hexdigest())
            for link, count, digest in zip(self.sockets, self.sent, self.hashes, strict=True)
        }

    def close(self) -> dict[str, tuple[int, str]]:
        """Close all connections; by family and local port: bytes and their hash."""
        done = self.digests()
        for link in self.sockets:
            link.setblocking(True)
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_WR)
            link.close()
        self.sockets, self.sent, self.hashes = [], [], []
        return done


def main() -> None:
    # On a busy machine, too, silences are those that a test asks for.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    peer = Peer()
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"value": getattr(peer, name)(**arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
