"""Many connections in many network namespaces: a process for each, that holds them on loopback.

Words: how many namespaces, how many connections in each (two sockets a connection).  It says "up"
once all are open.  At each line on stdin every connection carries a byte, and it says "sent"; at
the end of stdin all ends.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def enter() -> None:
    """A namespace of its own, with loopback."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def hold(connections: int, orders: int, answers: int) -> None:
    """Open them; a byte over each at every order."""
    enter()
    with socket.create_server(("127.0.0.1", 0), backlog=connections) as server:
        pairs = []
        for _ in range(connections):
            client = socket.create_connection(server.getsockname())
            pairs.append((client, server.accept()[0]))
    os.write(answers, b"u")
    while os.read(orders, 1):
        for client, peer in pairs:
            client.send(b"x")
            peer.recv(1)
        os.write(answers, b"s")


def main() -> None:
    namespaces, connections = map(int, sys.argv[1:])
    up_read, up_write = os.pipe()
    orders: list[int] = []
    for _ in range(namespaces):
        read, write = os.pipe()
        if os.fork() == 0:
            for other in (*orders, write, up_read):
                os.close(other)
            hold(connections, read, up_write)
            os._exit(0)
        os.close(read)
        orders.append(write)
    os.close(up_write)  # so that a child which failed is noticed

    def answered() -> bool:
        return all(os.read(up_read, 1) for _ in range(namespaces))

    print("up" if answered() else "failed", flush=True)
    for _ in sys.stdin:
        for order in orders:
            os.write(order, b"x")
        print("sent" if answered() else "failed", flush=True)


if __name__ == "__main__":
    main()
