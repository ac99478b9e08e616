"""A job's pattern kept current while bins arrive: learned, followed, given up when it changes.

No clock and no I/O: `update(watch, bins) -> watch`.  Bins are kept in three lengths, so that an
iteration of 10 ms and one of a minute are both seen often enough in little memory.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hostcc.measure.history import History, cut, extended
from hostcc.measure.iterations import (
    OVERDUE,
    Iteration,
    Reference,
    changed_from,
    completed,
    deviating_run,
    first_suspect,
    reference,
)
from hostcc.measure.period import Period, detect, figures
from hostcc.measure.series import NS, Bins
from hostcc.measure.silences import rhythm
from hostcc.measure.spectrum import detrended
from hostcc.measure.tracking import track

LEVELS = 3
"""Lengths of bins that are kept."""
LEVEL_FACTOR = 8
"""Bins of each level over those of the one before, in length."""
MAX_BINS = 16384
"""Bins kept of each level: with 1 ms the last 16 s, 2 minutes, 17 minutes."""
MIN_BINS = 24
"""Bins without which no pattern is looked for."""
LEARN_GROWTH, LEARN_GROWTH_LONG = 0.2, 0.3
"""A pattern is looked for again when the history has grown by this fraction; the second, when the
history is longer than the shortest bins go back."""
PREFER_FINER_AT = 0.85
"""Shorter bins are preferred from this fraction of the best confidence on."""
COMPARE_EVERY = 0.04
"""Periods between two attempts to find the next iteration."""
REMEASURE_ITERATIONS, REMEASURE_NS = 8, 20 * NS
"""Iterations after which figures are measured again; once they are of `WINDOW` iterations, not more
often than the second, nanoseconds."""
RECONSIDER_GROWTH, RECONSIDER_GROWTH_LATER = 0.5, 1.0
"""When the history has grown by this fraction, a longer period is looked for; the second, after
`MANY` iterations."""
MANY = 96
MIN_BINS_PER_PERIOD = 12
"""Bins of a period that its shape can be seen in."""
SAME_PERIOD, SAME_BYTES = 0.05, 0.1
"""Periods, and bytes of an iteration, that differ by at most this fraction are the same."""
WRONG_AFTER, WRONG_AFTER_UNSETTLED = 5, 3
"""Iterations in a row that deviate and are no change, after which the pattern counts as wrong; the
second, before it is established."""
TEST_EVERY = 4.0
"""Periods that came at once after which deviating iterations are tested for a change; the end of
what came always is."""
ESTABLISHED = 12
"""Iterations after which a pattern is established: deviating ones are more likely late than it is
wrong."""
WINDOW = 24
"""Iterations that figures are measured from."""


def sends_the_same(iteration_bytes: float, before: float) -> bool:
    """Say whether an iteration sends as much as one did `before`, which is above 0."""
    return abs(iteration_bytes / before - 1) <= SAME_BYTES


@dataclass(frozen=True, eq=False)
class Watch:
    """What is known of a job's pattern; made by `begin`, and anew by each `update`."""

    levels: tuple[History, ...]
    found: Period
    """The pattern now; not periodic while a new one is learned."""
    level: int = 0
    """Whose bins `found` counts in."""
    series: History | None = None
    """The bins that `found` was found in."""
    known: Reference | None = None
    next_ns: float = 0.0
    """Where the next iteration begins that has not been compared."""
    compare_ns: float = 0.0
    """The next iteration is not looked for before there are bins until then."""
    recent: tuple[Iteration, ...] = ()
    seen: int = 0
    """Iterations compared since the pattern was learned."""
    refreshed: int = 0
    """`seen`, when figures were last measured."""
    doubts: int = 0
    """Measurements in a row without a period."""
    tried_ns: int = 0
    """End of the bins when a pattern was last looked for."""
    changes: int = 0
    changed_ns: int | None = None
    """When the pattern of the job last changed, as seen afterwards."""
    before: Period | None = None
    """The pattern until then."""

    @property
    def settled(self) -> bool:
        """Whether as many iterations have been seen as figures are taken from, without doubt."""
        return self.seen > WINDOW and not self.doubts


