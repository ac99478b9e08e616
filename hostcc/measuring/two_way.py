"""Jobs that receive much while they send much.  Pure.

Their acknowledgements wait in the queues that the other direction fills, so that the round-trip
time says nothing of the queue that they fill themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostcc.measure.meter import RX, TX
from hostcc.measuring.tracks import Track

LEAST_BYTES = 1 << 18
"""Of either direction, half-forgotten after 30 s; with less a job is not judged."""
ENTER, LEAVE = 0.3, 0.15
"""Bytes of the lesser direction, of the greater one's."""


def two_way(tracks: Iterable[Track], before: frozenset[str]) -> frozenset[str]:
    """Names of those jobs; `before`: as found last, which they leave less easily."""
    return frozenset(track.name for track in tracks if _is(track, track.name in before))


def _is(track: Track, was: bool) -> bool:
    least, most = sorted(_both(track))
    return least >= LEAST_BYTES and least >= (LEAVE if was else ENTER) * most


def _both(track: Track) -> tuple[float, float]:
    """Bytes sent and received; before the first look at a job's bins, since its first byte."""
    if not track.to:
        return track.total
    return sum(pair[TX] for pair in track.to.values()), sum(pair[RX] for pair in track.to.values())
