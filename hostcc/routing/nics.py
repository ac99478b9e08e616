"""Where jobs' traffic leaves this host: its devices, their addresses and speeds."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hostcc.errors import HostccError
from hostcc.measure import links
from hostcc.paths.netlink import attributes

_NEWLINK, _GETLINK, _NEWADDR, _GETADDR, _DONE, _ERROR = 16, 18, 20, 22, 3, 2
_REQUEST_DUMP = 0x301
_IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_INFO_KIND, _IFA_ADDRESS, _IFA_LOCAL = 3, 18, 1, 1, 2
_ETHERNET, _UP, _UNIVERSE = 1, 0x1, 0
_NO_ADDRESSES = frozenset({"bridge", "openvswitch", "dummy", "ifb"})
"""Kinds of devices behind which there are others, or nothing: packets pass the real one, too."""


@dataclass(frozen=True)
class Nic:
    """One device."""

    name: str
    addresses: tuple[str, ...]
    bytes_per_s: float | None
    """None: unknown."""


def nics(wanted: Sequence[str] = ()) -> list[Nic]:
    """Devices of the calling thread's network namespace by name; `wanted` empty: those that fit.

    Raises HostccError for a wanted one that is not there.
    """
    try:
        found = dict(_devices())
        addresses = _addresses()
        speeds = {link.index: link.speed_bps for link in links.links()}
    except OSError as error:
        raise HostccError(f"devices: {error.strerror or error}") from None
    names = {name for name, _ in found.values()}
    if missing := [name for name in wanted if name not in names]:
        raise HostccError(f"paths.devices: {missing[0]}: no such device")
    made = []
    for index, (name, fits) in found.items():
        own = tuple(sorted(addresses.get(index, ())))
        if name in wanted or (not wanted and fits and own):
            speed = speeds.get(index)
            made.append(Nic(name, own, speed / 8 if speed else None))
    return sorted(made, key=lambda nic: nic.name)


def _devices() -> Iterator[tuple[int, tuple[str, bool]]]:
    """Index -> (name, whether jobs' traffic may leave there)."""
    for kind, body in _dump(_GETLINK, struct.pack("=BxHiII", 0, 0, 0, 0, 0)):
        if kind != _NEWLINK:
            continue
        _, hardware, index, flags, _ = struct.unpack_from("=BxHiII", body)
        facts = attributes(body[16:])
        name = facts.get(_IFLA_IFNAME, b"").rstrip(b"\0").decode(errors="replace")
        info = attributes(facts.get(_IFLA_LINKINFO, b""))
        what = info.get(_IFLA_INFO_KIND, b"").rstrip(b"\0").decode(errors="replace")
        fits = hardware == _ETHERNET and bool(flags & _UP) and what not in _NO_ADDRESSES
        yield index, (name, fits)


def _addresses() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for kind, body in _dump(_GETADDR, struct.pack("=BBBBI", 0, 0, 0, 0, 0)):
        if kind != _NEWADDR:
            continue
        _, _, _, scope, index = struct.unpack_from("=BBBBI", body)
        facts = attributes(body[8:])
        raw = facts.get(_IFA_LOCAL, facts.get(_IFA_ADDRESS, b""))
        if scope == _UNIVERSE and len(raw) in (4, 16):
            found.setdefault(index, []).append(str(ipaddress.ip_address(raw)))
    return found


def _dump(kind: int, message: bytes) -> Iterator[tuple[int, bytes]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        sock.settimeout(5.0)
        sock.send(
            struct.pack("=IHHII", 16 + len(message), kind, _REQUEST_DUMP, 1, 0) + message
        )  # fmt: skip
        while True:
            data, at = sock.recv(1 << 18), 0
            while at + 16 <= len(data):
                size, answer = struct.unpack_from("=IH", data, at)
                if answer in (_DONE, _ERROR):
                    return
                yield answer, data[at + 16 : at + size]
                at += max(16, (size + 3) & ~3)
