"""What to tell the others of this host's jobs: measurements in steps, destinations as members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from hostcc.coord.core import quantise
from hostcc.coord.core.payloads import Profile
from hostcc.model import JobProfile

KEEP_S = 30.0
"""A job that lives on, but whose period is lost, is given time to find it again, seconds."""


def content(measured: JobProfile, before: Profile | None, members: Mapping[str, str]) -> Profile:
    """What to publish; `before` is what is published now, `members`: address -> member."""
    to: dict[str, float] = {}
    for address, volume in measured.bytes_to:
        name = members.get(address, address)
        to[name] = to.get(name, 0.0) + volume
    return quantise.profile(replace(measured, bytes_to=tuple(sorted(to.items()))), before)


def ended(seen: Mapping[str, float], live: Collection[str], now: float) -> list[str]:
    """Of the published jobs (job -> when it was measured last, seconds): those to withdraw."""
    return [job for job, at in seen.items() if job not in live or now - at > KEEP_S]


def by_address(addresses: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Address -> member, of (member, HOST:PORT); an address that several have is nobody's."""
    found: dict[str, str | None] = {}
    for name, at in addresses:
        host = at.rpartition(":")[0].strip("[]")
        found[host] = name if found.get(host, name) == name else None
    return {host: name for host, name in found.items() if host and name is not None}
