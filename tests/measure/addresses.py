"""Addresses as the byte meter has them."""

from __future__ import annotations

from ipaddress import ip_address

import numpy as np
import numpy.typing as npt


def packed(text: str) -> npt.NDArray[np.uint8]:
    """The 16 bytes of an address in a row; IPv4 as ::ffff:a.b.c.d."""
    plain = ip_address(text)
    wide = plain.packed if plain.version == 6 else b"\0" * 10 + b"\xff\xff" + plain.packed
    return np.frombuffer(wide, np.uint8)
