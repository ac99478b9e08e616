"""What is kept of one job's traffic: its pattern, its destinations, and bins still to be analysed.

Pure but for being mutable: bytes come in, nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from hostcc.errors import one_line
from hostcc.log import get_logger
from hostcc.measure import pattern_watch as watching
from hostcc.measure.bins import Ints
from hostcc.measure.cells import Cells, chained
from hostcc.measure.destinations import Address, Records, address, sum_by
from hostcc.measure.history import history
from hostcc.measure.marked import from_marks
from hostcc.measure.meter import RX, TX
from hostcc.measure.pattern_watch import Watch
from hostcc.measure.period import Period
from hostcc.measure.series import NS, Bins, ByteSeries, continued, empty, joined, rebinned

log = get_logger("traffic")

MIN_BATCH_S, MIN_BATCH_PERIODS, MAX_BATCH_S = 1.0, 2.0, 5.0
"""An analysis is worth while from so many seconds of bins or iterations on, whichever is longer,
since each costs about the same; but not more seconds than the last."""
MAX_WAIT_S = 10.0
"""Longest wait of bins that are to be analysed, seconds."""
MAX_UNPACKED_READS = 2
"""Readings that wait are packed when there are so many: ten seconds of a hundred jobs would take
15 MB."""
CONFIDENT = 0.7
"""A pattern is confident from this confidence on."""
SENDING_WITHIN_S = 10.0
"""A job that has sent nothing for so long is not sending, seconds."""
HALF_LIFE_S = 30.0
"""Bytes sent to a destination count half after so long, seconds."""
MAX_DESTINATIONS = 256
"""Destinations kept of a job."""


@dataclass
class Track:
    """One job."""

    name: str
    watch: Watch | None = None
    """None before its first byte."""
    first_ns: int = 0
    """When it first sent, or a little earlier; 0: it has not."""
    last_ns: int = 0
    """When it last sent."""
    total: tuple[int, int] = (0, 0)
    """Bytes sent and received so far."""
    to: dict[Address, tuple[float, float]] = field(default_factory=dict)
    """Destination -> (sent, received), older bytes counting less."""
    alone: tuple[float, float | None] = 0.0, None
    """The period, and bytes of an iteration, that were measured while it went first; 0: none."""
    sparse: bool = True
    """Whether the bins that wait are mostly empty, so that they take little memory."""
    failure: str = ""
    """Why its traffic could not be analysed; empty again after an analysis."""
    failures: int = 0
    """How often that was."""
    _waiting: list[Bins] = field(default_factory=list)
    _analysing: Bins | None = None
    """Bins that an analysis is at, or has just taken in."""
    _since_ns: int = 0
    """Where the first of the waiting bins begins, or would."""
    _loose: int = 0
    """The last ones of these that are not packed."""
    _went: list[tuple[bytes, Ints]] = field(default_factory=list)
    """Addresses, 16 bytes each, and what was sent to and received from them."""
    _went_ns: int = 0

    def take(
        self,
        new: Bins,
        who: Records | None = None,
        sums: Ints | None = None,
        total: tuple[int, int] | None = None,
    ) -> None:
        """Bins that follow the last ones, and where their bytes went, as far as that is known.

        `total`: bytes sent and received, where somebody has added them up.
        """
        tx, rx = _sums(new) if total is None else total
        if not tx and not rx and self.watch is None:
            return
        if self.watch is None:
            self.watch = watching.begin(new.bin_ns, new.start_ns)
            self.first_ns = self.first_ns or new.start_ns
        if not self._waiting:
            self._since_ns = new.start_ns
        self._waiting.append(new)
        self._loose = 0 if isinstance(new, Cells) and new.few else self._loose + 1
        if self._loose == MAX_UNPACKED_READS:
            self._waiting[-MAX_UNPACKED_READS:] = [
                history(together(self._waiting[-MAX_UNPACKED_READS:]))
            ]
            self._loose, self.sparse = 0, False
        if tx or rx:
            self.last_ns = _last_ns(new)
            self.total = self.total[0] + tx, self.total[1] + rx
            if who is not None and sums is not None and len(who):
                self._went.append((who["addr"].tobytes(), sums))
                if not self.to:  # where it sends is asked before it is worth an analysis
                    self._account(self.last_ns)

    @property
    def known(self) -> bool:
        """Whether its pattern is known now."""
        return self.watch is not None and self.watch.found.periodic

    @property
    def confident(self) -> bool:
        """Whether it is known with confidence."""
        return self.watch is not None and self.watch.found.confidence >= CONFIDENT

    @property
    def settled(self) -> bool:
        """Whether its figures are of as many iterations as they are taken from."""
        return self.confident and self.watch is not None and self.watch.settled

    @property
    def waiting_s(self) -> float:
        """Seconds of bins that have not been analysed."""
        return (self._waiting[-1].end_ns - self._since_ns) / NS if self._waiting else 0.0

    @property
    def counted_until_s(self) -> float:
        """Until when `total` counts; CLOCK_MONOTONIC."""
        return (self._waiting[-1].end_ns if self._waiting else self._since_ns) / NS

    def behind_s(self, now_ns: int) -> float:
        """Seconds that have not been analysed, also those whose bins were not taken yet."""
        return (now_ns - self._since_ns) / NS

    @property
    def period_s(self) -> float:
        """0 while it is not known."""
        return (self.watch.found.period_s if self.watch is not None else None) or 0.0

    @property
    def alone_s(self) -> float:
        """The period while it went first; 0: not known, or an iteration has other bytes now."""
        period_s, before = self.alone
        now = self.watch.found.bytes_per_iteration if self.watch is not None else None
        is_other = before and now and not watching.sends_the_same(now, before)
        return 0.0 if is_other else period_s

    @property
    def wanted_s(self) -> float:
        """Seconds of bins that are worth an analysis."""
        return min(max(MIN_BATCH_S, MIN_BATCH_PERIODS * self.period_s), MAX_BATCH_S)

    @property
    def due(self) -> bool:
        """Whether they are worth an analysis now."""
        return self.waiting_s >= self.wanted_s

    def collect(self) -> Bins:
        """The bins that wait, for `analyse`; they wait no longer."""
        new, self._waiting, self._loose = together(self._waiting), [], 0
        self._since_ns, self.sparse, self._analysing = new.end_ns, True, new
        self._account(new.end_ns)
        return new

    def analyse(
        self,
        new: Bins,
        *,
        thorough: bool = True,
        unchanged_until_ns: float | None = None,
        skips: bool = False,
    ) -> None:
        """Take in bins: some milliseconds of work, seldom hundreds, and then only if `thorough`.

        Fit for another thread.  `unchanged_until_ns`: until then the pattern is known to go on;
        with `skips` nothing that comes after it is compared yet.
        """
        if self.watch is None:
            return
        watch = self.watch
        if unchanged_until_ns is not None:
            watch = watching.skipped_to(watch, unchanged_until_ns)
        if skips:
            watch = replace(watch, compare_ns=new.end_ns + 1)
        self.watch, self.failure = watching.update(watch, new, thorough=thorough), ""
        self._analysing = None

    def begin_again(self, failure: str) -> None:
        """Learn the pattern anew, without the bins that wait: nothing could be made of them."""
        self.failure, self.failures = failure, self.failures + 1
        self.watch, self.sparse, self._analysing = None, True, None
        self._waiting, self._loose, self._went = [], 0, []

    def sending(self, now_ns: int) -> bool:
        """Whether it has sent lately."""
        return self.watch is not None and now_ns - self.last_ns < SENDING_WITHIN_S * NS

    def pattern(self, boundaries_s: Sequence[float] = ()) -> tuple[ByteSeries, Period]:
        """The bins that show the pattern best, and the pattern; marks settle it."""
        if self.watch is None or self.failure:
            found = replace(NOTHING, reason=self.failure) if self.failure else NOTHING
            return ByteSeries(1, 0, *np.zeros((2, 0), np.int64)), found
        levels = self.watch.levels
        if boundaries_s and (marked := from_marks(levels, boundaries_s)) is not None:
            return marked
        of = levels[self.watch.level] if self.watch.series is None else self.watch.series
        return of.whole(), self.watch.found

    def history(self) -> ByteSeries:
        """The last bins, of the length that suits the pattern, also those not analysed yet.

        As many as are kept of an analysis at most.
        """
        # In this order: an analysis in another thread may end in between, then some come twice.
        later = [one for one in (self._analysing, *self._waiting) if one is not None]
        watch = self.watch
        if watch is None:
            return self.pattern()[0]
        kept = watch.levels[watch.level].whole()
        finest = empty(watch.levels[0].bin_ns, kept.end_ns)
        with suppress(ValueError):  # an analysis will have to begin anew
            for one in (watch.levels[0], *later):
                finest = continued(finest, one, watching.MAX_BINS)
        whole = joined(kept, rebinned(finest, kept.bin_ns // finest.bin_ns))
        return whole.part(max(0, len(whole) - watching.MAX_BINS))

    def shares(self) -> dict[Address, tuple[float, float]]:
        """Destination -> its parts of what is sent and of what is received; each sums to 1."""
        tx, rx = (max(1.0, sum(pair[way] for pair in self.to.values())) for way in (TX, RX))
        return {to: (pair[TX] / tx, pair[RX] / rx) for to, pair in self.to.items()}

    def _account(self, now_ns: int) -> None:
        if not self._went:
            return
        elapsed = (now_ns - self._went_ns) / NS if self._went_ns else 0.0
        fade, self._went_ns = 0.5 ** (elapsed / HALF_LIFE_S), now_ns
        kept = {to: (tx * fade, rx * fade) for to, (tx, rx) in self.to.items()}
        # Joined as bytes: records would first be compared field by field.
        addresses = np.frombuffer(b"".join(packed for packed, _ in self._went), "V16")
        sums = np.concatenate([part for _, part in self._went])
        self._went = []
        for key, pair in zip(*sum_by(addresses, sums), strict=True):
            to = _address(key.tobytes())
            tx, rx = kept.get(to, (0.0, 0.0))
            kept[to] = tx + float(pair[TX]), rx + float(pair[RX])
        most = sorted(kept, key=lambda to: -sum(kept[to]))[:MAX_DESTINATIONS]
        self.to = {to: kept[to] for to in most if sum(kept[to]) >= 1}


NOTHING = Period(periodic=False, reason="no traffic yet", confidence=0.0)


@contextmanager
def apart(track: Track) -> Iterator[None]:
    """Whatever goes wrong with one job's traffic costs that job its pattern, and others nothing."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - no other job is to suffer from it
        if not track.failures:  # it may fail at every look
            log.defect("a job's traffic could not be looked at", error, job=track.name)
        track.begin_again(one_line(f"its traffic could not be looked at: {error!r}"))


