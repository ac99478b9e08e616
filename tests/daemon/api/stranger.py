"""A user who means ill: `stranger.py DEED SOCKET COUNT`, run as whoever may reach the socket.

linger: passes descriptors of TCP connections whose last close takes as long as SO_LINGER says.
pipes: passes as many pipes as a message may carry.  ask: pipelines requests.  connect: connects.
idle: stays connected.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from array import array

LINGER_S = 20
MOST_DESCRIPTORS = 253


def lingering() -> tuple[int, list[socket.socket]]:
    """A connection with unsent bytes that nobody will read, and what has to stay open."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    out = socket.socket()
    out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
    out.connect(listener.getsockname())
    back, _ = listener.accept()
    out.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            out.send(bytes(65536))
    out.setblocking(True)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
    return out.detach(), [listener, back]


def main(deed: str, path: str, count: int) -> int:
    """What went through."""
    went, kept = 0, []
    kind = socket.SOCK_DGRAM if "marks" in path else socket.SOCK_STREAM
    for _ in range(count):
        sock = socket.socket(socket.AF_UNIX, kind)
        kept.append(sock)
        fds: list[int] = []
        try:
            sock.connect(path)
            sock.setblocking(False)
            if deed == "linger":
                fd, stay = lingering()
                fds, kept = [fd], kept + stay
            elif deed == "pipes":
                fds = [*os.pipe()] * (MOST_DESCRIPTORS // 2)
            if fds:
                rights = array("i", fds)
                sock.sendmsg([b"?\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            elif deed == "ask":
                sock.send(b'{"op":"verify"}\n{"op":"flows"}\n' * 100)
            went += 1
        except OSError:
            if deed == "linger" and fds:  # it was refused: ours would be the last close
                with socket.socket(fileno=os.dup(fds[0])) as again:
                    again.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        finally:
            for fd in set(fds):
                os.close(fd)
            if deed in ("linger", "pipes", "connect"):
                sock.close()
    print(went, flush=True)
    sys.stdin.read()  # what lingers does so until we are told to end
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
