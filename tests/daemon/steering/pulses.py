"""A job's traffic that can be checked: bursts of numbered, hashed bytes, an iteration each.

    pulses.py take ADDRESS PORT                          receives one connection until its end
    pulses.py send ADDRESS PORT SOURCE_PORT PERIOD_S BYTES    bursts until standard input says stop

Both end by printing how many bytes and their digest.
"""

from __future__ import annotations

import hashlib
import select
import socket
import sys
import time

import hostcc.mark

BLOCK = 1 << 16


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def take(address: str, port: int) -> tuple[int, str]:
    with socket.socket(family(address)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(1)
        print("ready", flush=True)
        link, _ = listener.accept()
    digest, count, buffer = hashlib.blake2b(), 0, bytearray(BLOCK)
    with link:
        while got := link.recv_into(buffer):
            digest.update(memoryview(buffer)[:got])
            count += got
    return count, digest.hexdigest()


def send(address: str, port: int, source: int, period_s: float, size: int) -> tuple[int, str]:
    digest, count, block = hashlib.blake2b(), 0, bytearray(BLOCK)
    with socket.socket(family(address)) as link:
        if source:
            link.bind(("", source))
        link.connect((address, port))
        print(link.getsockname()[1], flush=True)
        due = time.monotonic()
        while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            due = max(due + period_s, time.monotonic())
            for _ in range(max(1, size // BLOCK)):
                block[:8] = count.to_bytes(8, "big")
                link.sendall(block)
                digest.update(block)
                count += BLOCK
            hostcc.mark.iteration()
    return count, digest.hexdigest()


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "take":
        result = take(words[1], int(words[2]))
    else:
        result = send(words[1], int(words[2]), int(words[3]), float(words[4]), int(words[5]))
    print(*result, flush=True)
