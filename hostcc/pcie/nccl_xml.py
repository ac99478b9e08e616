"""Reads the PCIe tree out of an NCCL topology file (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE).

NCCL merges the ports of a switch into one `<pci>` of class 0x0604; virtual machines have
such files made for them, because their sysfs shows no switches.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from hostcc.errors import InputError
from hostcc.pcie.sysfs import parse_speed
from hostcc.pcie.tree import Kind, Node, Tree, bus_id, kind_of, make, rate_of
from hostcc.pcie.xmlfile import MAX_DEPTH, is_number, root


def read(path: Path) -> Tree:
    """Read the tree of a file.  Raises InputError."""
    try:
        return make(_nodes(root(path, "system")))
    except InputError as error:
        raise (
            error if str(error).startswith(str(path)) else InputError(f"{path}: {error}")
        ) from None


def _nodes(system: Element) -> Iterator[Node]:
    for index, cpu in enumerate(system.iterfind("cpu")):
        numa = is_number(cpu.get("numaid"), 1023)
        host = f"cpu{index if numa is None else numa}"
        yield Node(host, Kind.HOST, numa=numa)
        for pci in cpu.iterfind("pci"):
            yield from _device(pci, host, numa, 0)


def _device(pci: Element, parent: str, numa: int | None, depth: int) -> Iterator[Node]:
    if depth > MAX_DEPTH:
        raise InputError(f"expected at most {MAX_DEPTH} switches above a device")
    busid = pci.get("busid")
    if busid is None:
        raise InputError("pci: expected the attribute busid")
    # "16 GT/s" and "16.0 GT/s PCIe" are both in use; an empty one is 8 GT/s to NCCL.
    speed = parse_speed(pci.get("link_speed", ""))
    width = is_number(pci.get("link_width"), 64) or None
    node = Node(
        bus_id(busid), _kind(pci), parent, numa, speed, width, rate_of(speed, width),
        tuple(_names(pci)),
    )  # fmt: skip
    yield node
    for child in pci.iterfind("pci"):
        yield from _device(child, node.id, numa, depth + 1)


def _kind(pci: Element) -> Kind:
    if pci.find("gpu") is not None:
        return Kind.GPU
    if pci.find("nic") is not None:
        return Kind.NIC
    text = pci.get("class", "0x000000")
    try:
        pci_class = int(text, 16)
    except ValueError:
        raise InputError(f"pci: class {text!r:.20}: expected a number such as 0x060400") from None
    kind = kind_of(pci_class & 0xFFFFFF, 1)  # merged: a bridge is a whole switch
    return Kind.UPSTREAM if kind is Kind.OTHER and pci.find("pci") is not None else kind


def _names(pci: Element) -> Iterator[str]:
    gpu = pci.find("gpu")
    number = None if gpu is None else is_number(gpu.get("dev"), 1023)
    if number is not None:
        yield f"GPU{number}"
    for net in list(pci.iterfind("nic/net"))[:16]:
        name = net.get("name", "")
        if 0 < len(name) <= 64 and name.isprintable():
            yield name
