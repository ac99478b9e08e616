"""Sources of path tables other than probing: one interface, three sources.

`StaticSource` reads a file, `hash_model.HashSource` computes the switches' hash function,
`telemetry.TelemetrySource` has records of in-band telemetry.  search.Search probes.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Annotated, Protocol

import msgspec

from hostcc.errors import InputError
from hostcc.limits import VISIBLE
from hostcc.model import Path, PathTable
from hostcc.paths import packets, probed_tables
from hostcc.paths.packets import Target
from hostcc.system import toml_file

PROTOCOLS = {"tcp": packets.TCP, "udp": packets.UDP}


class PathSource(Protocol):
    """A source of path tables."""

    def table(self, target: Target) -> PathTable | None:
        """Return the paths of a target's flows; None when this source does not know them."""


Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Name = Annotated[
    str,
    msgspec.Meta(
        pattern=rf"^{VISIBLE}{{1,128}}\Z", description="text of 1 to 128 visible characters"
    ),
]
Net = Annotated[
    str,
    msgspec.Meta(pattern=r"^[0-9A-Fa-f:./]{2,64}\Z", description="an IP address or network"),
]


class StaticPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One [[path]] of a static table."""

    src: Net
    """Address or network."""
    dst: Net
    links: Annotated[tuple[Name, ...], msgspec.Meta(max_length=32)]
    ports: Annotated[tuple[tuple[Port, Port], ...], msgspec.Meta(max_length=4096)]
    """Ranges of source ports, both ends included."""
    protocol: Annotated[str, msgspec.Meta(pattern="^(tcp|udp)$")] = "tcp"
    dst_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """0: whatever the destination port."""


class StaticFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A static table."""

    path: Annotated[tuple[StaticPath, ...], msgspec.Meta(max_length=100_000)] = ()


class StaticSource:
    """Paths that an administrator wrote down (TOML, docs/internals/paths.md)."""

    def __init__(self, paths: Sequence[StaticPath], where: str = "static paths") -> None:
        self._rows = []
        for number, row in enumerate(paths):
            at = f"{where}: path[{number}]"
            nets = (network(row.src, f"{at}.src"), network(row.dst, f"{at}.dst"))
            for low, high in row.ports:
                if low > high:
                    raise InputError(f"{at}.ports: expected rising ranges, got {low} to {high}")
            self._rows.append((*nets, row))

    @classmethod
    def read(cls, file: FilePath) -> StaticSource:
        """Read a file.  Raises InputError."""
        return cls(toml_file.read(file, StaticFile).path, str(file))

    def table(self, target: Target) -> PathTable | None:
        """See PathSource."""
        src, dst = ipaddress.ip_address(target.src), ipaddress.ip_address(target.dst)
        ways: dict[tuple[str, ...], set[int]] = {}
        for from_net, to_net, row in self._rows:
            if (
                src in from_net
                and dst in to_net
                and PROTOCOLS[row.protocol] == target.protocol
                and row.dst_port in (0, target.dst_port)
            ):
                spans = (range(low, high + 1) for low, high in row.ports)
                ways.setdefault(row.links, set()).update(itertools.chain.from_iterable(spans))
        if not ways:
            return None
        paths = (
            Path(probed_tables.path_id(x), x, tuple(sorted(ports))) for x, ports in ways.items()
        )
        return PathTable(target.src, target.dst, tuple(sorted(paths, key=lambda path: path.id)))


def network(text: str, where: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Parse an address or network.  Raises InputError."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise InputError(f"{where}: expected an address or network, got {text!r:.60}") from None