NOTHING = Period(periodic=False, reason="no traffic yet", confidence=0.0)


def begin(bin_ns: int, start_ns: int = 0) -> Watch:
    """A job of which nothing is known; bins are `bin_ns` long and begin at `start_ns`."""
    levels = tuple(History(bin_ns * LEVEL_FACTOR**level, start_ns) for level in range(LEVELS))
    return Watch(levels, NOTHING)


def update(watch: Watch, new: Bins, *, thorough: bool = True) -> Watch:
    """Take in the bins that came after the last ones; raises ValueError when they do not fit.

    Not `thorough`: a pattern that is known is followed, which is cheap; what asks more of the
    history, to learn one or to measure it again, is left to the next time.
    """
    if not len(new):
        return watch
    first = watch.levels[0]
    if len(first) and new.start_ns - first.end_ns > MAX_BINS * first.bin_ns:
        # No bins came for longer than is kept.
        fresh = begin(new.bin_ns, new.start_ns)
        fresh = replace(fresh, changes=watch.changes, before=watch.found)
        return update(fresh, new, thorough=thorough)
    watch = replace(watch, levels=extended(watch.levels, new, LEVEL_FACTOR))
    if watch.known is not None:
        # Before what is too old is cut off: more may have come than is kept.
        return _followed(watch, thorough)
    watch = _cut(watch)
    return _learned(watch) if thorough else watch


def skipped_to(watch: Watch, regular_until_ns: float) -> Watch:
    """With the iterations until then counted as regular, which `expectation` has found them to be;
    unchanged where no pattern is known."""
    if watch.known is None:
        return watch
    period_ns = watch.known.period * watch.levels[watch.level].bin_ns
    passed = round((regular_until_ns - watch.next_ns) / period_ns)
    if passed < 1:
        return watch
    return replace(watch, next_ns=regular_until_ns, seen=watch.seen + passed, recent=())


def _cut(watch: Watch) -> Watch:
    """Without bins that are older than those that are kept."""
    return replace(watch, levels=cut(watch.levels, MAX_BINS))


def _learned(watch: Watch) -> Watch:
    """Search for a pattern, when enough is new."""
    if watch.found.irregular:
        return _remeasured_irregular(watch)
    finest = watch.levels[0]
    long = min(level.start_ns for level in watch.levels if len(level)) < finest.start_ns
    if not _due(watch, LEARN_GROWTH_LONG if long else LEARN_GROWTH):
        return watch
    number, found = _best(watch)
    watch = replace(watch, tried_ns=watch.levels[0].end_ns)
    if not found.periodic:
        return replace(watch, found=found, series=None)
    return _accepted(watch, number, watch.levels[number], found, seen=0)


def _remeasured_irregular(watch: Watch) -> Watch:
    """Measure the last exchanges again; they have no shape that each could be compared with."""
    if not watch.doubts and _due(watch, _growth(watch)):
        again = _reconsidered(watch)
        if again.found is not watch.found:
            return again
        watch = again
    assert watch.series is not None
    assert watch.found.period_s is not None
    of = watch.levels[watch.level]
    period = watch.found.period_s * NS / of.bin_ns
    passed = int((of.end_ns - watch.series.end_ns) / of.bin_ns / period)
    if passed < REMEASURE_ITERATIONS:
        return watch
    tail = of.since(max(0, len(of) - int(WINDOW * period)))
    found = detect(tail.whole())
    old = watch.found.bytes_per_iteration
    if not found.periodic or old is None or found.bytes_per_iteration is None:
        other = True
    else:
        other = not sends_the_same(found.bytes_per_iteration, old)
    if not other:
        return _accepted(watch, watch.level, tail, found, seen=watch.seen + passed)
    if watch.doubts:
        return _restarted(watch, tail.start_ns)
    return replace(watch, series=tail, doubts=1)


def _growth(watch: Watch) -> float:
    return RECONSIDER_GROWTH if watch.seen < MANY else RECONSIDER_GROWTH_LATER


