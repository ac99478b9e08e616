"""Decides when to probe a destination again, and in which detail.  Pure.

From time to time a spot check probes one port of every path, a few packets.  A full search follows
when that shows a change, when the host reports one (a link of its own went down), or when the
table is old.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from hostcc.paths.search import SearchResult, SearchSettings, differ


class ProbeDetail(Enum):
    """How much a probe covers."""

    NOT = "not yet"
    SPOT = "spot check"
    FULL = "full search"


@dataclass(frozen=True)
class RefreshSettings:
    """Intervals and thresholds of refreshing."""

    spot_s: float = 10.0
    full_s: float = 600.0
    again_s: float = 2.0
    """Least time between two full searches, however much changes."""
    rtt_factor: float = 5.0
    """A jump of the latency: this many times the least seen of the path ..."""
    rtt_floor_s: float = 0.002
    """... and at least this much more."""


def spot_ports(found: SearchResult) -> tuple[int, ...]:
    """Pick one port of every path."""
    return tuple(ports[0] for ports in found.paths.values())


def spot_settings(base: SearchSettings, paths: int) -> SearchSettings:
    """Make settings for a search that probes exactly the given ports at every hop."""
    return SearchSettings(
        risk=0.0,
        max_ports=max(1, paths),
        max_hops=base.max_hops,
        per_hop_pps=base.per_hop_pps,
        timeout_s=base.timeout_s,
        attempts=base.attempts,
        full_probe_every=base.full_probe_every,
        parallel=base.parallel,
        silent_end=base.silent_end,
    )


def changes(before: SearchResult, spot: SearchResult, settings: RefreshSettings) -> tuple[str, ...]:
    """Say what a spot check found different; empty: nothing."""
    seen = []
    for hops, ports in before.paths.items():
        port = ports[0]
        now = spot.ports.get(port)
        if now is None:
            seen.append(f"port {port}: a hop fell silent")
        elif differ(now, hops):
            seen.append(f"port {port}: takes another way")
        elif now != hops:
            seen.append(f"port {port}: other hops answer than before")
        else:
            then, here = before.rtt_s.get(hops), spot.rtt_s.get(hops)
            if then is None or here is None:
                continue
            if here > settings.rtt_factor * then and here - then > settings.rtt_floor_s:
                seen.append(f"port {port}: {here * 1e3:.1f} ms instead of {then * 1e3:.1f} ms")
    return tuple(seen)


class Refresh:
    """Refresh state of one destination; times in seconds of one clock."""

    def __init__(self, settings: RefreshSettings | None = None) -> None:
        self._set = settings or RefreshSettings()
        self.found: SearchResult | None = None
        """The last full search."""
        self._full_at = self._spot_at = 0.0
        self.reasons: tuple[str, ...] = ("never probed",)
        """Why a full search is due; empty: none is."""

    def due(self, now: float) -> ProbeDetail:
        """Say what to do now."""
        if self.found is None:
            return ProbeDetail.FULL
        if now - self._full_at >= self._set.full_s:
            return ProbeDetail.FULL
        if self.reasons and now - self._full_at >= self._set.again_s:
            return ProbeDetail.FULL
        return ProbeDetail.SPOT if now - self._spot_at >= self._set.spot_s else ProbeDetail.NOT

    def searched(self, found: SearchResult, now: float) -> None:
        """Record that a full search has ended."""
        self.found, self._full_at, self._spot_at, self.reasons = found, now, now, ()

    def spotted(self, spot: SearchResult, now: float) -> None:
        """Record that a spot check has ended."""
        self._spot_at = now
        if self.found is not None:
            self.reasons = self.reasons or changes(self.found, spot, self._set)

    def hint(self, reasons: Iterable[str]) -> None:
        """Record a reason to doubt the table: a link down, flows that lose packets."""
        self.reasons = (*self.reasons, *reasons)[:16]
