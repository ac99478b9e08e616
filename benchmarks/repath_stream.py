"""One end of a checksummed stream, as a process of a lab host.

`serve ADDRESS PORT` receives one connection until its end; `send ADDRESS PORT SOURCE_PORT`
sends numbered, hashed blocks at full speed until `stop` on its standard input.  At the end both
print the number of bytes and their digest.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket
import sys

BLOCK = 1 << 16


def serve(address: str, port: int) -> tuple[int, str]:
    """Receive one stream."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(1)
        print("ready", flush=True)
        sock, _ = listener.accept()
    digest, count = hashlib.blake2b(), 0
    buffer = bytearray(BLOCK)
    with sock:
        while got := sock.recv_into(buffer):
            digest.update(memoryview(buffer)[:got])
            count += got
    return count, digest.hexdigest()


def send(address: str, port: int, source: int) -> tuple[int, str]:
    """Send one until told to stop."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    digest, count = hashlib.blake2b(), 0
    block = bytearray(os.urandom(BLOCK))
    with socket.socket(family) as sock:
        if source:
            sock.bind(("", source))
        sock.connect((address, port))
        print(sock.getsockname()[1], flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            block[:8] = count.to_bytes(8, "big")
            sock.sendall(block)
            digest.update(block)
            count += BLOCK
    return count, digest.hexdigest()


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "serve":
        result = serve(words[1], int(words[2]))
    else:
        result = send(words[1], int(words[2]), int(words[3]))
    print(*result, flush=True)
