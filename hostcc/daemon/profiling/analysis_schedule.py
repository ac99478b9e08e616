"""Which jobs' bins to look at now, and how thoroughly, within shares of a processor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from hostcc.daemon.profiling.expectation import ExpectationTracker
from hostcc.daemon.profiling.tracks import LONGEST_S, Track, apart
from hostcc.measure.meter import Window
from hostcc.measure.series import NS, Bins


class CpuShare(Enum):
    """What a look's time is taken from; part of a processor.

    Ten known jobs of 240 ms need more; then bins wait longer, up to LONGEST_S of tracks.py, and
    after that patterns are only followed, for some 0.015 % a job.  Others are those whose pattern
    is not known yet or was lost: with one share for all, three of ten jobs with many stragglers
    were known after five minutes, with two all ten.  The first looks at each job are its own
    (WELCOME_S there), however many there are.
    """

    KNOWN = 0.001
    """Looking thoroughly at jobs whose pattern is known."""
    LEARNING = 0.01
    """The same of others."""
    OTHERWISE = 0.002
    """Following jobs that do not go on as they did before they have waited as long as they may."""


CREDIT_S = 0.3
"""How much of each may be saved up, seconds."""
LOOKED_AT = 8
"""Jobs whose bins are looked at in one turn, those that wait longest, but for those that may not
wait any longer."""
EACH_S = 0.1
"""Bins of jobs of known pattern wait so much longer, seconds, for each job that there is which does
not go on as it did."""
LATER_S, LATER_DENSE_S = 60.0, 30.0
"""Those of a job that goes on wait so long; the second, when they are not mostly empty."""
SURE_S = 16.0
"""Between thorough looks at two jobs about which there is little doubt, seconds."""
WITH, WITH_LATER = 0.5, 0.8
"""With a job that has waited for as long as it may those are looked at that have waited for so much
of that, so that later all wait for the same moment; the second for those that go on, of which two
groups would come to take turns, each twice as often."""


@dataclass(frozen=True, eq=False)
class AnalysisRequest:
    """A job, the bins to look at and whether thoroughly."""

    track: Track
    bins: Bins
    thorough: bool
    share: CpuShare | None
    """What it is taken from; None: it has to be."""
    sure_ns: float | None = None
    """Until then the job went on as it did; None: that is not known."""
    passes: bool = False
    """Whether it is taken to go on until the end, so that nothing is compared."""


class AnalysisSchedule:
    """Told of every reading and of what each look has cost."""

    def __init__(self) -> None:
        self._expecting = ExpectationTracker()
        self._credit_s = dict.fromkeys(CpuShare, CREDIT_S)
        self._credited_ns = 0
        self._sure_ns = -int(SURE_S * NS)
        """End of the reading after which a job about which there was little doubt was last looked
        at thoroughly."""

    def heard(self, window: Window, jobs: Mapping[int, str]) -> None:
        """A reading of the meter that comes after the last one.  `jobs`: slot -> name."""
        self._expecting.heard(window, jobs)

    def keep(self, names: Collection[str]) -> None:
        """Forget all other jobs."""
        self._expecting.keep(names)

    def due(self, tracks: Collection[Track], now_ns: int) -> list[Track]:
        """Jobs that would be looked at, if their bins until now were taken."""
        going = self.going(tracks)
        return [one for one in tracks if one.behind_s(now_ns) >= self._wanted_s(one, going, tracks)]

    def going(self, tracks: Collection[Track]) -> set[str]:
        """Jobs that go on as they did; the others may do something else."""
        goes_on = self._expecting.goes_on
        return {one.name for one in tracks if goes_on(one.name) and one.settled}

    def _wanted_s(self, track: Track, going: Collection[str], tracks: Collection[Track]) -> float:
        """Seconds of bins after which a job is looked at."""
        if track.name in going:
            return _longest_s(track, going)
        if not track.sure:
            return track.wanted_s
        thorough = self._rested and (track.welcome_s > 0 or self._free(_share(track)))
        if not (thorough or self._free(CpuShare.OTHERWISE)):
            return LONGEST_S
        return min(LONGEST_S, max(track.wanted_s, EACH_S * (len(tracks) - len(going))))

    def batch(self, tracks: Collection[Track], now_ns: int) -> list[AnalysisRequest]:
        """Jobs to look at now; their bins wait no longer.

        Of what all share one job at a time is looked at thoroughly: it may take all there is.  So
        is one of those about which there is little doubt, also where the time is its own, and the
        next one after SURE_S.
        """
        self._save_up(now_ns)
        found: list[AnalysisRequest] = []
        free = {share: self._free(share) for share in CpuShare}
        left, doubted_only = LOOKED_AT, not self._rested
        going = self.going(tracks)
        waiting = [(track.waiting_s, track) for track in tracks]
        overdue = any(waiting_s >= _longest_s(track, going) for waiting_s, track in waiting)
        for waiting_s, track in sorted(waiting, key=lambda one: -one[0]):
            due = left > 0 and waiting_s >= self._wanted_s(track, going, tracks)
            part = WITH_LATER if track.name in going else WITH
            late = overdue and waiting_s >= part * _longest_s(track, going)
            if not (due or late):
                continue
            share, own, goes_on = _share(track), track.welcome_s > 0, track.name in going
            with apart(track):
                if due and (own or free[share]) and not (track.sure and doubted_only):
                    free[share], left = free[share] and own, left - 1
                    if track.sure:
                        doubted_only, self._sure_ns = True, self._expecting.until_ns
                    found.append(self._thorough(track, share, goes_on))
                elif late:
                    found.append(self._quick(track, None, goes_on))
                elif track.sure and free[CpuShare.OTHERWISE]:
                    left -= 1
                    found.append(self._quick(track, CpuShare.OTHERWISE, goes_on))
        return found

    def cost(self, look: AnalysisRequest, cost_s: float) -> None:
        """Processor time that a look took, seconds."""
        if not look.passes:
            self._expecting.looked_at(look.track.name, look.track.watch)
        if look.thorough:
            cost_s = look.track.charged(cost_s)
        if look.share is not None:
            self._credit_s[look.share] -= cost_s

    def _thorough(self, track: Track, share: CpuShare, goes_on: bool) -> AnalysisRequest:
        # One that seems to go on is compared closely for once.
        sure_ns = None if goes_on else self._expecting.sure_ns(track.name)
        return AnalysisRequest(track, track.collect(), True, share, sure_ns)

    def _quick(self, track: Track, share: CpuShare | None, goes_on: bool) -> AnalysisRequest:
        sure_ns = self._expecting.sure_ns(track.name)
        return AnalysisRequest(track, track.collect(), False, share, sure_ns, passes=goes_on)

    @property
    def _rested(self) -> bool:
        """Whether a job about which there is little doubt may be looked at thoroughly."""
        return self._expecting.until_ns - self._sure_ns >= SURE_S * NS

    def _free(self, share: CpuShare) -> bool:
        return self._credit_s[share] > 0

    def _save_up(self, now_ns: int) -> None:
        passed_s = (now_ns - self._credited_ns) / NS if self._credited_ns else 0.0
        self._credited_ns = now_ns
        for share in CpuShare:
            saved_s = self._credit_s[share] + share.value * passed_s
            self._credit_s[share] = min(CREDIT_S, saved_s)


def _share(track: Track) -> CpuShare:
    return CpuShare.KNOWN if track.known else CpuShare.LEARNING


def _longest_s(track: Track, going: Collection[str]) -> float:
    """Seconds of bins after which a job has to be looked at."""
    if track.name not in going:
        return LONGEST_S
    return LATER_S if track.sparse else LATER_DENSE_S