def _due(watch: Watch, growth: float) -> bool:
    """Whether the history has grown by this fraction since it was last searched as a whole."""
    finest = watch.levels[0]
    start_ns = min(level.start_ns for level in watch.levels if len(level))
    new_ns = finest.end_ns - max(watch.tried_ns, start_ns)
    return len(finest) >= MIN_BINS and new_ns >= growth * (finest.end_ns - new_ns - start_ns)


def _distinct_levels(watch: Watch) -> list[History]:
    """The levels that go farther back than those of shorter bins; the first always."""
    start_ns = min(level.start_ns for level in watch.levels if len(level))
    return [
        level
        for number, level in enumerate(watch.levels)
        if not number or watch.levels[number - 1].start_ns > start_ns + level.bin_ns
    ]


def _best(watch: Watch) -> tuple[int, Period]:
    """The pattern in the whole history, and the level whose bins show it."""
    tried = [
        (number, detect(level.whole())) for number, level in enumerate(_distinct_levels(watch))
    ]
    best = max(period.confidence for _, period in tried)
    return next(one for one in tried if one[1].confidence >= PREFER_FINER_AT * best)


def _reconsidered(watch: Watch) -> Watch:
    """Ask the whole history again whether this is the fundamental, and not one burst's rhythm."""
    watch = replace(watch, tried_ns=watch.levels[0].end_ns)
    old = watch.found
    assert old.period_s is not None
    # The longest bins that show it go back farthest; the others are tested where these object.
    fit = [
        level
        for level in _distinct_levels(watch)
        if old.period_s * NS >= MIN_BINS_PER_PERIOD * level.bin_ns
    ]
    if fit and _same(detect(fit[-1].whole()).period_s, old.period_s):
        return watch
    number, found = _best(watch)
    other = (
        found.period_s is not None
        and not _same(found.period_s, old.period_s)
        and (
            found.confidence >= PREFER_FINER_AT * old.confidence
            or (old.irregular and not found.irregular)
        )
    )
    if not other:
        return watch
    return _accepted(watch, number, watch.levels[number], found, seen=watch.seen)


def _same(period_s: float | None, other_s: float) -> bool:
    return period_s is not None and abs(period_s / other_s - 1) <= SAME_PERIOD


def _accepted(watch: Watch, level: int, of: History, found: Period, *, seen: int) -> Watch:
    """The watch with a pattern that was found in `of`."""
    assert found.starts is not None
    return replace(
        watch,
        found=found,
        level=level,
        series=of,
        known=None if found.irregular else reference(of.whole(), found),
        next_ns=of.start_ns + float(found.starts[-1]) * of.bin_ns,
        recent=(),
        seen=seen,
        refreshed=seen,
        doubts=0,
    )


def _followed(watch: Watch, thorough: bool) -> Watch:
    """Compare the iterations that are complete by now; notice a change; stay current."""
    of = watch.levels[watch.level]
    assert watch.known is not None
    if of.end_ns < watch.compare_ns:
        return _cut(watch)
    before, watch = watch, _cut(_compared(watch, of, watch.known))
    if watch.known is not before.known or not thorough:
        return watch
    if _due(watch, _growth(watch)):
        again = _reconsidered(watch)
        if again.found is not watch.found:
            return again
        watch = again
    deviating = bool(watch.recent) and watch.recent[-1].deviates
    if watch.seen - watch.refreshed < REMEASURE_ITERATIONS or deviating or _fresh(watch, of.end_ns):
        return watch
    return _refreshed(watch, of)


