"""Periodic jobs for agent-cost: `python -m benchmarks.agent_cost_load ...`.

take ADDRESS PORT                    accepts all connections and discards their bytes
send ADDRESS PORT PERIOD_S BYTES     a burst each period, until standard input ends
"""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import threading
import time

CHUNK = 1 << 18
PATIENCE_S = 30.0


def take(address: tuple[str, int]) -> None:
    """Accept and read, in a thread for each connection, until standard input ends."""
    server = socket.create_server(address, backlog=256)
    print("listening", flush=True)
    threading.Thread(target=_accept, args=(server,), daemon=True).start()
    sys.stdin.read()


def _accept(server: socket.socket) -> None:
    while True:
        link, _ = server.accept()
        threading.Thread(target=_empty, args=(link,), daemon=True).start()


def _empty(link: socket.socket) -> None:
    with contextlib.suppress(ConnectionError), link:
        while link.recv(CHUNK):
            pass


def send(address: tuple[str, int], period_s: float, size: int) -> None:
    """Send `size` bytes at once every `period_s`; late bursts do not delay the next ones."""
    payload = bytes(size)
    with socket.create_connection(address, timeout=PATIENCE_S) as link:
        print("sending", flush=True)
        due = time.monotonic()
        while True:
            due = max(due + period_s, time.monotonic())
            link.sendall(payload)
            if select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
                return


def main() -> None:
    """Run one side."""
    where = (sys.argv[2], int(sys.argv[3]))
    if sys.argv[1] == "take":
        take(where)
    else:
        send(where, float(sys.argv[4]), int(sys.argv[5]))


if __name__ == "__main__":
    main()
