"""`python -m benchmarks.control_abusers SOCKET DEED`: a reader who takes all that he can get.

`verify` and `flows`: pipelines a hundred such requests on each of sixteen connections, again
whenever one is answered.  `connect`: connects and hangs up.  It runs as nobody, until it is killed.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from contextlib import suppress

from benchmarks.control_abuse import NOBODY

CONNECTIONS = 16
PIPELINE = 100
"""Requests in one write."""


def main(path: str, deed: str) -> None:
    """Go on for ever."""
    os.setgroups([NOBODY])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    if deed == "connect":
        while True:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
                sock.connect(path)
    request = b'{"v":1,"op":"%s"}\n' % deed.encode() * PIPELINE
    readers: dict[int, socket.socket] = {}
    poll = select.poll()
    while True:
        while len(readers) < CONNECTIONS:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(path)
                sock.setblocking(False)
                sock.send(request)
            except OSError:
                sock.close()
                break
            readers[sock.fileno()] = sock
            poll.register(sock, select.POLLIN)
        for fd, _ in poll.poll(10):
            sock = readers[fd]
            try:
                if sock.recv(1 << 20):
                    sock.send(request)
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass  # the agent hung up
            poll.unregister(fd)
            readers.pop(fd).close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
