"""Computes paths from the hash function of the switches, where it is known.  Pure.

A fabric is a row of stages; in each the hash chooses one of several links.  A packet's path is
the row of these choices, so the number of paths is the product.
"""

from __future__ import annotations

import binascii
import ipaddress
import itertools
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hostcc.errors import InputError
from hostcc.model import Path, PathTable
from hostcc.paths import probed_tables, source_ports
from hostcc.paths.packets import Target

MAX_PATHS = 1024


def _xor(key: bytes, seed: int) -> int:
    folded = seed & 0xFFFF
    for (word,) in struct.iter_unpack("!H", key + b"\0" * (len(key) % 2)):
        folded ^= word
    return folded ^ folded >> 8


FUNCTIONS: dict[str, Callable[[bytes, int], int]] = {
    "crc32": zlib.crc32,
    "crc16": lambda key, seed: binascii.crc_hqx(key, seed & 0xFFFF),
    "xor": _xor,
}
"""Over addresses, protocol and ports in network order: CRC-32 (IEEE), CRC-16 (CCITT), and the
16-bit words folded together by XOR, both bytes into the low one."""


@dataclass(frozen=True)
class Stage:
    """One choice on the way."""

    function: str
    ways: tuple[tuple[str, ...], ...]
    """Links that each choice leads over."""
    seed: int = 0


class HashSource:
    """A PathSource; `first` and `last` bound the source ports that are tabulated."""

    def __init__(
        self,
        stages: Sequence[Stage],
        first: int = source_ports.FIRST_PORT,
        last: int = source_ports.LAST_PORT,
    ) -> None:
        size = 1
        for number, stage in enumerate(stages):
            if stage.function not in FUNCTIONS:
                known = ", ".join(FUNCTIONS)
                raise InputError(
                    f"stage[{number}].function: expected one of {known}, got {stage.function!r:.40}"
                )
            if not stage.ways:
                raise InputError(f"stage[{number}].ways: expected at least one, got none")
            size *= len(stage.ways)
        if size > MAX_PATHS:
            raise InputError(f"stages: expected at most {MAX_PATHS} paths, got {size}")
        self._stages = tuple(stages)
        self._ports = range(first, last + 1)

    def table(self, target: Target) -> PathTable | None:
        """See sources.PathSource."""
        head = ipaddress.ip_address(target.src).packed + ipaddress.ip_address(target.dst).packed
        head += bytes([target.protocol])
        tail = struct.pack("!H", target.dst_port)
        ways: dict[tuple[str, ...], list[int]] = {}
        for port in self._ports:
            key = head + struct.pack("!H", port) + tail
            links = itertools.chain.from_iterable(
                stage.ways[FUNCTIONS[stage.function](key, stage.seed) % len(stage.ways)]
                for stage in self._stages
            )
            ways.setdefault(tuple(links), []).append(port)
        paths = (Path(probed_tables.path_id(links), links, tuple(p)) for links, p in ways.items())
        return PathTable(target.src, target.dst, tuple(sorted(paths, key=lambda path: path.id)))
