"""A job with bursts, and the end that takes them; standard library only.

    burster.py take ADDRESS              prints the port, takes everything, answers bursts
    burster.py send ADDRESS PORT PERIOD_S BYTES TIMES [random|mark|both|late]

The sender prints "up", and at the end the median interval between its bursts.  Each burst is
4 bytes that say how long it is, and answered with one byte when all of it has arrived; or, if both
ends are to send, with as many.  Whoever is late starts up: two bursts, then a pause.
"""

from __future__ import annotations

import random
import socket
import statistics
import struct
import sys
import threading
import time
from itertools import pairwise

PIECES, PIECE_S = 20, 0.002
"""A burst is sent in pieces, so that it lasts tens of milliseconds whatever the link."""
START_S = (0.06, 3.0)
"""From one burst of a start-up to the next."""
BOTH = 1 << 31
"""Of the length: the answer is to be as long."""


def serve(link: socket.socket) -> None:
    while head := link.recv(4, socket.MSG_WAITALL):
        word = struct.unpack("!I", head)[0]
        left = size = word & ~BOTH
        while left:
            left -= len(link.recv(min(left, 1 << 18)))
        link.sendall(bytes(size) if word & BOTH else b"!")


def take(address: str) -> None:
    server = socket.create_server((address, 0))
    print(server.getsockname()[1], flush=True)
    while True:
        link, _ = server.accept()
        threading.Thread(target=serve, args=(link,), daemon=True).start()


def send(address: str, port: int, period_s: float, size: int, times: int, how: str) -> None:
    link = socket.create_connection((address, port))
    print("up", flush=True)
    chance, begins, due = random.Random(7), [], time.monotonic()
    for number in range(times):
        time.sleep(max(0.0, due - time.monotonic()))
        begins.append(time.monotonic())
        amount = chance.randrange(1, 2 * size) if how == "random" else size
        link.sendall(struct.pack("!I", amount | BOTH if how == "both" else amount))
        for at in range(0, amount, max(1, size // PIECES)):
            link.sendall(bytes(min(max(1, size // PIECES), amount - at)))
            time.sleep(PIECE_S)
        left = amount if how == "both" else 1
        while left:
            left -= len(link.recv(min(left, 1 << 18)))
        if how == "mark":
            import hostcc.mark

            hostcc.mark.iteration()
        wait = chance.expovariate(1 / period_s) if how == "random" else period_s
        if how == "late" and number < len(START_S):
            wait = START_S[number]
        due = max(due + wait, time.monotonic())
    print(statistics.median(b - a for a, b in pairwise(begins)), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    if sys.argv[1] == "take":
        take(sys.argv[2])
    else:
        _, _, where, door, pause, count, rounds, *more = sys.argv
        send(where, int(door), float(pause), int(count), int(rounds), (more or [""])[0])
