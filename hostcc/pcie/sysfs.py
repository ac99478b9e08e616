"""Reads the PCIe tree from sysfs (Documentation/ABI/testing/sysfs-bus-pci).

Thin and forgiving: what cannot be read is None; names that are no bus ids are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hostcc.pcie.tree import MAX_NODES, Kind, Node, Tree, kind_of, make, rate_of

SYSFS = Path("/sys")
_DEVICE = re.compile(r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_HOST = re.compile(r"^pci[0-9a-f]{4,8}:[0-9a-f]{2}\Z")
_SPEED = re.compile(r"^(\d{1,3}(?:\.\d)?) GT/s")
_NAME = re.compile(r"^[A-Za-z0-9_.:-]{1,64}\Z")
MAX_NAMES = 16


def read(sysfs: Path = SYSFS) -> Tree:
    """Read the tree of this host, or of a copy of its /sys elsewhere."""
    return make(_nodes(sysfs))


def _nodes(sysfs: Path) -> Iterator[Node]:
    hosts = sorted((sysfs / "devices").glob("pci*"))
    for host in hosts:
        if _HOST.match(host.name):
            yield Node(host.name, Kind.HOST, numa=_whole(host / "numa_node", -1, 1023))
            yield from _below(host, host.name, 0, MAX_NODES)


def _below(folder: Path, parent: str, depth: int, room: int) -> Iterator[Node]:
    # Devices of a bus; `depth`: bridges above them.
    if depth > 32 or not room:
        return
    try:
        entries = sorted(entry for entry in folder.iterdir() if _DEVICE.match(entry.name))
    except OSError:
        return
    for entry in entries[:room]:
        node = _node(entry, parent, depth)
        yield node
        if node.kind in (Kind.ROOT_PORT, Kind.UPSTREAM, Kind.DOWNSTREAM):
            yield from _below(entry, node.id, depth + 1, room)


def _node(entry: Path, parent: str, depth: int) -> Node:
    pci_class = _line(entry / "class")
    kind = kind_of(int(pci_class, 16) if re.match(r"^0x[0-9a-f]{6}\Z", pci_class) else 0, depth)
    facing_down = kind in (Kind.ROOT_PORT, Kind.DOWNSTREAM)
    # The registers of such a port describe the link below it, which is its child's.
    speed = None if facing_down else parse_speed(_line(entry / "current_link_speed"))
    width = None if facing_down else _whole(entry / "current_link_width", 1, 64)
    return Node(
        entry.name, kind, parent, _numa(entry), speed, width, rate_of(speed, width),
        tuple(_names(entry)),
        None if facing_down else rate_of(
            parse_speed(_line(entry / "max_link_speed")),
            _whole(entry / "max_link_width", 1, 64),
        ),
    )  # fmt: skip


def parse_speed(text: str) -> float | None:
    """Parse the GT/s of `16.0 GT/s PCIe`; None for anything else, such as `Unknown`."""
    match = _SPEED.match(text)
    return float(match[1]) if match else None


def _numa(entry: Path) -> int | None:
    node = _whole(entry / "numa_node", -1, 1023)
    return None if node is None or node < 0 else node


def _names(entry: Path) -> Iterator[str]:
    for folder in ("infiniband", "net", "drm"):
        try:
            names = sorted(child.name for child in (entry / folder).iterdir())
        except OSError:
            continue
        yield from (name for name in names[:MAX_NAMES] if _NAME.match(name))


def _whole(path: Path, least: int, most: int) -> int | None:
    text = _line(path)
    value = int(text) if re.match(r"^-?\d{1,6}\Z", text) else None
    return value if value is not None and least <= value <= most else None


def _line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(64).decode("ascii", "replace").partition("\n")[0].strip()
    except OSError:
        return ""
