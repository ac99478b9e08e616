"""Fabrics of one's own from TOML: groups of hosts, ToRs and aggregation switches, rates.

Untrusted input: typed, bounded, and refused in one line, also where hosts are cut off.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from hostcc.errors import InputError
from hostcc.sim.fabrics import GBIT, Topology
from hostcc.system import toml_file

MOST_BYTES = 1 << 20
MOST_HOSTS = 20_000
MOST_SWITCHES = 1024
"""Of each layer."""
MOST_UPLINKS = 256
MOST_LINKS = 500_000
"""In all."""
MOST_PATHS = 100_000
"""Between two hosts, with one NIC of each."""
Switch = Annotated[int, Meta(ge=0, lt=MOST_SWITCHES)]
Up = Annotated[tuple[Switch, ...], Meta(min_length=1, max_length=MOST_UPLINKS)]
Gbit = Annotated[float, Meta(ge=1e-3, le=1e6)]
Count = Annotated[int, Meta(ge=1, le=MOST_HOSTS)]


class Hosts(Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts that are alike: each NIC has a port to each of these ToRs."""

    count: Count
    tors: Up


class Tors(Struct, frozen=True, forbid_unknown_fields=True):
    """ToRs that are alike."""

    count: Count
    aggs: tuple[Switch, ...] = ()


class Aggs(Struct, frozen=True, forbid_unknown_fields=True):
    """Aggregation switches that are alike."""

    count: Count
    cores: tuple[Switch, ...] = ()


class Rates(Struct, frozen=True, forbid_unknown_fields=True):
    """Gbit/s of a link of each layer."""

    nic: Gbit
    agg: Gbit = 200.0
    core: Gbit = 200.0
    pcie: Gbit | None = None
    """None: NICs are not limited by it."""


class FabricFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A fabric; switches are numbered from 0 in the order of their groups."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    rates: Rates
    hosts: Annotated[tuple[Hosts, ...], Meta(min_length=1, max_length=MOST_HOSTS)]
    tors: Annotated[tuple[Tors, ...], Meta(min_length=1, max_length=MOST_SWITCHES)]
    aggs: Annotated[tuple[Aggs, ...], Meta(max_length=MOST_SWITCHES)] = ()
    nics: Annotated[int, Meta(ge=1, le=64)] = 1


def read(path: Path) -> Topology:
    """Return the fabric of a file.  Raises InputError."""
    found = toml_file.read(path, FabricFile, MOST_BYTES)
    _check_sizes(path, found)
    hosts = tuple(group.tors for group in found.hosts for _ in range(group.count))
    tors = tuple(group.aggs for group in found.tors for _ in range(group.count))
    aggs = tuple(group.cores for group in found.aggs for _ in range(group.count))
    _check_ends(path, "hosts: tors", hosts, len(tors))
    _check_ends(path, "tors: aggs", tors, len(aggs))
    _check_ends(path, "aggs: cores", aggs, MOST_SWITCHES)
    links = found.nics * sum(map(len, hosts)) + sum(map(len, tors)) + sum(map(len, aggs))
    if links > MOST_LINKS:
        raise InputError(f"{path}: expected at most {MOST_LINKS} links in all, got {links}")
    _check_whole(path, hosts, tors, aggs)
    rates = {"nic": found.rates.nic, "agg": found.rates.agg, "core": found.rates.core}
    if found.rates.pcie is not None:
        rates["pcie"] = found.rates.pcie
    speeds = {name: gbit * GBIT for name, gbit in rates.items()}
    return Topology(found.name, found.nics, hosts, tors, aggs, speeds)


def _check_sizes(path: Path, found: FabricFile) -> None:
    """Before anything is made of the counts."""
    sizes = (
        ("hosts", found.hosts, MOST_HOSTS),
        ("tors", found.tors, MOST_SWITCHES),
        ("aggs", found.aggs, MOST_SWITCHES),
    )
    for name, groups, most in sizes:
        total = sum(group.count for group in groups)
        if total > most:
            raise InputError(f"{path}: {name}: count: expected at most {most} in all, got {total}")


def _check_ends(path: Path, key: str, ends: tuple[tuple[int, ...], ...], count: int) -> None:
    for own in set(ends):
        if len(set(own)) != len(own):
            raise InputError(f"{path}: {key}: expected each once, got {list(own)}")
        if own and max(own) >= count:
            raise InputError(f"{path}: {key}: expected numbers below {count}, got {max(own)}")


def _check_whole(
    path: Path,
    hosts: tuple[tuple[int, ...], ...],
    tors: tuple[tuple[int, ...], ...],
    aggs: tuple[tuple[int, ...], ...],
) -> None:
    """Refuse a fabric in which a pair of hosts has no path up and down again, or too many."""
    up = np.zeros((len(tors), max(len(aggs), 1)), np.float32)
    over = np.zeros((max(len(aggs), 1), MOST_SWITCHES), np.float32)
    for table, ends in ((up, tors), (over, aggs)):
        for row, own in enumerate(ends):
            table[row, list(own)] = 1
    to_core, ways = up @ over, up @ up.T
    np.copyto(ways, to_core @ to_core.T, where=ways == 0)
    np.fill_diagonal(ways, 1)
    most = int(ways.max()) * max(map(len, hosts)) ** 2
    if most > MOST_PATHS:
        raise InputError(f"{path}: expected up to {MOST_PATHS} paths of two hosts, got {most}")
    joined = ways > 0
    kinds = list(dict.fromkeys(hosts))
    below = np.zeros((len(kinds), len(tors)), np.float32)
    for row, own in enumerate(kinds):
        below[row, list(own)] = 1
    # Most kinds reach the same ToRs: those that do are looked at once.
    reached, first = np.unique(below @ joined.astype(np.float32) > 0, axis=0, return_index=True)
    met = reached.astype(np.float32) @ below.T > 0
    if not met.all():
        row = min(np.flatnonzero(~met.all(axis=1)).tolist(), key=first.tolist().__getitem__)
        apart = first[row], np.flatnonzero(~met[row])[0]
        one, other = (hosts.index(kinds[int(kind)]) for kind in apart)
        raise InputError(f"{path}: expected a path between hosts {one} and {other}, got none")
