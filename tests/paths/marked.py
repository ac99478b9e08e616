"""A process whose sockets are marked: orders as JSON lines, answers likewise."""

from __future__ import annotations

import json
import socket
import sys
import threading
from typing import Any

IPV6_TCLASS = 67
SND_CWND = 80
"""Where tcpi_snd_cwnd is in struct tcp_info."""
socks: dict[str, socket.socket] = {}


def family_of(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def tos(name: str) -> int:
    sock = socks[name]
    if sock.family == socket.AF_INET6:
        return sock.getsockopt(socket.IPPROTO_IPV6, IPV6_TCLASS)
    return sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS)


def set_tos(name: str, value: int) -> None:
    sock = socks[name]
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_TCLASS, value)
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, value)


def listen(name: str, address: str) -> int:
    socks[name] = socket.socket(family_of(address))
    socks[name].bind((address, 0))
    socks[name].listen()
    return int(socks[name].getsockname()[1])


def connect(name: str, address: str, port: int, own_tos: int = 0, udp: bool = False) -> int:
    kind = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
    socks[name] = socket.socket(family_of(address), kind)
    if own_tos:
        set_tos(name, own_tos)
    socks[name].connect((address, port))
    return tos(name)


def accept(name: str, listener: str) -> int:
    socks[name] = socks[listener].accept()[0]
    return tos(name)


def sendto(name: str, address: str, port: int) -> int:
    if name not in socks:
        socks[name] = socket.socket(family_of(address), socket.SOCK_DGRAM)
    socks[name].sendto(b"x", (address, port))
    return tos(name)


def send(name: str) -> int:
    return socks[name].send(b"x")


def pace(name: str) -> int:
    return socks[name].getsockopt(socket.SOL_SOCKET, 47)  # SO_MAX_PACING_RATE


def flood(name: str, sink: str, size: int) -> int:
    """Have one end of a connection read what the other sends; the sender's window, in packets."""
    reader = threading.Thread(target=_read, args=(socks[sink], size))
    reader.start()
    socks[name].sendall(bytes(size))
    reader.join()
    info = socks[name].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int.from_bytes(info[SND_CWND : SND_CWND + 4], sys.byteorder)


def _read(sock: socket.socket, size: int) -> None:
    while size > 0:
        size -= len(sock.recv(1 << 20))


def main() -> None:
    for line in sys.stdin:
        order, arguments = json.loads(line)
        answer: Any = globals()[order](**arguments)
        print(json.dumps(answer), flush=True)


main()
