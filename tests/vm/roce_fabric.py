"""In the guest: two Soft-RoCE devices, two routers and two equal paths between them.

    rxa (va) - f1 = p0, p1 = f2 - (vb) rxb

Both ends are in the initial namespace, as Soft-RoCE wants; routing rules force what is local
onto the wire.  `Capture` sees what crosses each wire.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.vm.patience import until

ADDRESS = {"rxa": "198.18.1.1", "rxb": "198.18.2.1"}
ROUTER = {"rxa": "f1", "rxb": "f2"}
"""The first one on the way of what a device sends."""
IPV4_GID = 1
PATHS = ("p0", "p1")
_CLONE_NEWNET = 0x40000000
_ETH_P_ALL = socket.htons(3)
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE = 26, 33
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SNAP = 64
_LEAST_UDP = 8 + 12 + 4
"""UDP, base transport header, ICRC: no RoCEv2 packet is shorter."""
MIDDLES = (0x01, 0x07, 0x0E)
"""Opcodes of the packets in the middle of a send, a write, a read's answer (RC)."""


def run(command: str) -> None:
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


def _sysctl(namespace: str, **values: int) -> None:
    inside = f"ip netns exec {namespace} " if namespace else ""
    for key, value in values.items():
        run(f"{inside}sysctl -qw net.ipv4.{key.replace('__', '.')}={value}")


def build() -> None:
    """All links, routes and devices."""
    for module in ("veth", "rdma_rxe"):
        run(f"modprobe {module}")
    # Soft-RoCE breaks queue pairs now and then when it has to send again: lose nothing.
    run("sysctl -qw net.core.netdev_max_backlog=100000")
    for name in ("f1", "f2"):
        run(f"ip netns add {name}")
        _sysctl(name, ip_forward=1, fib_multipath_hash_policy=1, icmp_ratelimit=0)
        _sysctl(name, conf__all__rp_filter=0, conf__default__rp_filter=0)
        run(f"ip -n {name} link set lo up")
    _sysctl("", conf__all__rp_filter=0, conf__default__rp_filter=0, conf__all__accept_local=1)
    _sysctl("", conf__all__arp_ignore=1, conf__all__arp_announce=2)
    for link, router, port, net in (("va", "f1", "a0", 1), ("vb", "f2", "b0", 2)):
        near, far = f"02:00:00:00:00:{net:02x}", f"02:00:00:00:01:{net:02x}"
        run(f"ip link add {link} address {near} type veth"
            f" peer name {port} address {far} netns {router}")  # fmt: skip
        run(f"sysctl -qw net.ipv6.conf.{link}.disable_ipv6=1")
        run(f"ip addr add 198.18.{net}.1/24 dev {link}")
        run(f"ip link set {link} up")
        run(f"ip -n {router} addr add 198.18.{net}.254/24 dev {port}")
        run(f"ip -n {router} link set {port} up")
        # rdma_cm takes news of a neighbour in any namespace for a peer that has gone.
        run(f"ip neigh add 198.18.{net}.254 lladdr {far} dev {link} nud permanent")
        run(f"ip -n {router} neigh add 198.18.{net}.1 lladdr {near} dev {port} nud permanent")
    for index, path in enumerate(PATHS):
        run(f"ip -n f1 link add {path} type veth peer name {path} netns f2")
        for side, router in ((1, "f1"), (2, "f2")):
            run(f"ip -n {router} addr add 198.19.{index}.{side}/24 dev {path}")
            run(f"ip -n {router} link set {path} up")
    two_paths()
    run("ip rule add pref 10 iif va lookup local")
    run("ip rule add pref 11 iif vb lookup local")
    run("ip route add 198.18.2.1 via 198.18.1.254 dev va src 198.18.1.1 table 100")
    run("ip route add 198.18.1.1 via 198.18.2.254 dev vb src 198.18.2.1 table 100")
    run("ip rule add pref 20 lookup 100")
    run("ip rule add pref 32 lookup local")
    run("ip rule del pref 0")
    run("rdma link add rxa type rxe netdev va")
    run("rdma link add rxb type rxe netdev vb")
    gid = Path(f"/sys/class/infiniband/rxa/ports/1/gids/{IPV4_GID}")
    until(lambda: gid.exists() and "ffff" in gid.read_text(), lambda: 0, "an IPv4 GID")


def one_path(there: str = "p0", back: str = "p0") -> None:
    """Have the routers use one path alone, from rxa and from rxb."""
    there_at, back_at = PATHS.index(there), PATHS.index(back)
    run(f"ip -n f1 route replace 198.18.2.0/24 nexthop via 198.19.{there_at}.2")
    run(f"ip -n f2 route replace 198.18.1.0/24 nexthop via 198.19.{back_at}.1")


