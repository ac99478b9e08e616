"""What is kept of one job's traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hostcc.daemon.profiling.tracks import (
    MAX_DESTINATIONS,
    MIN_BATCH_S,
    SENDING_WITHIN_S,
    Track,
    together,
)
from hostcc.measure.cells import Cells, cells
from hostcc.measure.destinations import DESTINATION, Records, address
from hostcc.measure.series import ByteSeries, joined, part
from tests.measure.addresses import packed
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit


def rows(*to: str) -> Records:
    found = np.zeros(len(to), DESTINATION)
    for row, one in zip(found, to, strict=True):
        row["slot"], row["addr"] = 1, packed(one)
    return found


def fed(track: Track, made: ByteSeries, step: int = 400) -> None:
    for at in range(0, len(made), step):
        track.take(part(made, at, at + step))
        if track.due:
            track.analyse(track.collect())


def test_a_pattern_is_found_and_silence_before_the_first_byte_is_nothing() -> None:
    track = Track("a")
    quiet = np.zeros(400, np.int64)
    track.take(ByteSeries(MS, 0, quiet, quiet))
    assert track.watch is None
    made = regular(100, 40, start_ns=400 * MS)
    fed(track, made)
    _, found = track.pattern()
    assert found.period_s == pytest.approx(0.1, rel=0.01)
    assert track.total == (made.tx.sum(), made.rx.sum())
    assert track.sending(made.end_ns)
    assert not track.sending(made.end_ns + int((SENDING_WITHIN_S + 1) * 1e9))


def test_of_much_at_once_only_what_was_sent_last_counts() -> None:
    track, few = Track("a"), cells(regular(100, 1))
    track.take(replace(few, count=int(2 * SENDING_WITHIN_S * 1000)), None, None)
    assert track.last_ns == few.end_ns
    assert track.waiting_s == pytest.approx(2 * SENDING_WITHIN_S)
    assert not track.sending(few.end_ns + int((SENDING_WITHIN_S + 1) * 1e9))
    assert [len(part(track.collect(), 0, 100)), track.waiting_s] == [100, 0]


def test_few_full_bins_wait_as_they_are_and_are_one_series() -> None:
    made = regular(1000, 12, share=0.01)
    track = Track("a")
    for at in range(0, len(made), 3000):
        track.take(cells(part(made, at, at + 3000)))
    found = track.collect()
    assert isinstance(found, Cells)
    assert (found.start_ns, found.whole().tx.tolist()) == (made.start_ns, made.tx.tolist())
    track.analyse(found)
    assert track.total == (made.tx.sum(), made.rx.sum())


def test_marks_settle_it() -> None:
    track = Track("a")
    fed(track, regular(100, 40))
    marks = [0.2 * number for number in range(1, 20)]
    of, found = track.pattern(marks)
    assert found.period_s == pytest.approx(0.2)
    assert found.bytes_per_iteration == pytest.approx(2 * 40_000, rel=0.01)
    assert of.tx.tolist() == track.history().tx[: len(of)].tolist()


def test_a_history_ends_with_what_was_taken_last() -> None:
    track, made = Track("a"), regular(100, 40, start_ns=400 * MS)
    for at in range(0, len(made), 700):
        track.take(part(made, at, at + 700))
        if at % 2100 == 0:
            new = track.collect()
            # An analysis is at it in another thread.
            assert track.history().end_ns == min(made.end_ns, made.start_ns + (at + 700) * MS)
            track.analyse(new)
    found = track.history()
    assert (found.start_ns, found.end_ns) == (made.start_ns, made.end_ns)
    assert found.tx.tolist() == made.tx.tolist()


def test_a_history_of_long_bins_does_too() -> None:
    track, made = Track("a"), regular(6000, 30)
    fed(track, part(made, 0, 150_000))
    assert track.watch is not None
    assert track.watch.level
    for at in range(150_000, len(made), 12_345):
        track.take(part(made, at, at + 12_345))
    found = track.history()
    assert made.end_ns - found.end_ns < found.bin_ns
    first = (found.start_ns - made.start_ns) // MS
    assert found.tx.sum() == made.tx[first : first + len(found) * found.bin_ns // MS].sum()


@pytest.mark.parametrize(
    "odd",
    [
        ByteSeries(2 * MS, 4000 * MS, np.ones(10, np.int64), np.ones(10, np.int64)),
        ByteSeries(MS, 4000 * MS + 1, np.ones(10, np.int64), np.ones(10, np.int64)),
        ByteSeries(MS, 10**17, np.ones(10, np.int64), np.ones(10, np.int64)),
    ],
    ids=["other bins", "between bins", "years later"],
)
def test_a_history_ends_before_bins_that_do_not_fit(odd: ByteSeries) -> None:
    track, made = Track("a"), regular(100, 40)
    fed(track, made)
    track.analyse(track.collect())
    before = track.history()
    track.take(odd)
    assert track.history().tx.tolist() == before.tx.tolist()


def test_shares_by_destination_fade_and_are_bounded() -> None:
    track, made = Track("a"), regular(100, 40)
    sums = np.array([[300, 10], [100, 30]])
    track.take(part(made, 0, 1000), rows("198.18.0.2", "fd00::2"), sums)
    track.analyse(track.collect())
    shares = track.shares()
    assert shares[address(packed("198.18.0.2"))] == (0.75, 0.25)
    many = rows(*(f"198.18.{n // 200}.{n % 200}" for n in range(400)))
    track.take(part(made, 1000), many, np.ones((400, 2), np.int64))
    track.analyse(track.collect())
    assert len(track.to) == MAX_DESTINATIONS
    assert sum(tx for tx, _ in track.shares().values()) == pytest.approx(1.0)


def test_due_by_how_much_waits() -> None:
    track, made = Track("a"), regular(100, 40)
    track.take(part(made, 0, int(MIN_BATCH_S * 1000) - 1))
    assert track.waiting_s < MIN_BATCH_S
    track.take(part(made, int(MIN_BATCH_S * 1000) - 1, 1200))
    assert track.due
    track.collect()
    assert track.waiting_s == 0


@pytest.mark.parametrize("gap", [0, 7])
def test_together_is_joined(gap: int) -> None:
    made = regular(10, 10)
    parts = [part(made, 0, 30), part(made, 30 + gap, 60), part(made, 60)]
    whole = together(parts).whole()
    expected = joined(joined(parts[0], parts[1]), parts[2])
    assert (whole.start_ns, whole.end_ns) == (0, made.end_ns)
    assert whole.tx.tolist() == expected.tx.tolist()


def test_bins_that_wait_long_are_packed_and_come_out_as_they_went_in() -> None:
    made = regular(240, 30)
    track = Track("a")
    for at in range(0, len(made), 400):
        track.take(part(made, at, at + 400))
    assert track.waiting_s == pytest.approx(7.2)
    found = track.collect().whole()
    assert (found.start_ns, found.tx.tolist()) == (made.start_ns, made.tx.tolist())
    assert found.rx.tolist() == made.rx.tolist()
    assert track.waiting_s == 0


def test_what_is_taken_to_go_on_is_compared_later() -> None:
    made = regular(100, 60)
    track = Track("a")
    fed(track, part(made, 0, 4000))
    assert track.watch is not None
    assert track.known
    before = track.watch
    silence = np.zeros(2000, np.int64)
    gone = ByteSeries(MS, 4000 * MS, silence, silence)
    track.analyse(gone, thorough=False, unchanged_until_ns=before.next_ns, skips=True)
    assert (track.watch.seen, track.watch.changes) == (before.seen, 0)
    assert track.watch.levels[0].end_ns == gone.end_ns
    track.analyse(ByteSeries(MS, gone.end_ns, silence[:500], silence[:500]), thorough=False)
    assert not track.known
