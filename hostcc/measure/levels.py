"""The same bins in several lengths, each so many times as long as those of the level before."""

from __future__ import annotations

from hostcc.measure.cells import Cells
from hostcc.measure.history import History
from hostcc.measure.series import Bins, joined, part, rebinned


def extended(levels: tuple[History, ...], new: Bins, step: int) -> tuple[History, ...]:
    """The levels with new bins; `step`: bins that make a longer one.

    Raises ValueError when they do not come after the last ones.
    """
    before, finer, added = levels[0], levels[0].longer(new), new
    longer = [finer]
    for level in levels[1:]:
        base = level if len(level) else History(level.bin_ns, finer.start_ns)
        fresh = _since(base.end_ns, before, finer, added)
        added = fresh.coarser(step) if isinstance(fresh, Cells) else rebinned(fresh.whole(), step)
        before, finer = base, base.longer(added) if len(added) else base
        longer.append(finer)
    return tuple(longer)


def cut(levels: tuple[History, ...], kept: int) -> tuple[History, ...]:
    """The levels with their last `kept` bins only."""
    if all(len(level) <= kept for level in levels):
        return levels
    return tuple(level.since(max(0, len(level) - kept)) for level in levels)


def _since(since_ns: int, before: History, finer: History, added: Bins) -> Bins:
    """The bins of a level from a moment on; it is `finer`, and was `before`."""
    first = max(0, since_ns - finer.start_ns) // finer.bin_ns
    left = len(before) - first
    if isinstance(added, Cells):
        if added.start_ns == since_ns:
            return added
        if left > 0 and before.end_ns == added.start_ns and before.quiet(first):
            return added.sooner(left)
        return finer.cells(first)
    if left < 0 or len(finer) != len(before) + len(added):
        return part(finer, first)
    # The others are at hand: they need not be unpacked.
    return joined(part(before, first), added.whole())
