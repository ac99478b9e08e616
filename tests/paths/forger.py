"""`python -m tests.paths.forger SRC DST PORT PROTOCOL`: answers to probes that it never saw.

From a host that is on no path of the probes, as fast as it can, until its input ends; then it
prints how many it has sent.  Half have what probes had whose tokens count from 1, half are random.
"""

from __future__ import annotations

import itertools
import random
import socket
import struct
import sys
import threading

from hostcc.paths import source_ports
from hostcc.paths.packets import TCP, UDP

MAGIC = 0x6863
DIFFERENT = 4096


def main() -> None:
    src, dst, port, protocol = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rng = random.Random(1)
    ports = list(itertools.islice(source_ports.candidate_ports(), 60))
    messages = [
        message(src, dst, rng.choice(ports), port, protocol, token)
        for _ in range(DIFFERENT // 2)
        for token in (MAGIC << 16 | rng.randrange(1, 200), rng.getrandbits(32))
    ]
    over = threading.Event()

    def read() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=read, daemon=True).start()
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sock.connect((src, 0))
        while not over.is_set():
            for one in messages:
                try:
                    sock.send(one)
                except OSError:
                    continue
            sent += len(messages)
    print(sent)


def message(src: str, dst: str, source: int, port: int, protocol: int, token: int) -> bytes:
    """An ICMP "time exceeded" with all that can be known of a probe, and a token."""
    ident = token & 0xFFFF if token >> 16 == MAGIC else token >> 16
    quoted = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 40, ident, 0x4000, 1, protocol, 0,
        socket.inet_aton(src), socket.inet_aton(dst),
    )  # fmt: skip
    if protocol == TCP:
        quoted += struct.pack("!HHI", source, port, token)
    elif protocol == UDP:
        quoted += struct.pack("!HHHH", source, port, 16, token & 0xFFFF)
    return struct.pack("!BBHI", 11, 0, 0, 0) + quoted


if __name__ == "__main__":
    main()
