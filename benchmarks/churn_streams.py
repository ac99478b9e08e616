"""A job of many checksummed connections at full rate, one iteration after the other.

    churn_streams CONTROL_SOCKET JOB ADDRESS PORT CONNECTIONS BYTES

The receiver is `churn_load take`.  It sends BYTES over all connections together in every iteration,
until standard input ends; then a line of JSON: bytes, and the error, if any.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import zlib
from pathlib import Path

import hostcc.mark
from benchmarks.churn_load import BLOCK, PATIENCE_S, TOTAL, enter, say


def send(to: tuple[str, int], connections: int, size: int) -> tuple[int, list[str]]:
    """All of it: bytes that were sent, and connections that broke or whose bytes did not arrive."""
    socks = [socket.create_connection(to, PATIENCE_S) for _ in range(connections)]
    block = bytearray(os.urandom(BLOCK))
    sums = [(0, 0)] * connections
    each = max(1, size // connections // BLOCK)
    say(event="open", ports=[sock.getsockname()[1] for sock in socks])
    try:
        while not select.select([sys.stdin], [], [], 0)[0]:
            for number, sock in enumerate(socks):
                for _ in range(each):
                    count, check = sums[number]
                    block[:8] = count.to_bytes(8, "big")
                    sock.sendall(block)
                    sums[number] = count + BLOCK, zlib.crc32(block, check)
            hostcc.mark.iteration()
        return sum(count for count, _ in sums), _ends(socks, sums)
    except OSError as error:
        return sum(count for count, _ in sums), [str(error)]


def _ends(socks: list[socket.socket], sums: list[tuple[int, int]]) -> list[str]:
    troubles = []
    for sock in socks:
        sock.shutdown(socket.SHUT_WR)
    for sock, sent in zip(socks, sums, strict=True):
        got = b""
        while data := sock.recv(TOTAL.size):
            got += data
        if got != TOTAL.pack(*sent):
            troubles.append(f"sent {sent}, arrived {got.hex() or 'nothing'}")
        sock.close()
    return troubles


def main(words: list[str]) -> None:
    """See the module."""
    control, job, address, port, connections, size = words
    enter(Path(control), job)
    sent, troubles = send((address, int(port)), int(connections), int(size))
    say(event="close", bytes=sent, troubles=troubles)


if __name__ == "__main__":
    main(sys.argv[1:])
