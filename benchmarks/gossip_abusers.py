"""`python -m benchmarks.gossip_abusers HOST:PORT KIND COUNT`: hostile connections to a member.

`connections`: without keys, in turn an invalid handshake, a handshake broken off, and messages,
pings and the end in one write.  `floods`: a member's key and as many messages as fit, then the end.
The exit status is 0 when all were made, whatever the other end did with them.
"""

from __future__ import annotations

import argparse
import random
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import zmq

from hostcc.coord.core.message import MAX_MESSAGE
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net import address
from hostcc.coord.net.address import Address
from hostcc.coord.net.dealers import CURVE_BYTES

WAIT_S = 2.0
FLOOD = 400
"""Messages of one flood: more than wait for the other end at once."""
SHUT_OUT_S = 0.2
FLOODS_AT_ONCE = 50
"""Made by one process: ZeroMQ may end it."""
SIGNATURE = b"\xff" + bytes(8) + b"\x7f"  # ZMTP 3.1, rfc.zeromq.org/spec/37
PING = b"\x04\x07\x04PING\x00\x00"


def main() -> int:
    """Do it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("at")
    parser.add_argument("kind", choices=("connections", "floods", "flood"))
    parser.add_argument("count", type=int)
    parser.add_argument("--keys", type=Path)
    parser.add_argument("--server", default="", help="whose key to expect")
    args = parser.parse_args()
    at = address.parse(args.at, "HOST:PORT")
    rng = random.Random(args.count)
    if args.kind == "connections":
        for number in range(args.count):
            connect(at, number, rng)
    elif args.kind == "flood":
        for _ in range(args.count):
            flood(at, args.keys, args.server, rng)
    else:
        for begun in range(0, args.count, FLOODS_AT_ONCE):
            some = str(min(FLOODS_AT_ONCE, args.count - begun))
            words = [args.at, "flood", some, "--keys", str(args.keys), "--server", args.server]
            subprocess.run([sys.executable, "-m", "benchmarks.gossip_abusers", *words], check=False)
    return 0


def connect(at: Address, number: int, rng: random.Random) -> None:
    """One connection without keys."""
    try:
        with socket.create_connection((at.host, at.port), WAIT_S) as sock:
            sock.settimeout(WAIT_S)
            [_noise, _broken_off, _pings][number % 3](sock, rng)
            if rng.random() < 0.5:  # end it with RST
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:  # refused, cut, or the door is closed: as it should be
        time.sleep(0.01)


def flood(at: Address, keys: Path, server: str, rng: random.Random) -> None:
    """With keys: more than is taken, and the end of the connection while it waits."""
    keyring = Keyring(keys)
    with zmq.Context() as context:
        sock = context.socket(zmq.DEALER)
        sock.sndhwm = 0
        (sock.curve_serverkey,) = map(bytes.fromhex, keyring.curves_of(server))
        sock.curve_publickey = bytes.fromhex(keyring.current.public.curve)
        sock.curve_secretkey = bytes.fromhex(keyring.current.curve)
        sock.heartbeat_ivl = 100
        sock.sndtimeo = int(1000 * SHUT_OUT_S)
        sock.connect(at.endpoint)
        size = rng.choice((10, 100, 5000, MAX_MESSAGE - CURVE_BYTES))
        with suppress(zmq.Again):  # it was shut out
            for _ in range(FLOOD):
                sock.send(bytes(size))
        time.sleep(rng.uniform(0.0, 0.3))
        sock.close(linger=rng.choice((0, 20)))


def _noise(sock: socket.socket, rng: random.Random) -> None:
    sock.sendall(rng.randbytes(rng.randrange(1, 4000)))


def _broken_off(sock: socket.socket, rng: random.Random) -> None:
    sock.sendall(_greeting(b"CURVE")[: rng.randrange(1, 64)])


def _pings(sock: socket.socket, rng: random.Random) -> None:
    """Without keys it is a member's say; with keys, no handshake."""
    sock.sendall(_greeting(b"NULL") + _ready(b"m%06d" % rng.randrange(10**6)))
    sock.recv(64)
    body = (b"\x00\x01x" * rng.randrange(1, 60) + PING * rng.randrange(1, 20)) * rng.randrange(1, 9)
    sock.sendall(body)


def _greeting(mechanism: bytes) -> bytes:
    return SIGNATURE + b"\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)


def _ready(identity: bytes) -> bytes:
    body = b"\x05READY"
    for name, value in ((b"Socket-Type", b"DEALER"), (b"Identity", identity)):
        body += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
    return bytes([4, len(body)]) + body


if __name__ == "__main__":
    sys.exit(main())
