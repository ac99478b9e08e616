"""Makes the record of a profile: figures in steps, destinations as members.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from hostcc.coord.core import quantise
from hostcc.coord.core.payloads import Profile
from hostcc.model import JobProfile

KEEP_S = 30.0
"""For how long the record of a job that lives on, but is not measured any more, is kept: its period
may be found again."""


def content(measured: JobProfile, before: Profile | None, members: Mapping[str, str]) -> Profile:
    """Return the record to publish; `before`: the published one, `members`: address -> member."""
    to: dict[str, float] = {}
    for address, volume in measured.bytes_to:
        name = members.get(address, address)
        to[name] = to.get(name, 0.0) + volume
    return quantise.profile(replace(measured, bytes_to=tuple(sorted(to.items()))), before)


def ended(seen: Mapping[str, float], live: Collection[str], now: float) -> list[str]:
    """Return those of the published jobs (`seen`: job -> when it was measured last, seconds) that
    have ended or were not measured for KEEP_S."""
    return [job for job, at in seen.items() if job not in live or now - at > KEEP_S]


def by_address(addresses: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return address -> member, of (member, HOST:PORT); addresses of several are left out."""
    found: dict[str, str | None] = {}
    for name, at in addresses:
        host = at.rpartition(":")[0].strip("[]")
        found[host] = name if found.get(host, name) == name else None
    return {host: name for host, name in found.items() if host and name is not None}
