"""Which versions of glibc a library needs, and on which hosts a wheel with it can be installed.

Used by the wheel build; imports nothing but the standard library.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from pathlib import Path

OLDEST_GLIBC = (2, 28)
"""What libraries that jobs load may need (hostcc/system/old_glibc.h): EL 8, Debian 10."""
FREE = frozenset({"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"})
"""Libraries that every host of a manylinux platform has."""
SHT_DYNAMIC, SHT_VERNEED = 6, 0x6FFFFFFE
DT_NEEDED = 1
_VERSION = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?\Z")


def _sections(image: bytes) -> list[tuple[int, int, int, int]]:
    """(type, offset, size, index of the strings) of each."""
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("expected a 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    found = []
    for at in range(offset, offset + size * count, size):
        kind, where, length, link = struct.unpack_from("<4xI16xQQI", image, at)
        found.append((kind, where, length, link))
    return found


def _text(image: bytes, at: int) -> str:
    return image[at : image.index(b"\0", at)].decode()


def versions(path: Path) -> frozenset[str]:
    """Versions of symbols that other libraries have to offer, like GLIBC_2.17."""
    image = path.read_bytes()
    sections = _sections(image)
    found = set()
    for kind, start, _, link in sections:
        if kind != SHT_VERNEED:
            continue
        strings, need, more = sections[link][1], start, 1
        while more:
            count, auxiliary, more = struct.unpack_from("<2xH4xII", image, need)
            version = need + auxiliary
            for _ in range(count):
                name, onward = struct.unpack_from("<8xII", image, version)
                found.add(_text(image, strings + name))
                version += onward
            need += more
    return frozenset(found)


def libraries(path: Path) -> frozenset[str]:
    """Names of the libraries that are loaded with it."""
    image = path.read_bytes()
    sections = _sections(image)
    found = set()
    for kind, offset, size, link in sections:
        if kind == SHT_DYNAMIC:
            for at in range(offset, offset + size, 16):
                tag, value = struct.unpack_from("<qQ", image, at)
                if tag == DT_NEEDED:
                    found.add(_text(image, sections[link][1] + value))
    return frozenset(found)


def newer(path: Path) -> list[str]:
    """What it needs beyond OLDEST_GLIBC and the libraries of every host, in words."""
    found = sorted(libraries(path) - FREE)
    for name in sorted(versions(path)):
        match = _VERSION.match(name)
        if match is None or (int(match[1]), int(match[2])) > OLDEST_GLIBC:
            found.append(name)
    return found


def platform(machine: str, paths: Iterable[Path]) -> str:
    """The platform tag of a wheel with these libraries on a machine like x86_64."""
    if any(newer(path) for path in paths):
        return f"linux_{machine}"
    return "manylinux_{}_{}_{}".format(*OLDEST_GLIBC, machine)
