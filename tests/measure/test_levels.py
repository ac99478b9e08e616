"""Bins in several lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.measure.cells import cells
from hostcc.measure.history import History
from hostcc.measure.levels import cut, extended
from hostcc.measure.series import ByteSeries, coarser, empty, joined, part, series
from tests.measure.jobs import MS

pytestmark = pytest.mark.unit

STEP, KEPT = 4, 60
NUMBERS = st.lists(st.sampled_from([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 70_000]), max_size=90)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), NUMBERS, st.booleans()), min_size=1, max_size=8))
def test_each_level_holds_the_last_bins_of_the_whole_series(
    steps: list[tuple[int, list[int], bool]],
) -> None:
    levels = tuple(History(MS * STEP**level, 0) for level in range(3))
    whole = empty(MS)
    for gap, numbers, sparse in steps:
        new = series(numbers, numbers[::-1], MS, whole.end_ns + gap * MS if len(whole) else 0)
        if not len(new):
            continue
        whole = joined(whole, new)
        levels = cut(extended(levels, cells(new) if sparse else new, STEP), KEPT)
        for number, level in enumerate(levels):
            expected = part(_rebinned(whole, STEP**number), -KEPT)
            assert (level.start_ns, level.tx.tolist()) == (expected.start_ns, expected.tx.tolist())
            assert level.rx.tolist() == expected.rx.tolist()


def _rebinned(of: ByteSeries, factor: int) -> ByteSeries:
    tx, rx = coarser(of.tx, factor), coarser(of.rx, factor)
    return ByteSeries(of.bin_ns * factor, of.start_ns, tx, rx)


def test_bins_that_do_not_fit_are_refused() -> None:
    levels = extended((History(MS, 0),), series(np.ones(9), None, MS), STEP)
    with pytest.raises(ValueError, match="expected bins"):
        extended(levels, series([1], None, MS, 3 * MS), STEP)
