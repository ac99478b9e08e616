"""`python -m tests.paths.tcp_forger SENDER RECEIVER WIRE:PORT...`: ends of others' connections.

Resets to the sender as if from the receiver, and SYNs to the receiver as if from the sender, for
each flow's port on the wire, with numbers at random, as fast as it can, until its input ends; then
it prints how many it has sent.
"""

from __future__ import annotations

import random
import socket
import struct
import sys
import threading

from hostcc.paths.packets import TCP, checksum

DIFFERENT = 8192
SYN, RST = 0x02, 0x04


def main() -> None:
    sender, receiver = sys.argv[1:3]
    flows = [tuple(int(part) for part in word.split(":")) for word in sys.argv[3:]]
    rng = random.Random(1)
    over = threading.Event()

    def read() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=read, daemon=True).start()
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
        while not over.is_set():
            for _ in range(DIFFERENT // 2):
                (wire, port), number = rng.choice(flows), rng.getrandbits(32)
                for packet, to in (
                    (forged(receiver, sender, port, wire, RST, number), sender),
                    (forged(sender, receiver, wire, port, SYN, number), receiver),
                ):
                    try:
                        sock.sendto(packet, (to, 0))
                        sent += 1
                    except OSError:
                        continue
    print(sent)


def forged(src: str, dst: str, sport: int, dport: int, flags: int, seq: int) -> bytes:
    """An IPv4 packet with a TCP header and nothing else."""
    ends = socket.inet_aton(src) + socket.inet_aton(dst)

    def tcp(csum: int) -> bytes:
        return struct.pack("!HHIIBBHHH", sport, dport, seq, 0, 5 << 4, flags, 1000, csum, 0)

    csum = checksum(ends + struct.pack("!BBH", 0, TCP, 20) + tcp(0))
    return struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, TCP, 0) + ends + tcp(csum)


if __name__ == "__main__":
    main()
