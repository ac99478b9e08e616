"""`python -m benchmarks.gossip_clients KEYS HOST:PORT COUNT`: connections of one member.

Opens COUNT connections to another member, sends one message over each, and holds them until
standard input ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

import zmq

from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net import address


def main() -> int:
    """Connect and wait."""
    keyring = Keyring(Path(sys.argv[1]))
    at, count = address.parse(sys.argv[2], "HOST:PORT"), int(sys.argv[3])
    (server,) = keyring.curves_of("server")
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, count + 8)
    held = []  # a socket that nobody refers to is closed
    for _ in range(count):
        socket = context.socket(zmq.DEALER)
        socket.linger = 0
        socket.curve_serverkey = bytes.fromhex(server)
        socket.curve_publickey = bytes.fromhex(keyring.current.public.curve)
        socket.curve_secretkey = bytes.fromhex(keyring.current.curve)
        socket.connect(at.endpoint)
        socket.send(b"hello")
        held.append(socket)
    sys.stdin.read()
    context.destroy(linger=0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
