"""One end of a soak's job, as a process: connections whose bytes are numbered, hashed and compared.

    soak_job take ADDRESS PORT CONNECTIONS
    soak_job send ADDRESS PORT CONNECTIONS PERIOD_S BURST_BYTES

`take` receives them until their end.  `send` sends a burst over all of them every period, an
iteration, until its standard input ends.  At the end both print the number of bytes and their
digest (checked_stream); a connection without progress for PATIENCE_S counts as broken.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence

import hostcc.mark

BLOCK = 1 << 14
SENT_BYTES = 1 << 17
"""That the kernel keeps of a connection: what is left at the end is soon through."""
PATIENCE_S = 180.0
"""Longer than all that befalls a connection in a soak, one after the other."""
NUMBER = struct.Struct("!I")
"""What every connection begins with."""
Sum = tuple[int, bytes]
"""Bytes of a connection and their digest."""


def take(address: str, port: int, connections: int) -> list[Sum]:
    """Receive all; in the order of the sender's numbers."""
    with socket.create_server((address, port), backlog=connections) as listener:
        listener.settimeout(PATIENCE_S)
        print("ready", flush=True)
        socks = [listener.accept()[0] for _ in range(connections)]
    found: dict[int, Sum] = {}
    threads = [threading.Thread(target=_receive, args=(sock, found)) for sock in socks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(found) < connections:
        raise ConnectionError(f"{connections - len(found)} of {connections} connections broke")
    return [found[number] for number in sorted(found)]


def _receive(sock: socket.socket, found: dict[int, Sum]) -> None:
    sock.settimeout(PATIENCE_S)
    digest, count = hashlib.blake2b(), 0
    with sock:
        (number,) = NUMBER.unpack(sock.recv(NUMBER.size, socket.MSG_WAITALL))
        while data := sock.recv(4 * BLOCK):
            digest.update(data)
            count += len(data)
    found[number] = count, digest.digest()


def send(to: tuple[str, int], connections: int, period_s: float, burst: int) -> list[Sum]:
    """Send until standard input ends."""
    socks = [socket.create_connection(to, PATIENCE_S) for _ in range(connections)]
    for number, sock in enumerate(socks):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_BYTES)
        sock.sendall(NUMBER.pack(number))
    print(socks[0].getsockname()[1], flush=True)
    digests, counts = [hashlib.blake2b() for _ in socks], [0] * connections
    block, due = bytearray(os.urandom(BLOCK)), time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
        for turn in range(max(connections, burst // BLOCK)):
            number = turn % connections
            block[:8] = counts[number].to_bytes(8, "big")
            socks[number].sendall(block)
            digests[number].update(block)
            counts[number] += BLOCK
        hostcc.mark.iteration()
        due = max(due + period_s, time.monotonic())
    for sock in socks:
        sock.shutdown(socket.SHUT_WR)
    for sock in socks:
        sock.recv(1)  # until the other end has it all
        sock.close()
    return [(count, digest.digest()) for count, digest in zip(counts, digests, strict=True)]


def told(sums: Sequence[Sum]) -> str:
    """All bytes, and a digest of the digests."""
    whole = hashlib.blake2b(digest_size=16)
    for _, digest in sums:
        whole.update(digest)
    return f"{sum(count for count, _ in sums)} {whole.hexdigest()}"


def main(words: list[str]) -> None:
    """See the module."""
    address, port, connections = words[1], int(words[2]), int(words[3])
    if words[0] == "take":
        sums = take(address, port, connections)
    else:
        sums = send((address, port), connections, float(words[4]), int(words[5]))
    print(told(sums), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