def two_paths() -> None:
    """Have both use p1, too."""
    run("ip -n f1 route replace 198.18.2.0/24 nexthop via 198.19.0.2 nexthop via 198.19.1.2")
    run("ip -n f2 route replace 198.18.1.0/24 nexthop via 198.19.0.1 nexthop via 198.19.1.1")


def hash_by(fields: int) -> None:
    """Have the routers choose paths by these fields of packets.

    Both alike: an answer to a probe has the address of the link on which it goes back, which is
    that of the way there only where both hash the same.
    """
    for router in ROUTER.values():
        _sysctl(router, fib_multipath_hash_policy=3, fib_multipath_hash_fields=fields)


def counters() -> dict[str, int]:
    """What Soft-RoCE had to repeat or gave up."""
    found: dict[str, int] = {}
    for device in ADDRESS:
        for path in Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters").iterdir():
            value = path.read_text().strip()
            if value.isdecimal() and int(value) and path.name != "lifespan":
                found[f"{device} {path.name}"] = int(value)
    return found


@dataclass(frozen=True)
class Packet:
    """One RoCEv2 packet."""

    path: str
    source: str
    port: int
    traffic_class: int
    opcode: int
    """Of the base transport header; below 0x20: of a reliable connection."""


class Capture:
    """RoCEv2 packets that one end sends, on both paths, seen inside the first router.

    The kernel picks the first and last packets of every message, cuts them short, and keeps
    some 100,000 of them until they are taken; `lost` says whether there were more.
    """

    def __init__(self, sender: str = "rxa") -> None:
        router = ROUTER[sender]
        self._sockets = {path: _socket_in(router, path, ADDRESS[sender]) for path in PATHS}

    def take(self) -> list[Packet]:
        """What came since the last call: all that was acknowledged has been on the wire."""
        found = []
        for path, tap in self._sockets.items():
            while True:
                try:
                    data = tap.recv(128)
                except BlockingIOError:
                    break
                packet = _parse(path, data)
                if packet is not None:
                    found.append(packet)
        return found

    def lost(self) -> int:
        """Packets that did not fit into the buffers since the last call."""
        return sum(
            struct.unpack("II", tap.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
            for tap in self._sockets.values()
        )


def _parse(path: str, data: bytes) -> Packet | None:
    if data[12:14] != b"\x08\x00" or data[23] != socket.IPPROTO_UDP:
        return None
    at = 14 + (data[14] & 15) * 4
    port, to, length = struct.unpack_from("!HHH", data, at)
    if to != 4791 or length < _LEAST_UDP:
        return None  # the agent's probes of paths are shorter, with any port and class 0
    return Packet(path, socket.inet_ntoa(data[26:30]), port, data[15], data[at + 8])


def _socket_in(namespace: str, link: str, source: str) -> socket.socket:
    """A packet socket in another network namespace; this thread comes back."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/self/ns/net").open() as home, Path(f"/run/netns/{namespace}").open() as away:
        assert libc.setns(away.fileno(), _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _ETH_P_ALL)
            tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
            _attach_filter(tap, source)
            tap.bind((link, 0))
        finally:
            assert libc.setns(home.fileno(), _CLONE_NEWNET) == 0
    tap.setblocking(False)
    return tap


def _attach_filter(tap: socket.socket, source: str) -> None:
    """Classic BPF: RoCEv2 over IPv4 from `source`, without the middles of messages."""
    (address,) = struct.unpack("!I", socket.inet_aton(source))
    tests = [
        (0x28, 12, 0x0800), (0x30, 23, socket.IPPROTO_UDP), (0x20, 26, address), (0xB1, 14, None),
        (0x48, 16, 4791),
    ]  # fmt: skip
    code: list[tuple[int, int, int, int]] = []
    for load, offset, wanted in tests:
        code.append((load, 0, 0, offset))
        if wanted is not None:
            code.append((0x15, 1, 0, wanted))  # equal: skip the next
            code.append((0x06, 0, 0, 0))  # none of it
    code.append((0x50, 0, 0, 22))  # the opcode, behind the UDP header
    for middle in MIDDLES:
        code.append((0x15, 0, 1, middle))
        code.append((0x06, 0, 0, 0))
    code.append((0x06, 0, 0, _SNAP))
    raw = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
    program = struct.pack("HL", len(code), ctypes.addressof(raw))
    tap.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
