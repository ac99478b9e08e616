"""Hold TCP connections open, idle: `python -m benchmarks.holder listen|connect ADDRESS PORT`.

`listen` accepts all connections.  `connect` reads numbers from standard input, one a line,
opens or closes connections until it has that number, and answers `open N`.  Both end when their
standard input does.
"""

from __future__ import annotations

import resource
import select
import socket
import sys
import time

MOST = 30_000
"""Connections; a pair of addresses has not many more ports."""
SPARE_FILES = 64
PATIENCE_S = 30.0


def most() -> int:
    """Connections that a process may hold under its hard limit of open files."""
    return min(MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - SPARE_FILES)


def allow_files() -> None:
    """Raise this process's limit of open files as far as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def listen(address: tuple[str, int]) -> None:
    """Accept, and let go of what the other side closes."""
    poll = select.epoll()
    listener = socket.create_server(address, backlog=4096)
    links: dict[int, socket.socket] = {}
    poll.register(listener, select.EPOLLIN)
    poll.register(sys.stdin, select.EPOLLIN | select.EPOLLHUP)
    print("listening", flush=True)
    while True:
        for fd, _ in poll.poll():
            if fd == sys.stdin.fileno():
                return
            if fd == listener.fileno():
                link, _ = listener.accept()
                links[link.fileno()] = link
                poll.register(link, select.EPOLLIN)
            elif fd in links and not links[fd].recv(4096, socket.MSG_DONTWAIT):
                poll.unregister(fd)
                links.pop(fd).close()


def connect(address: tuple[str, int]) -> None:
    """Have as many connections as the last line says."""
    links: list[socket.socket] = []
    for line in sys.stdin:
        wanted = min(MOST, int(line))
        while len(links) > wanted:
            links.pop().close()
        while len(links) < wanted:
            links.append(_open(address))
        print(f"open {len(links)}", flush=True)


def _open(address: tuple[str, int]) -> socket.socket:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(address, timeout=5.0)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main() -> None:
    """Run one side."""
    allow_files()
    address = (sys.argv[2], int(sys.argv[3]))
    listen(address) if sys.argv[1] == "listen" else connect(address)


if __name__ == "__main__":
    main()
