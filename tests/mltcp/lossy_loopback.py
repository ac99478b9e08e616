"""Flows over a loopback that loses packets: `lossy_loopback.py CONGESTION_CONTROL RETRANSMITS`.

In a network namespace of its own.  Prints, as JSON, how often a flow was seen with which ssthresh.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

FLOWS = 16
POLL_S = 0.002
LOOPBACK = """
ip link set lo mtu 1500 up
tc qdisc replace dev lo root tbf rate 100mbit burst 20k limit 90k
"""


def look(sock: socket.socket) -> tuple[int, int]:
    """(ssthresh, packets sent again), of struct tcp_info."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("=I", info, 76)[0], struct.unpack_from("=I", info, 100)[0]


def drain(sock: socket.socket) -> None:
    while sock.recv(1 << 16):
        pass


def main(control: str, retransmits: int) -> None:
    for line in LOOPBACK.strip().splitlines():
        subprocess.run(line.split(), check=True)
    listener = socket.create_server(("127.0.0.1", 0))
    flows = []
    for _ in range(FLOWS):
        flow = socket.socket()
        flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        flow.connect(listener.getsockname())
        flow.setblocking(False)
        flows.append(flow)
        threading.Thread(target=drain, args=(listener.accept()[0],), daemon=True).start()
    seen: Counter[int] = Counter()
    again = 0
    while again < retransmits:
        again = 0
        for flow in flows:
            with suppress(BlockingIOError):
                while True:
                    flow.send(bytes(1 << 16))
            ssthresh, more = look(flow)
            again += more
            seen[ssthresh] += 1
        time.sleep(POLL_S)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
