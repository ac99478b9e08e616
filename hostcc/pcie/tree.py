"""The PCIe tree of a host as values: hosts, ports, GPUs, NICs, and the links between them.

Pure.  A link is the edge from a node to its parent and is called like the node.  PCIe links
are full duplex, but a transfer with GPUDirect crosses each of its links once, so two jobs
share a link when both have a path over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hostcc.errors import InputError

MAX_NODES = 8192
_BUS_ID = re.compile(r"^([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])\Z")


class Kind(StrEnum):
    """Kinds of nodes."""

    HOST = "host"
    """A host bridge or a socket: where links meet the memory."""
    ROOT_PORT = "root port"
    UPSTREAM = "switch"
    """A switch, or its port towards the host."""
    DOWNSTREAM = "switch port"
    """A switch's port towards a device."""
    GPU = "gpu"
    NIC = "nic"
    OTHER = "other"


@dataclass(frozen=True)
class Node:
    """One device, port or host bridge, with its link towards the host."""

    id: str
    """Bus id in lower case (`0000:3b:00.0`), or of a host what the source calls it."""
    kind: Kind
    parent: str = ""
    """Empty: a host."""
    numa: int | None = None
    speed_gts: float | None = None
    """GT/s of the link towards the host as it runs now; None: unknown, or inside a switch."""
    width: int | None = None
    """Lanes, likewise."""
    rate: float | None = None
    """Bytes per second and direction of the link, after encoding; None: unknown."""
    names: tuple[str, ...] = ()
    """Driver's names of GPUs and NICs."""
    max_rate: float | None = None
    """Rate that the device could do; more than `rate`: the link has trained down."""


@dataclass(frozen=True)
class Tree:
    """All nodes of a host, parents before children."""

    nodes: Mapping[str, Node]

    def children(self) -> dict[str, list[Node]]:
        """Return parent id -> nodes below it, in the order of the source; "" -> hosts."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            found.setdefault(node.parent, []).append(node)
        return found

    def of_kind(self, kind: Kind) -> list[Node]:
        """List all nodes of a kind, in order."""
        return [node for node in self.nodes.values() if node.kind is kind]

    def find(self, name: str) -> Node:
        """Find a node by bus id or driver's name.  Raises InputError."""
        if name.lower() in self.nodes:
            return self.nodes[name.lower()]
        for node in self.nodes.values():
            if name in node.names:
                return node
        raise InputError(f"{name!r:.80}: expected a bus id or device of this host; see hostcc pcie")


def make(nodes: Iterable[Node]) -> Tree:
    """Make a tree of nodes, parents before children.  Raises InputError when it is none."""
    found: dict[str, Node] = {}
    for node in nodes:
        if node.id in found:
            raise InputError(f"{node.id!r:.80}: expected each device once")
        if node.parent and node.parent not in found:
            raise InputError(f"{node.id!r:.80}: expected parents before children")
        if len(found) >= MAX_NODES:
            raise InputError(f"expected at most {MAX_NODES} devices")
        found[node.id] = node
    return Tree(found)


def bus_id(text: str) -> str:
    """Normalise a bus id: `00000000:3B:00.0` is `0000:3b:00.0`.  Raises InputError."""
    match = _BUS_ID.match(text.strip().lower())
    if not match:
        raise InputError(f"{text!r:.40}: expected a bus id such as 0000:3b:00.0")
    return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4]}"


def rate_of(gts: float | None, width: int | None) -> float | None:
    """Compute bytes per second and direction: 8b/10b up to 5 GT/s, 128b/130b above, flits at 64.

    PCI Express Base Specification: 4.0 section 4.2, 6.0 section 4.2.3 (242 of 256 bytes).
    """
    if not gts or not width:
        return None
    part = 0.8 if gts < 8 else 128 / 130 if gts < 64 else 242 / 256
    return gts * 1e9 * width * part / 8


def kind_of(pci_class: int, depth: int) -> Kind:
    """Find the kind of a PCI class (24 bits); `depth`: bridges between it and the host."""
    base = pci_class >> 8
    if base == 0x0604:
        if depth == 0:
            return Kind.ROOT_PORT
        return Kind.UPSTREAM if depth % 2 else Kind.DOWNSTREAM
    if base >> 8 == 0x03 or base == 0x1200:
        return Kind.GPU
    return Kind.NIC if base in (0x0200, 0x0207, 0x0280) else Kind.OTHER


def to_host(tree: Tree, node: str) -> list[str]:
    """List the links from a device to its host, the device's own first."""
    links = []
    at = tree.nodes[node]
    while at.parent:
        links.append(at.id)
        at = tree.nodes[at.parent]
    return links


def host_of(tree: Tree, node: str) -> str:
    """Find the host bridge or socket above a device."""
    at = tree.nodes[node]
    while at.parent:
        at = tree.nodes[at.parent]
    return at.id


def path(tree: Tree, source: str, target: str = "") -> tuple[str, ...]:
    """List the links from one device to another by the shortest way, or to the host's memory.

    Where the two are below different hosts the way leads through both, whose ids stand for
    the link between sockets.
    """
    up = to_host(tree, source)
    if not target:
        return tuple(up)
    down = to_host(tree, target)
    common = set(up) & set(down)
    way = [link for link in up if link not in common]
    back = [link for link in reversed(down) if link not in common]
    ends = (host_of(tree, source), host_of(tree, target))
    crossing = [] if ends[0] == ends[1] else list(ends)
    return (*way, *crossing, *back)


def distance(tree: Tree, first: str, second: str) -> int:
    """Count links between two devices; another socket is farther than anything on this one."""
    far = host_of(tree, first) != host_of(tree, second)
    return len(path(tree, first, second)) + far * MAX_NODES


def nearest(tree: Tree, gpu: str, nics: Sequence[str]) -> str:
    """Find the NIC that is nearest to a GPU; the first among equals."""
    if not nics:
        raise InputError(f"{gpu}: expected at least one NIC")
    return min(nics, key=lambda nic: distance(tree, gpu, nic))


Uses = Mapping[str, Sequence[tuple[str, str]]]
"""Job -> (device, device) pairs between which it moves data; an empty second: the memory."""


def uses_of(tree: Tree, gpus: Sequence[str], nics: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Pair each of a job's GPUs with the nearest of its NICs, as NCCL does."""
    return tuple((gpu, nearest(tree, gpu, nics) if nics else "") for gpu in gpus)


def jobs_on(tree: Tree, uses: Uses) -> dict[str, tuple[str, ...]]:
    """Return link -> the jobs whose paths cross it, in order of names."""
    found: dict[str, set[str]] = {}
    for job, pairs in uses.items():
        for source, target in pairs:
            for link in path(tree, source, target):
                found.setdefault(link, set()).add(job)
    return {link: tuple(sorted(jobs)) for link, jobs in found.items()}


def shared(tree: Tree, uses: Uses) -> dict[str, tuple[str, ...]]:
    """Return link -> jobs, of links with a rate of their own that more than one job uses.

    The inside of a switch (port to port) is not a link that can be short of bandwidth.
    """
    return {
        link: jobs
        for link, jobs in jobs_on(tree, uses).items()
        if len(jobs) > 1 and tree.nodes[link].kind is not Kind.DOWNSTREAM
    }