@lru_cache(maxsize=16 * MAX_DESTINATIONS)
def _address(packed: bytes) -> Address:
    return address(np.frombuffer(packed, np.uint8))


def together(several: Sequence[Bins]) -> Bins:
    """One series of several that follow one another; a gap between them is silence."""
    few = [one for one in several if isinstance(one, Cells)]
    if len(few) == len(several):
        return chained(few)
    parts = [one.whole() for one in several]
    if all(before.end_ns == after.start_ns for before, after in pairwise(parts)):
        tx, rx = (np.concatenate([getattr(one, way) for one in parts]) for way in ("tx", "rx"))
        return ByteSeries(parts[0].bin_ns, parts[0].start_ns, tx, rx)
    whole = parts[0]
    for one in parts[1:]:
        whole = joined(whole, one)
    return whole


def _last_ns(of: Bins) -> int:
    """When anything was sent or received last, or somewhat later."""
    if isinstance(of, Cells):
        return of.start_ns + (int(of.at[-1]) + 1) * of.bin_ns
    return of.end_ns


def _sums(of: Bins) -> tuple[int, int]:
    """Bytes sent and received."""
    if isinstance(of, Cells):
        return int(of.sent.sum()), int(of.received.sum())
    bins = of.whole()
    return int(bins.tx.sum()), int(bins.rx.sum())
