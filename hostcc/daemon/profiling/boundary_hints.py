"""Gives the kernel boundary hints of jobs whose pattern is sure, and takes them back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass

from hostcc.daemon.profiling.tracks import Track, apart
from hostcc.measure.boundary_hint import boundary_hint
from hostcc.measure.history import History
from hostcc.model import BoundaryHint

SLICE_S = 0.005
"""For the hints that are made in one tick, seconds; one takes about a millisecond."""
SURE = 0.5
"""A pattern has a hint from this confidence on.  Two jobs on a link change each other's periods,
which makes both less sure; silences and bytes, of which a hint is made, stay as they are."""
KEPT_S = 20.0
"""Seconds that a hint lasts after its pattern was given up, unless another one replaces it."""
RENEW_S = 30.0
"""A hint that is measured again and the same is written again after so long: the kernel may have
dropped it in a phase without iterations, such as an evaluation.  Seconds."""
SAME_TIME = 0.1
"""Times of a hint that differ by at most this fraction are the same."""
SAME_BYTES = 0.25
"""So are bytes that differ by at most this fraction of the margin."""

Tell = Callable[[str, BoundaryHint | None], None]


@dataclass
class _Told:
    """A job's hint."""

    hint: BoundaryHint | None = None
    """What the kernel has."""
    at_s: float = 0.0
    """When that was written."""
    source: History | None = None
    """The bins in which the job's pattern was last found; None: it is not sure."""
    looked_s: float = 0.0
    """When `found` was made of these."""
    found: BoundaryHint | None = None
    """The hint that they give."""
    found_s: float = 0.0
    """When there last was one."""


class BoundaryHints:
    """The hints of all jobs: only changes are written."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def update(
        self,
        tracks: Collection[Track],
        is_counted: Callable[[Track], bool],
        marks: Callable[[str], Sequence[float]],
        tell: Tell,
        now_s: float,
    ) -> None:
        """Make hints of the patterns that were measured again, and pass on what has changed.

        After `SLICE_S` the others wait for the next call; who has waited longest comes first.
        `is_counted`: whether the congestion control sees what was measured of a job.  `marks`: job
        to when its iterations ended, by its marks, seconds.
        """
        until_s = time.monotonic() + SLICE_S
        all_told = {track.name: self._told.setdefault(track.name, _Told()) for track in tracks}
        for track in sorted(tracks, key=lambda one: all_told[one.name].looked_s):
            told = all_told[track.name]
            source = _source(track) if is_counted(track) else None
            is_new = source is not told.source
            if is_new:
                told.source, told.looked_s, told.found = source, now_s, None
                if source is not None:
                    with apart(track):
                        told.found = boundary_hint(*track.pattern(marks(track.name)))
            hint = told.found
            if hint is not None:
                told.found_s = now_s
                renewed = is_new and now_s - told.at_s >= RENEW_S
                is_due = renewed or not is_same(hint, told.hint)
            else:
                is_due = told.hint is not None and now_s - told.found_s >= KEPT_S
            if is_due:
                tell(track.name, hint)
                told.hint, told.at_s = hint, now_s
            if is_new and time.monotonic() >= until_s:
                break

    def keep(self, jobs: Container[str]) -> None:
        """Forget the others."""
        for name in [name for name in self._told if name not in jobs]:
            del self._told[name]

    def hints(self) -> Mapping[str, BoundaryHint]:
        """What the kernel has now, by job."""
        return {name: told.hint for name, told in self._told.items() if told.hint is not None}


def is_same(hint: BoundaryHint | None, other: BoundaryHint | None) -> bool:
    """Whether two hints end iterations alike."""
    if hint is None or other is None:
        return hint is other
    times = (
        (hint.period_s, other.period_s),
        (hint.silence_s, other.silence_s),
        (hint.pause_s, other.pause_s),
    )
    if any(abs(one - then) > SAME_TIME * then for one, then in times):
        return False
    margin = other.margin_bytes
    near = abs(hint.bytes - other.bytes) <= SAME_BYTES * margin
    return near and abs(hint.margin_bytes - margin) <= SAME_BYTES * margin


def _source(track: Track) -> History | None:
    """What a hint is made of; None while the pattern is not sure."""
    watch = track.watch
    if watch is None or not track.known or watch.found.confidence < SURE:
        return None
    return watch.series
