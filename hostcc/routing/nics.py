"""Where jobs' traffic leaves this host: its devices, their addresses and speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hostcc.errors import HostccError
from hostcc.measure import links
from hostcc.rtnetlink import ask

_ETHERNET, _UP, _UNIVERSE = 1, 0x1, 0
"""ARPHRD_ETHER, IFF_UP, RT_SCOPE_UNIVERSE."""
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
        found, addresses = ask(lambda ip: (_devices(ip), _addresses(ip)))
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


def _devices(ip: Any) -> dict[int, tuple[str, bool]]:
    """Index -> (name, whether jobs' traffic may leave there)."""
    found = {}
    for link in ip.get_links():
        kind = link.get(("linkinfo", "kind"))
        fits = link["ifi_type"] == _ETHERNET and bool(link["flags"] & _UP)
        found[link["index"]] = link.get("ifname"), fits and kind not in _NO_ADDRESSES
    return found


def _addresses(ip: Any) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for one in ip.get_addr():
        # A link without broadcast has the other end's as its address, and its own as local.
        own = one.get("local") or one.get("address")
        if one["scope"] == _UNIVERSE and own:
            found.setdefault(one["index"], []).append(own)
    return found
