"""Attributes of netlink messages (struct rtattr)."""

from __future__ import annotations

import struct

_KIND = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER


def attributes(data: bytes) -> dict[int, bytes]:
    """Kind -> content; what is cut off is left out."""
    found, at = {}, 0
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        if size < 4:
            break
        found[kind & _KIND] = data[at + 4 : at + size]
        at += (size + 3) & ~3
    return found
