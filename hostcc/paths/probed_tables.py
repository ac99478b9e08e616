"""Makes a PathTable of a probe's result; links have the same names on every host.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum

from hostcc.model import Path, PathTable
from hostcc.paths.search import SILENT, Hops, SearchResult


class LinkNames(StrEnum):
    """Source addresses of a router's answers, by which links are named."""

    INTERFACE = "interface"
    """The interface that the probe came in by: its address names the link."""
    ROUTER = "router"
    """One address of the router: a link is named by the routers at its ends."""


def path_id(links: tuple[str, ...]) -> str:
    """Name a path by its links only, so that the name survives the next probe."""
    return hashlib.blake2s("\0".join(links).encode(), digest_size=4).hexdigest()


def links_of(
    src: str,
    dst: str,
    hops: Hops,
    names: LinkNames = LinkNames.INTERFACE,
) -> tuple[str, ...]:
    """Name the directed links along `hops`: "SRC>", then ">ADDRESS" or "A>B", at last ">DST".

    A link at a router that never answers is known to this pair only, so it is never taken for
    shared.
    """
    made = [f"{src}>"] if hops else []
    for at in range(1, len(hops)):
        before, here = hops[at - 1], hops[at]
        if here == SILENT or (names is LinkNames.ROUTER and before == SILENT):
            made.append(f"{src}>{dst}@{at + 1}")
        else:
            made.append(f">{here}" if names is LinkNames.INTERFACE else f"{before}>{here}")
    made.append(f">{dst}")
    return tuple(made)


def table_of(
    src: str,
    dst: str,
    ways: Mapping[Hops, tuple[int, ...]],
    at: float,
    names: LinkNames = LinkNames.INTERFACE,
) -> PathTable:
    """Make the table of hops -> source ports, paths in the order of their ids."""
    paths = []
    for hops, ports in ways.items():
        links = links_of(src, dst, hops, names)
        paths.append(Path(path_id(links), links, tuple(sorted(ports))))
    return PathTable(src, dst, tuple(sorted(paths, key=lambda path: path.id)), at)


def probed_table(src: str, dst: str, found: SearchResult, at: float) -> PathTable:
    """Make the table of a search; empty where packets of one port take several paths."""
    return table_of(src, dst, {} if found.sprayed else found.paths, at)
