"""How fast this host's links are, from ethtool or sysfs, and which of them leads where.

A speed that nobody knows is None.  Virtual interfaces report one that nothing enforces (veth:
10 Gbit/s), so these are marked as nominal.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hostcc.bpf.loader.netns import in_netns
from hostcc.measure.destinations import Address
from hostcc.system.netlink import RefusedError, attribute, attributes, get

SYSFS = Path("/sys/class/net")
MAX_INTERFACES = 4096
MBIT = 1_000_000
MAX_MBIT = 10_000_000
UNKNOWN_MBIT = 0xFFFFFFFF
"""SPEED_UNKNOWN of linux/ethtool.h, as an unsigned number."""
SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO, ETHTOOL_GLINKSETTINGS = 0x03, 0x4C
_RTM_GETROUTE, _RTA_DST, _RTA_OIF = 26, 1, 4
_ROUTE = struct.Struct("=BBBBBBBBI")
"""struct rtmsg (linux/rtnetlink.h): family, bits of the destination, and what is left 0."""
_SETTINGS_BYTES, _MASK_WORDS_AT, _SPEED_AT = 48, 15, 4
_DRVINFO_BYTES, _DRIVER_AT, _BUS_AT = 196, 4, 100
_DERIVED = frozenset({"bonding", "team", "802.1Q VLAN Support"})
"""Virtual drivers that report the speed of what is below them."""


@dataclass(frozen=True)
class Link:
    """One network interface of one network namespace."""

    name: str
    index: int
    speed_bps: int | None
    """Bits per second; None: unknown, or the link is down."""
    nominal: bool
    """Nothing enforces that speed: the interface is virtual."""


def parse_speed(mbit: str | int) -> int | None:
    """Bits per second from what the kernel says in Mbit/s; None for its ways to say unknown."""
    text = str(mbit).strip()
    if not (text.isascii() and text.isdecimal()) or len(text) > 10:
        return None
    value = int(text)
    return value * MBIT if 0 < value <= MAX_MBIT and value != UNKNOWN_MBIT else None


def sysfs_speed(name: str, sysfs: Path = SYSFS) -> int | None:
    """Speed of an interface of the namespace that `sysfs` was mounted in, bits per second."""
    try:
        with (sysfs / name / "speed").open("rb") as file:
            return parse_speed(file.read(32).decode("ascii", "replace"))
    except (OSError, ValueError):
        return None


def links(netns: Path | None = None) -> list[Link]:
    """All interfaces of a network namespace, None for our own.  Raises OSError or BpfError."""
    return in_netns(netns, lambda: _links(own=netns is None))


def _links(own: bool) -> list[Link]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return [
            Link(name, index, _speed(sock, name, own), _is_nominal(sock, name))
            for index, name in socket.if_nameindex()[:MAX_INTERFACES]
        ]


def carriers(addresses: Iterable[Address], netns: Path | None = None) -> dict[Address, int | None]:
    """Index of the interface that each destination is reached by now; None: no route.

    With several equal routes it is the one that a new flow without a source port would take.
    """
    wanted = list(addresses)
    return in_netns(netns, lambda: {address: _carrier(address) for address in wanted})


def _carrier(address: Address) -> int | None:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    route = _ROUTE.pack(family, address.max_prefixlen, *[0] * 7)
    try:
        answer = get(_RTM_GETROUTE, route + attribute(_RTA_DST, address.packed))
    except RefusedError:
        return None
    index = attributes(answer[_ROUTE.size :]).get(_RTA_OIF)
    return int.from_bytes(index, sys.byteorder) if index else None


def _speed(sock: socket.socket, name: str, own: bool) -> int | None:
    """By ethtool, which works in every namespace; sysfs shows the one that it was mounted in."""
    head = _ethtool(sock, name, struct.pack("=I", ETHTOOL_GLINKSETTINGS), _SETTINGS_BYTES)
    words = -struct.unpack_from("=b", head, _MASK_WORDS_AT)[0] if head else 0
    if words > 0:  # the first call only tells how much room the answer takes
        request = bytearray(_SETTINGS_BYTES)
        struct.pack_into("=I", request, 0, ETHTOOL_GLINKSETTINGS)
        struct.pack_into("=b", request, _MASK_WORDS_AT, words)
        answer = _ethtool(sock, name, bytes(request), _SETTINGS_BYTES + 12 * words)
        if answer:
            return parse_speed(struct.unpack_from("=I", answer, _SPEED_AT)[0])
    return sysfs_speed(name) if own else None


def _is_nominal(sock: socket.socket, name: str) -> bool:
    info = _ethtool(sock, name, struct.pack("=I", ETHTOOL_GDRVINFO), _DRVINFO_BYTES)
    driver, bus = (info[at : at + 32].partition(b"\0")[0] for at in (_DRIVER_AT, _BUS_AT))
    return not bus and driver.decode("ascii", "replace") not in _DERIVED


def _ethtool(sock: socket.socket, name: str, request: bytes, size: int) -> bytes:
    """One SIOCETHTOOL; empty when the interface does not answer it."""
    buffer = ctypes.create_string_buffer(request, size)
    ifreq = struct.pack("=16sQ16x", name.encode()[:15], ctypes.addressof(buffer))
    try:
        fcntl.ioctl(sock, SIOCETHTOOL, ifreq)
    except OSError:
        return b""
    return buffer.raw
