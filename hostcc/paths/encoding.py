"""A PathTable as few bytes, to travel between hosts; and back, trusting nothing.  Pure.

zlib over msgpack: [version, src, dst, probed_at in ms, links, paths]; a path is [id, indices
into links, ports], its ports being differences of the sorted ports in LEB128.
"""

from __future__ import annotations

import ipaddress
import zlib
from itertools import pairwise
from typing import Any

import msgspec

from hostcc.errors import InputError
from hostcc.model import Path, PathTable

VERSION = 1
MAX_BYTES = 16 << 10
"""Of an encoded table."""
MAX_PLAIN_BYTES = 256 << 10
MAX_PATHS, MAX_LINKS_OF_PATH, MAX_PORTS_OF_PATH, MAX_NAME = 1024, 32, 4096, 128
PORTS_OF_PATH = 64
"""As many ports of a path travel at most, unless asked otherwise."""

_WHERE = "path table"
_Wire = tuple[int, str, str, int, list[str], list[tuple[str, list[int], bytes]]]
_DECODER: msgspec.msgpack.Decoder[_Wire] = msgspec.msgpack.Decoder(_Wire)


def encode(table: PathTable, ports: int = PORTS_OF_PATH, max_bytes: int = MAX_BYTES) -> bytes:
    """At most `max_bytes`; ports come back sorted, and fewer of each path when it would be more.

    Raises InputError for a table that does not fit even with one port a path.
    """
    while True:
        data = _encode(table, ports)
        if len(data) <= max_bytes:
            return data
        if ports <= 1:
            raise InputError(
                f"{_WHERE} to {table.dst}: expected at most {max_bytes} bytes, got {len(data)}"
            )
        ports //= 2


def decode(data: bytes) -> PathTable:
    """Read a table back.  Raises InputError, one line."""
    if len(data) > MAX_BYTES:
        raise InputError(f"{_WHERE}: expected at most {MAX_BYTES} bytes, got {len(data)}")
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(data, MAX_PLAIN_BYTES)
        if not unpacker.eof or unpacker.unused_data:
            raise InputError(f"{_WHERE}: expected at most {MAX_PLAIN_BYTES} bytes, uncompressed")
        version, src, dst, at_ms, links, paths = _DECODER.decode(plain)
    except (zlib.error, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"{_WHERE}: damaged: {error}") from None
    if version != VERSION:
        raise InputError(f"{_WHERE}: version: expected {VERSION}, got {version}")
    _check(len(paths) <= MAX_PATHS, f"at most {MAX_PATHS} paths", len(paths))
    _check(0 <= at_ms < 1 << 53, "probed_at as milliseconds since the epoch", at_ms)
    for name in (src, dst):
        _address(name)
    for name in [*links, *(path[0] for path in paths)]:
        _check(0 < len(name) <= MAX_NAME and name.isprintable(), "a name", name)
    ids = {path[0] for path in paths}
    _check(len(ids) == len(paths), "each path once", len(paths) - len(ids))
    return PathTable(src, dst, tuple(_path(links, *path) for path in paths), at_ms / 1000)


def _encode(table: PathTable, ports: int) -> bytes:
    links = sorted({link for path in table.paths for link in path.links})
    index = {link: number for number, link in enumerate(links)}
    paths = [
        (path.id, [index[link] for link in path.links], _deltas(path.ports[:ports]))
        for path in table.paths
    ]
    at_ms = max(0, round(table.probed_at * 1000))
    wire: _Wire = (VERSION, table.src, table.dst, at_ms, links, paths)
    return zlib.compress(msgspec.msgpack.encode(wire), 9)


def _path(links: list[str], name: str, indices: list[int], packed: bytes) -> Path:
    _check(len(indices) <= MAX_LINKS_OF_PATH, f"at most {MAX_LINKS_OF_PATH} links", len(indices))
    for number in indices:
        _check(0 <= number < len(links), f"a link from 0 to {len(links) - 1}", number)
    return Path(name, tuple(links[number] for number in indices), _ports(packed))


def _deltas(ports: tuple[int, ...]) -> bytes:
    ordered = sorted(set(ports))
    out = bytearray()
    for before, port in pairwise([0, *ordered]):
        rest = port - before
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def _ports(packed: bytes) -> tuple[int, ...]:
    _check(len(packed) <= 3 * MAX_PORTS_OF_PATH, f"at most {MAX_PORTS_OF_PATH} ports", len(packed))
    ports: list[int] = []
    port = value = shift = 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        _check(shift <= 21, "ports in at most three bytes each", shift // 7)
        if not byte & 0x80:
            port += value
            _check(value > 0 and port <= 0xFFFF, "ports from 1 to 65535, rising", port)
            ports.append(port)
            value = shift = 0
    _check(shift == 0, "whole ports", "a part of one")
    _check(len(ports) <= MAX_PORTS_OF_PATH, f"at most {MAX_PORTS_OF_PATH} ports", len(ports))
    return tuple(ports)


def _address(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        _check(good=False, expected="an IP address", got=text)


def _check(good: bool, expected: str, got: Any) -> None:
    if not good:
        raise InputError(f"{_WHERE}: expected {expected}, got {got!r:.60}")
