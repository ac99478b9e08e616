"""Reads the PCIe tree out of an hwloc export (`lstopo --whole-io topology.xml`, hwloc 2)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from hostcc.errors import InputError
from hostcc.pcie.tree import Kind, Node, Tree, bus_id, kind_of, make
from hostcc.pcie.xmlfile import MAX_DEPTH, root

_CLASS = re.compile(r"^([0-9a-f]{4})\b")
GB = 1e9
MAX_GB_PER_S = 10_000.0


def read(path: Path) -> Tree:
    """Read the tree of a file.  Raises InputError."""
    try:
        return make(_objects(root(path, "topology"), "", None, 0, 0))
    except InputError as error:
        raise (
            error if str(error).startswith(str(path)) else InputError(f"{path}: {error}")
        ) from None


def _objects(
    above: Element, parent: str, numa: int | None, bridges: int, depth: int
) -> Iterator[Node]:
    # Nodes below an object; `bridges`: PCI bridges above.
    if depth > MAX_DEPTH:
        raise InputError(f"expected at most {MAX_DEPTH} objects above a device")
    for item in above.iterfind("object"):
        here = _numa(item, numa)
        kind = item.get("type")
        if kind == "Bridge" and item.get("bridge_type", "").startswith("0-"):
            host = f"pci{item.get('bridge_pci', '?')[:20]}"
            yield Node(host, Kind.HOST, numa=here)
            yield from _objects(item, host, here, 0, depth + 1)
        elif kind in ("Bridge", "PCIDev") and parent:
            node = _device(item, parent, here, bridges)
            yield node
            if kind == "Bridge":
                yield from _objects(item, node.id, here, bridges + 1, depth + 1)
        elif kind not in ("Bridge", "PCIDev", "OSDev", "Misc"):
            yield from _objects(item, parent, here, bridges, depth + 1)


def _device(item: Element, parent: str, numa: int | None, bridges: int) -> Node:
    match = _CLASS.match(item.get("pci_type", "").lower())
    kind = kind_of(int(match[1], 16) << 8 if match else 0, bridges)
    names = tuple(
        name
        for child in item.iterfind("object")
        if child.get("type") == "OSDev"
        and (name := child.get("name", ""))
        and len(name) <= 64
        and name.isprintable()
    )
    return Node(
        bus_id(item.get("pci_busid", "")), kind, parent, numa, rate=_rate(item, kind), names=names
    )


def _rate(item: Element, kind: Kind) -> float | None:
    # hwloc gives GB/s of the link above an endpoint, and of that below a bridge.
    if kind in (Kind.ROOT_PORT, Kind.DOWNSTREAM):
        return None
    text = item.get("pci_link_speed", "")
    try:
        value = float(text)
    except ValueError:
        return None
    return value * GB if math.isfinite(value) and 0 < value <= MAX_GB_PER_S else None


def _numa(item: Element, numa: int | None) -> int | None:
    # The one NUMA node of an object's set, which hwloc writes like 0x00000002.
    text = item.get("nodeset", "").rpartition(",")[2]
    if not re.match(r"^0x[0-9a-f]{1,8}\Z", text) or "," in item.get("nodeset", ""):
        return numa
    value = int(text, 16)
    return value.bit_length() - 1 if value.bit_count() == 1 else numa
