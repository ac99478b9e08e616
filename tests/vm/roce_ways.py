"""In the guest: which source ports of RoCE take which path through the fabric."""

from __future__ import annotations

from hostcc.paths.search import Hops, SearchSettings
from hostcc.verbs import roce_probe
from tests.vm import roce_fabric
from tests.vm.roce_fabric import ADDRESS, PATHS

FIRST_PORTS = set(roce_probe.spread(SearchSettings().whole_ports))
"""A search that has met one path only ends with these."""
HASH_FIELDS = range(0x30, 0x38)
"""Both ports, with any of addresses and protocol: the same paths, other ports for each."""
LIMIT_S = 90.0


Ways = dict[Hops, tuple[int, ...]]


def ways() -> tuple[Ways, Ways]:
    """Both paths from rxa to rxb, and back, with source ports that take them, by probes.

    Routers hash with a seed of each boot.  One of 128 sends all FIRST_PORTS the same way, so that
    nobody would find its second path: both hash other fields from now on.
    """
    for fields in HASH_FIELDS:
        there, back = (
            roce_probe.routes(ADDRESS[source], ADDRESS[target], limit_s=LIMIT_S)
            for source, target in (("rxa", "rxb"), ("rxb", "rxa"))
        )
        if _shows_both(there) and _shows_both(back):
            return there, back
        print("another hash than for", there, back, flush=True)
        roce_fabric.hash_by(fields)
    raise AssertionError("one path only")


def _shows_both(found: Ways) -> bool:
    return len(found) == len(PATHS) and all(FIRST_PORTS & {*ports} for ports in found.values())
