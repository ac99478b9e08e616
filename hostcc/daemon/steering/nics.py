"""Devices by which jobs' traffic leaves this host, their addresses and speeds."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from hostcc.errors import HostccError
from hostcc.measure import link_speeds
from hostcc.system.netlink import attributes, dump

_GETLINK, _GETADDR = 18, 22
# struct ifinfomsg: family, type, index, flags, change; struct ifaddrmsg: family, length of the
# prefix, flags, scope, index.  Attributes follow.
_LINK, _ADDRESS = struct.Struct("=BxHiII"), struct.Struct("=BBBBI")
_IFNAME, _LINKINFO, _INFO_KIND = 3, 18, 1
# linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h.
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
# ARPHRD_ETHER, IFF_UP, RT_SCOPE_UNIVERSE.
_ETHERNET, _UP, _UNIVERSE = 1, 0x1, 0
# Kinds of devices behind which there are others, or nothing: packets pass the real one, too.
_NO_ADDRESSES = frozenset({"bridge", "openvswitch", "dummy", "ifb"})


@dataclass(frozen=True)
class Nic:
    """One device by which jobs' traffic leaves."""

    name: str
    addresses: tuple[str, ...]
    bytes_per_s: float | None
    """Speed; None: unknown."""


def nics(wanted: Sequence[str] = ()) -> list[Nic]:
    """List devices of the calling thread's network namespace; `wanted` empty: those that fit.

    Raises HostccError for a wanted one that is not there.
    """
    try:
        found, addresses = _devices(), _addresses()
        speeds = {link.index: link.speed_bps for link in link_speeds.links()}
    except OSError as error:
        raise HostccError(f"devices: {error.strerror or error}") from None
    names = {name for name, _ in found.values()}
    if missing := [name for name in wanted if name not in names]:
        raise HostccError(f"paths.devices: {missing[0]}: no such device; ip link lists them")
    made = []
    for index, (name, fits) in found.items():
        own = tuple(sorted(addresses.get(index, ())))
        if name in wanted or (not wanted and fits and own):
            speed = speeds.get(index)
            made.append(Nic(name, own, speed / 8 if speed else None))
    return sorted(made, key=lambda nic: nic.name)


def _devices() -> dict[int, tuple[str, bool]]:
    # Index -> (name, whether jobs' traffic may leave there).
    found = {}
    for link in dump(_GETLINK, bytes(_LINK.size)):
        _, hardware, index, flags, _ = _LINK.unpack_from(link)
        told = attributes(link[_LINK.size :])
        kind = attributes(told.get(_LINKINFO, b"")).get(_INFO_KIND, b"")
        fits = hardware == _ETHERNET and bool(flags & _UP)
        found[index] = _text(told.get(_IFNAME, b"")), fits and _text(kind) not in _NO_ADDRESSES
    return found


def _addresses() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for one in dump(_GETADDR, bytes(_ADDRESS.size)):
        _, _, _, scope, index = _ADDRESS.unpack_from(one)
        told = attributes(one[_ADDRESS.size :])
        # A link without broadcast has the other end's as its address, and its own as local.
        own = told.get(_IFA_LOCAL) or told.get(_IFA_ADDRESS)
        if scope == _UNIVERSE and own:
            found.setdefault(index, []).append(str(ipaddress.ip_address(own)))
    return found


def _text(content: bytes) -> str:
    return content.rstrip(b"\0").decode(errors="replace")
