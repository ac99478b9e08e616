"""Which jobs' bins to analyse now, and how thoroughly, within a budget of processor time."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hostcc.daemon.profiling.analysis_budget import Account, AnalysisBudget, AnalysisRequest
from hostcc.daemon.profiling.tracks import MAX_WAIT_S, Track, apart
from hostcc.measure.expectation import ExpectationTracker
from hostcc.measure.meter import Window
from hostcc.measure.series import NS

ANALYSES_PER_TICK = 8
"""Jobs analysed in one tick, those first whose bins have waited longest; beside those whose bins
may not wait any longer."""
WAIT_PER_CHANGED_JOB_S = 0.1
"""Bins of jobs with a confident pattern wait so much longer for each job that seems to have
changed, seconds."""
MAX_UNCHANGED_WAIT_S, MAX_UNCHANGED_DENSE_WAIT_S = 60.0, 30.0
"""Longest wait of the bins of a regular job, seconds; the second, when the bins are not mostly
empty, and take memory."""
CONFIDENT_INTERVAL_S = 16.0
"""Between thorough analyses of two jobs with confident patterns, seconds."""
COALESCE_AT, COALESCE_UNCHANGED_AT = 0.5, 0.8
"""When one job's bins have waited for as long as they may, jobs are analysed too whose bins have
waited for this fraction of that, so that later all are due at the same moment.  The second is for
regular jobs: with less, two groups would come to alternate, each twice as often."""


class AnalysisSchedule:
    """Decides from the readings of the meter, and from what each analysis has cost."""

    def __init__(self, budget: AnalysisBudget | None = None) -> None:
        self._budget = AnalysisBudget() if budget is None else budget
        self._expectation = ExpectationTracker()
        self._confident_ns = -int(CONFIDENT_INTERVAL_S * NS)
        """End of the reading after which a job with a confident pattern was last analysed
        thoroughly."""

    def add_reading(self, window: Window, jobs: Mapping[int, str]) -> None:
        """Compare a reading of the meter, which comes after the last one.  `jobs`: slot -> name."""
        self._expectation.add_reading(window, jobs)

    def keep(self, names: Collection[str]) -> None:
        """Forget all other jobs."""
        self._expectation.keep(names)
        self._budget.keep(names)

    def due(self, tracks: Collection[Track], now_ns: int) -> list[Track]:
        """Jobs that would be analysed, if their bins until now were handed over."""
        regular = self.regular(tracks)
        return [
            one for one in tracks if one.behind_s(now_ns) >= self._min_wait_s(one, regular, tracks)
        ]

    def regular(self, tracks: Collection[Track]) -> set[str]:
        """Jobs whose iterations stay as expected; the others may have changed."""
        is_regular = self._expectation.is_regular
        return {one.name for one in tracks if is_regular(one.name) and one.settled}

    def _min_wait_s(
        self, track: Track, regular: Collection[str], tracks: Collection[Track]
    ) -> float:
        """Seconds of bins from which on a job is analysed, where the budget allows."""
        if track.name in regular:
            return _max_wait_s(track, regular)
        if not track.confident:
            return track.wanted_s
        thorough = self._rested and (self._own(track) or self._budget.has(_account(track)))
        if not (thorough or self._budget.has(Account.EARLY)):
            return MAX_WAIT_S
        changed = len(tracks) - len(regular)
        return min(MAX_WAIT_S, max(track.wanted_s, WAIT_PER_CHANGED_JOB_S * changed))

    def batch(self, tracks: Collection[Track], now_ns: int) -> list[AnalysisRequest]:
        """Jobs to analyse now; their bins wait no longer.

        At most one job at a time is analysed thoroughly on each account, since it may take all that
        is left.  Jobs with confident patterns are analysed thoroughly one at a time, too, every
        `CONFIDENT_INTERVAL_S`, also on their own allowance.
        """
        self._budget.save_up(now_ns)
        found: list[AnalysisRequest] = []
        free = {account: self._budget.has(account) for account in Account}
        left, doubtful_only = ANALYSES_PER_TICK, not self._rested
        regular = self.regular(tracks)
        waiting = [(track.waiting_s, track) for track in tracks]
        overdue = any(waiting_s >= _max_wait_s(track, regular) for waiting_s, track in waiting)
        for waiting_s, track in sorted(waiting, key=lambda one: -one[0]):
            due = left > 0 and waiting_s >= self._min_wait_s(track, regular, tracks)
            part = COALESCE_UNCHANGED_AT if track.name in regular else COALESCE_AT
            late = overdue and waiting_s >= part * _max_wait_s(track, regular)
            if not (due or late):
                continue
            account, own, is_regular = _account(track), self._own(track), track.name in regular
            with apart(track):
                if due and (own or free[account]) and not (track.confident and doubtful_only):
                    free[account], left = free[account] and own, left - 1
                    if track.confident:
                        doubtful_only, self._confident_ns = True, self._expectation.until_ns
                    found.append(self._thorough(track, account, is_regular))
                elif late:
                    found.append(self._quick(track, None, is_regular))
                elif track.confident and free[Account.EARLY]:
                    left -= 1
                    found.append(self._quick(track, Account.EARLY, is_regular))
        return found

    def cost(self, done: AnalysisRequest, cost_s: float) -> None:
        """Charge an analysis with the processor time that it took, seconds."""
        if not done.skips:
            self._expectation.expect(done.track.name, done.track.watch)
        self._budget.charge(done, cost_s)

    def _thorough(self, track: Track, account: Account, is_regular: bool) -> AnalysisRequest:
        # A job that seems regular is compared closely for once.
        until_ns = None if is_regular else self._expectation.regular_until_ns(track.name)
        return AnalysisRequest(track, track.collect(), True, account, until_ns)

    def _quick(self, track: Track, account: Account | None, is_regular: bool) -> AnalysisRequest:
        until_ns = self._expectation.regular_until_ns(track.name)
        return AnalysisRequest(track, track.collect(), False, account, until_ns, skips=is_regular)

    @property
    def _rested(self) -> bool:
        """Whether a job with a confident pattern may be analysed thoroughly again."""
        return self._expectation.until_ns - self._confident_ns >= CONFIDENT_INTERVAL_S * NS

    def _own(self, track: Track) -> bool:
        """Whether anything of a job's own allowance is left."""
        return self._budget.own_s(track.name) > 0


def _account(track: Track) -> Account:
    return Account.KNOWN if track.known else Account.LEARNING


def _max_wait_s(track: Track, regular: Collection[str]) -> float:
    """Seconds of bins after which a job has to be analysed."""
    if track.name not in regular:
        return MAX_WAIT_S
    return MAX_UNCHANGED_WAIT_S if track.sparse else MAX_UNCHANGED_DENSE_WAIT_S
