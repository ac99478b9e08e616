"""What is kept of one job's traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hostcc.daemon.profiling import tracks
from hostcc.daemon.profiling.tracks import (
    DESTINATIONS,
    KNOWN_S,
    LATELY_S,
    LOOK_S,
    WELCOME_S,
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
            track.look(track.collect())


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
    assert not track.sending(made.end_ns + int((LATELY_S + 1) * 1e9))


def test_of_much_at_once_only_what_was_sent_last_counts() -> None:
    track, few = Track("a"), cells(regular(100, 1))
    track.take(replace(few, count=int(2 * LATELY_S * 1000)), None, None)
    assert track.last_ns == few.end_ns
    assert track.waiting_s == pytest.approx(2 * LATELY_S)
    assert not track.sending(few.end_ns + int((LATELY_S + 1) * 1e9))
    assert [len(part(track.collect(), 0, 100)), track.waiting_s] == [100, 0]


def test_few_full_bins_wait_as_they_are_and_are_one_series() -> None:
    made = regular(1000, 12, share=0.01)
    track = Track("a")
    for at in range(0, len(made), 3000):
        track.take(cells(part(made, at, at + 3000)))
    found = track.collect()
    assert isinstance(found, Cells)
    assert (found.start_ns, found.whole().tx.tolist()) == (made.start_ns, made.tx.tolist())
    track.look(found)
    assert track.total == (made.tx.sum(), made.rx.sum())


def test_of_a_job_that_is_known_well_little_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Track("a")
    assert track.charged(0.001) == 0.0
    assert track.welcome_s == WELCOME_S - 0.001
    monkeypatch.setattr(Track, "sure", True)
    assert track.charged(0.001) == 0.0
    assert track.welcome_s == KNOWN_S


def test_marks_settle_it() -> None:
    track = Track("a")
    fed(track, regular(100, 40))
    marks = [0.2 * number for number in range(1, 20)]
    of, found = track.pattern(marks)
    assert found.period_s == pytest.approx(0.2)
    assert found.bytes_per_iteration == pytest.approx(2 * 40_000, rel=0.01)
    assert of.tx.tolist() == track.history().tx.tolist()


def test_shares_by_destination_fade_and_are_bounded() -> None:
    track, made = Track("a"), regular(100, 40)
    sums = np.array([[300, 10], [100, 30]])
    track.take(part(made, 0, 1000), rows("198.18.0.2", "fd00::2"), sums)
    track.look(track.collect())
    shares = track.shares()
    assert shares[address(packed("198.18.0.2"))] == (0.75, 0.25)
    many = rows(*(f"198.18.{n // 200}.{n % 200}" for n in range(400)))
    track.take(part(made, 1000), many, np.ones((400, 2), np.int64))
    track.look(track.collect())
    assert len(track.to) == DESTINATIONS
    assert sum(tx for tx, _ in track.shares().values()) == pytest.approx(1.0)


def test_due_by_how_much_waits() -> None:
    track, made = Track("a"), regular(100, 40)
    track.take(part(made, 0, int(LOOK_S * 1000) - 1))
    assert track.waiting_s < LOOK_S
    track.take(part(made, int(LOOK_S * 1000) - 1, 1200))
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


def test_first_looks_are_a_jobs_own() -> None:
    track = Track("a")
    assert track.charged(WELCOME_S / 2) == 0.0
    assert track.charged(WELCOME_S) == pytest.approx(WELCOME_S / 2)
    assert track.welcome_s == 0.0
    assert track.charged(0.01) == 0.01


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


@pytest.mark.parametrize("passed_s", [20, 70])
def test_a_job_whose_pattern_is_lost_is_welcome_again_but_not_at_once(
    passed_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracks, "WELCOME_AGAIN_S", 60.0)
    track = Track("a")
    fed(track, regular(100, passed_s * 10))
    assert track.pattern()[1].periodic
    assert track.charged(1.0) == pytest.approx(1.0 - WELCOME_S)
    silence = np.zeros(1000, np.int64)
    at_ns = passed_s * 1000 * MS
    while track.pattern()[1].periodic:
        track.look(ByteSeries(MS, at_ns, silence, silence))
        at_ns += 1000 * MS
    assert track.welcome_s == (WELCOME_S if passed_s > 60 else 0)


def test_what_is_taken_to_go_on_is_compared_later() -> None:
    made = regular(100, 60)
    track = Track("a")
    fed(track, part(made, 0, 4000))
    assert track.watch is not None
    assert track.known
    before = track.watch
    silence = np.zeros(2000, np.int64)
    gone = ByteSeries(MS, 4000 * MS, silence, silence)
    track.look(gone, thorough=False, sure_ns=before.next_ns, passes=True)
    assert (track.watch.seen, track.watch.changes) == (before.seen, 0)
    assert track.watch.levels[0].end_ns == gone.end_ns
    track.look(ByteSeries(MS, gone.end_ns, silence[:500], silence[:500]), thorough=False)
    assert not track.known
