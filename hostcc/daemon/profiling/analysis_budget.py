"""Analyses of jobs, and the processor time that they may take.  Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from hostcc.daemon.profiling.tracks import Track
from hostcc.measure.series import NS, Bins


class Account(Enum):
    """What an analysis is paid from, when the job's own allowance is spent; the value is a share
    of a processor.

    Learning has an account of its own: with one for all, three of ten jobs with many stragglers
    were known after five minutes, with two all ten.
    """

    KNOWN = 0.001
    """Thorough analyses of jobs whose pattern is known."""
    LEARNING = 0.01
    """Thorough analyses of jobs whose pattern is not known yet, or was lost."""
    EARLY = 0.002
    """Quick analyses of jobs that seem to have changed, before their bins have waited for as long
    as they may."""


MAX_SAVED_S = 0.3
"""Processor time that an account saves up at most, seconds."""
ALLOWANCE_S, ALLOWANCE_AGAIN_S = 0.06, 300.0
"""Processor time for the first analyses of each job, some ten of them, however many jobs there are.
It is given again when the job's pattern is lost, but not before so many seconds have passed."""
CONFIDENT_ALLOWANCE_S = 0.015
"""What is left of it at most for a job with a confident pattern: to measure that again."""


@dataclass(frozen=True, eq=False)
class AnalysisRequest:
    """A job, the bins to analyse, and how."""

    track: Track
    bins: Bins
    thorough: bool
    account: Account | None
    """What is charged; None: the bins may not wait any longer, whatever it costs."""
    unchanged_until_ns: float | None = None
    """Until then the job's iterations were as expected; None: that is not known."""
    skips: bool = False
    """Whether they are taken to be so until the end of the bins, and nothing is compared."""


@dataclass
class _Allowance:
    """What one job has of its own."""

    left_s: float
    granted_ns: int
    known: bool = False
    """Whether its pattern was known after the last analysis."""


class AnalysisBudget:
    """Processor time that is left: in the accounts, and of each job's allowance.

    An analysis may take more than is left; the next one waits until the account is above 0 again.
    """

    def __init__(self, allowance_s: float = ALLOWANCE_S) -> None:
        self._allowance_s = allowance_s
        self._own: dict[str, _Allowance] = {}
        self._saved_s = dict.fromkeys(Account, MAX_SAVED_S)
        self._saved_ns = 0

    def keep(self, names: Collection[str]) -> None:
        """Forget all other jobs."""
        self._own = {name: own for name, own in self._own.items() if name in names}

    def save_up(self, now_ns: int) -> None:
        """Add what the time since the last call is worth."""
        passed_s = (now_ns - self._saved_ns) / NS if self._saved_ns else 0.0
        self._saved_ns = now_ns
        for account in Account:
            saved_s = self._saved_s[account] + account.value * passed_s
            self._saved_s[account] = min(MAX_SAVED_S, saved_s)

    def has(self, account: Account) -> bool:
        """Whether anything is left in an account."""
        return self._saved_s[account] > 0

    def own_s(self, name: str) -> float:
        """What is left of a job's allowance, seconds."""
        own = self._own.get(name)
        return self._allowance_s if own is None else own.left_s

    def charge(self, done: AnalysisRequest, cost_s: float) -> None:
        """Take what an analysis has cost, seconds of processor time."""
        track, end_ns = done.track, done.bins.end_ns
        own = self._own.setdefault(track.name, _Allowance(self._allowance_s, end_ns))
        lost, own.known = own.known and not track.known, track.known
        if lost and end_ns - own.granted_ns >= ALLOWANCE_AGAIN_S * NS:
            own.left_s, own.granted_ns = self._allowance_s, end_ns
        if done.thorough:
            paid_s = min(cost_s, own.left_s)
            own.left_s, cost_s = own.left_s - paid_s, cost_s - paid_s
            if track.confident:
                own.left_s = min(own.left_s, CONFIDENT_ALLOWANCE_S)
        if done.account is not None:
            self._saved_s[done.account] -= cost_s