def _compared(watch: Watch, of: History, known: Reference) -> Watch:
    """With the iterations that are complete by now; learning anew when they are not alike."""
    start = (watch.next_ns - of.start_ns) / of.bin_ns
    recent, seen, next_ns = list(watch.recent), watch.seen, watch.next_ns
    doubtful = bool(recent) and recent[-1].deviates
    since_ns, other, wrong, compared_any = next_ns, False, False, False
    found, tested = completed(of, start, known, doubtful=doubtful), start
    passed = _passed(found)
    for left, over, one in zip(reversed(range(len(found))), passed, found, strict=True):
        at_ns = of.start_ns + one.start * of.bin_ns
        recent = [*recent[1 - WRONG_AFTER :], replace(one, start=at_ns)]
        start = one.start + one.length * known.period
        seen, next_ns, compared_any = seen + 1, of.start_ns + start * of.bin_ns, True
        first = first_suspect(recent)
        if first is None or over:
            continue
        since_ns = first.start
        wrong = len(deviating_run(recent)) >= (
            WRONG_AFTER if seen >= ESTABLISHED else WRONG_AFTER_UNSETTLED
        )
        if left and not wrong and start - tested < TEST_EVERY * known.period:
            continue  # what is tested after a later one says as much
        tested = start
        other = changed_from(of, (since_ns - of.start_ns) / of.bin_ns, start, known)
        if other or wrong:
            break
    first = first_suspect(recent)
    if not compared_any and (first is not None or len(of) - start > OVERDUE * known.period):
        since_ns = next_ns if first is None else first.start
        other = changed_from(of, (since_ns - of.start_ns) / of.bin_ns, start, known)
    compare_ns = of.end_ns + COMPARE_EVERY * known.period * of.bin_ns
    watch = replace(watch, compare_ns=compare_ns, recent=tuple(recent), seen=seen, next_ns=next_ns)
    if other:
        return _restarted(watch, int(since_ns))
    if not wrong:
        return watch
    return (_found_again(watch, of, known) if seen >= ESTABLISHED else None) or _relearning(watch)


def _passed(found: Sequence[Iteration]) -> list[bool]:
    """Of each iteration, whether it and the next one, or the next two, do not deviate.

    What came before them was no change then.
    """
    good = [not one.deviates for one in found]
    pairs = [*map(operator.and_, good, good[1:]), False, False]
    return [here or after for here, after in pairwise(pairs)][: len(found)]


def _fresh(watch: Watch, now_ns: int) -> bool:
    """Whether figures that many iterations have gone into are not old."""
    of = watch.series
    return of is not None and watch.settled and now_ns - of.end_ns < REMEASURE_NS


def _refreshed(watch: Watch, of: History) -> Watch:
    """Measure the last iterations again."""
    assert watch.known is not None
    tail = of.since(max(0, len(of) - int(WINDOW * watch.known.period)))
    bins = tail.whole()
    again = track(detrended(bins.total), watch.known.period)
    found = NOTHING if again is None else figures(bins, again, rhythm(bins.total))
    if not found.periodic:
        found = detect(bins)
    if found.periodic:
        fresh = _accepted(watch, watch.level, tail, found, seen=watch.seen)
        return replace(fresh, next_ns=watch.next_ns, recent=watch.recent)
    if watch.doubts:
        return _restarted(watch, tail.start_ns, changed_now=False)
    return replace(watch, doubts=1, refreshed=watch.seen)


def _found_again(watch: Watch, of: History, known: Reference) -> Watch | None:
    """Where the pattern goes on when only its track was lost; None when it does not."""
    tail = of.since(max(0, len(of) - int(WINDOW * known.period)))
    bins = tail.whole()
    again = track(detrended(bins.total), known.period)
    if again is None or abs(again.period / known.period - 1) > SAME_PERIOD:
        return None
    found = figures(bins, again, rhythm(bins.total))
    return _accepted(watch, watch.level, tail, found, seen=watch.seen) if found.periodic else None


def _relearning(watch: Watch) -> Watch:
    """Search the whole history again, because the pattern has not gone on; keep the history."""
    reason = "what seemed to be a pattern has not gone on: learning"
    return replace(
        watch,
        found=Period(periodic=False, reason=reason, confidence=0.0),
        series=None,
        known=None,
        recent=(),
        seen=0,
        refreshed=0,
        doubts=0,
    )


def _restarted(watch: Watch, since_ns: int, *, changed_now: bool = True) -> Watch:
    """Begin to learn anew from what came since a moment."""
    levels = tuple(
        level.since(min(len(level), max(0, -(-(since_ns - level.start_ns) // level.bin_ns))))
        for level in watch.levels
    )
    again = Watch(
        levels,
        Period(periodic=False, reason="the pattern has changed: learning", confidence=0.0),
        changes=watch.changes + changed_now,
        changed_ns=since_ns if changed_now else watch.changed_ns,
        before=watch.found,
    )
    return _learned(again)
