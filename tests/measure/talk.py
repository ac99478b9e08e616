"""One end of metered traffic, driven by JSON lines; standard library only: `python talk.py`.

Every order is one line on standard input, every answer one line on standard output.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from typing import Any

GIVE_UP_S = 120


def family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Talk:
    """Sockets of this process, numbered in the order in which they were made."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.received: dict[int, int] = {}

    def _keep(self, sock: socket.socket) -> int:
        self.sockets.append(sock)
        return len(self.sockets) - 1

    def listen(self, address: str, port: int = 0) -> int:
        """Accept and drain; the port."""
        listener = socket.socket(family(address))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(512)
        self._keep(listener)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        bound: int = listener.getsockname()[1]
        return bound

    def _accept(self, listener: socket.socket) -> None:
        while True:
            link, _ = listener.accept()
            number = self._keep(link)
            threading.Thread(target=self._drain, args=(number, link), daemon=True).start()

    def _drain(self, number: int, link: socket.socket) -> None:
        while part := link.recv(1 << 16):
            self.received[number] = self.received.get(number, 0) + len(part)
        link.close()

    def connect(self, address: str, port: int) -> int:
        link = socket.create_connection((address, port), timeout=GIVE_UP_S)
        link.settimeout(None)
        number = self._keep(link)
        threading.Thread(target=self._drain, args=(number, link), daemon=True).start()
        return number

    def send(self, number: int, size: int) -> None:
        """Send and wait until all of it is acknowledged."""
        sock = self.sockets[number]
        sock.sendall(bytes(size))
        deadline = time.monotonic() + GIVE_UP_S
        while self.info(number)["unacked"] and time.monotonic() < deadline:
            time.sleep(0.001)

    def info(self, number: int) -> dict[str, int]:
        """From struct tcp_info."""
        raw = self.sockets[number].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        segs_out, segs_in = struct.unpack_from("=II", raw, 136)
        return {
            "unacked": struct.unpack_from("=I", raw, 24)[0],
            "retrans": struct.unpack_from("=I", raw, 100)[0],
            "segs_out": segs_out,
            "segs_in": segs_in,
        }

    def got(self) -> int:
        """Bytes that accepted connections delivered."""
        return sum(self.received.values())

    def churn(self, address: str, port: int, times: int, size: int) -> None:
        """Connections one after the other, each with a few bytes."""
        for _ in range(times):
            with socket.create_connection((address, port), timeout=GIVE_UP_S) as sock:
                sock.sendall(bytes(size))

    def udp(self, address: str, port: int = 0) -> list[int]:
        """A bound UDP socket: its number and port."""
        sock = socket.socket(family(address), socket.SOCK_DGRAM)
        sock.settimeout(GIVE_UP_S)
        sock.bind((address, port))
        return [self._keep(sock), sock.getsockname()[1]]

    def datagrams(self, number: int, to: list[str], port: int, size: int, times: int) -> None:
        for _ in range(times):
            for address in to:
                self.sockets[number].sendto(bytes(size), (address, port))

    def take(self, number: int, times: int) -> int:
        """Wait for datagrams; bytes."""
        return sum(len(self.sockets[number].recv(1 << 16)) for _ in range(times))

    def stream(self, number: int, to: str, port: int, size: int, seconds: float) -> int:
        """Datagrams at even times; how many."""
        end, sent = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            self.sockets[number].sendto(bytes(size), (to, port))
            sent += 1
            time.sleep(0.002)
        return sent


def main() -> None:
    talk = Talk()
    for line in sys.stdin:
        name, arguments = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"value": getattr(talk, name)(**arguments)}
        except Exception as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
