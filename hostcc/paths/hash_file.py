"""The switches' hash functions as a file (TOML, docs/internals/paths.md).

[[fabric]]
src = "198.18.0.0/24"
dst = "198.18.1.0/24"
[[fabric.stage]]
function = "crc32"
ways = [["leaf1>spine1", "spine1>leaf2"], ["leaf1>spine2", "spine2>leaf2"]]
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Annotated

import msgspec

from hostcc.errors import InputError
from hostcc.model import Path, PathTable
from hostcc.paths import probed_tables
from hostcc.paths.hash_model import HashSource, Stage
from hostcc.paths.packets import Target
from hostcc.paths.sources import Name, Net, network
from hostcc.system import toml_file

_Way = Annotated[tuple[Name, ...], msgspec.Meta(max_length=12)]


class StageFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One choice on the way, [[fabric.stage]]."""

    function: Name
    ways: Annotated[tuple[_Way, ...], msgspec.Meta(min_length=1, max_length=256)]
    seed: Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)] = 0


class FabricFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The choices between two networks, [[fabric]]."""

    src: Net
    dst: Net
    stage: Annotated[tuple[StageFile, ...], msgspec.Meta(min_length=1, max_length=8)]


class HashFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All fabrics of the file; the first that fits counts."""

    fabric: Annotated[tuple[FabricFile, ...], msgspec.Meta(max_length=1024)] = ()


class HashFileSource:
    """A PathSource out of a file; a path begins and ends with links of the hosts."""

    def __init__(self, content: HashFile, ports: range, where: str = "hash file") -> None:
        self._rows = []
        for number, one in enumerate(content.fabric):
            at = f"{where}: fabric[{number}]"
            nets = network(one.src, f"{at}.src"), network(one.dst, f"{at}.dst")
            stages = [Stage(x.function, x.ways, x.seed) for x in one.stage]
            try:
                HashSource(stages)
            except InputError as error:
                raise InputError(f"{at}.{error}") from None
            self._rows.append((*nets, stages))
        self._ports = ports

    def table(self, target: Target) -> PathTable | None:
        """See sources.PathSource."""
        src, dst = ipaddress.ip_address(target.src), ipaddress.ip_address(target.dst)
        for from_net, to_net, stages in self._rows:
            if src in from_net and dst in to_net:
                ends = Stage("xor", ((f"{target.src}>",),)), Stage("xor", ((f">{target.dst}",),))
                whole: Sequence[Stage] = (ends[0], *stages, ends[1])
                low, high = self._ports.start, self._ports.stop - 1
                spans = [(low, high), (EPHEMERAL.start, EPHEMERAL.stop - 1)]
                return _joined([HashSource(whole, *span).table(target) for span in spans])
        return None


EPHEMERAL = range(32768, 61000)
"""The kernel's usual source ports: those that flows have before they are moved."""


def read(file: FilePath, ports: range) -> HashFileSource:
    """Read a file; `ports` are those for the wire.  Raises InputError."""
    return HashFileSource(toml_file.read(file, HashFile), ports, str(file))


def _joined(those: Sequence[PathTable | None]) -> PathTable:
    # One table of the ports of several.
    known = [table for table in those if table is not None]
    ports: dict[tuple[str, ...], set[int]] = {}
    for path in itertools.chain.from_iterable(table.paths for table in known):
        ports.setdefault(path.links, set()).update(path.ports)
    made = [
        Path(probed_tables.path_id(links), links, tuple(sorted(p))) for links, p in ports.items()
    ]
    made.sort(key=lambda path: path.id)
    return PathTable(known[0].src, known[0].dst, tuple(made))
