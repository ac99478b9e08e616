"""A job's pattern kept current."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import synthetic
from benchmarks.period_changes import any_shape
from benchmarks.synthetic import Dirt, Sample, Shape
from hostcc.measure import pattern_watch as w
from hostcc.measure.period import Period, detect
from hostcc.measure.series import NS, ByteSeries, Floats, empty, joined, part, rebinned, series
from hostcc.measure.tracking import Track, track
from tests.measure.jobs import MS, regular

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def fed(made: ByteSeries, step: int, start: w.Watch | None = None) -> w.Watch:
    """A watch after all of a series, `step` bins at a time."""
    watch = w.begin(made.bin_ns, made.start_ns) if start is None else start
    for at in range(0, len(made), step):
        watch = w.update(watch, part(made, at, at + step))
    return watch


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=700), st.integers(1, 90))
def test_levels_hold_the_same_bytes(counts: list[int], step: int) -> None:
    made = series(counts, None, MS)
    for number, level in enumerate(fed(made, step).levels):
        expected = rebinned(made, w.LEVEL_FACTOR**number)
        assert level.tx.tolist() == expected.tx.tolist()
        assert level.start_ns == 0


def test_only_so_much_is_kept() -> None:
    made = series(np.ones(5000, dtype=np.int64), None, MS)
    watch = w.begin(MS)
    for number in range(30):
        shifted = ByteSeries(MS, number * 5000 * MS, made.tx, made.rx)
        watch = w.update(watch, shifted)
    assert [len(level) for level in watch.levels] == [w.MAX_BINS, w.MAX_BINS, 150_000 // 64]
    assert {level.end_ns // (64 * MS) for level in watch.levels} == {150_000 // 64}


@pytest.mark.parametrize("step", [1, 7, 40, 1000])
def test_how_bins_arrive_does_not_matter(step: int) -> None:
    made = regular(60, 40)
    found = fed(made, step).found
    assert found.periodic, found.reason
    assert found.period_s == pytest.approx(0.06, rel=0.005)
    assert found.bytes_per_iteration == pytest.approx(24_000, rel=0.005)
    assert found.confidence > 0.8


def test_a_minute_and_ten_milliseconds() -> None:
    slow = fed(regular(60_000, 9, share=0.2), 997)
    assert slow.found.period_s == pytest.approx(60, rel=0.005)
    assert slow.level > 0
    fast = fed(regular(10, 400), 50)
    assert fast.found.period_s == pytest.approx(0.01, rel=0.005)
    assert fast.level == 0


BEFORE = Shape(0.1, np.array([0.6]), np.array([0.4]), np.array([1.0]))
CHANGES = {
    "longer computation": Shape(0.1, np.array([0.9]), np.array([0.4]), np.array([1.0])),
    "shorter computation": Shape(0.1, np.array([0.3]), np.array([0.4]), np.array([1.0])),
    "more workers": Shape(0.1, np.array([0.6]), np.array([0.5]), np.array([1.0])),
    "fewer workers": Shape(0.1, np.array([0.6]), np.array([0.3]), np.array([1.0])),
    "a slower link": Shape(0.1, np.array([0.6]), np.array([0.8]), np.array([0.5])),
    "another model": Shape(
        0.23, np.array([0.3, 0.1, 0.1]), np.array([0.1, 0.3, 0.1]), np.array([1.0, 0.5, 1.0])
    ),
}


def changing(then: Shape, seed: int, dirt: Dirt) -> Sample:
    return synthetic.job(
        BEFORE,
        dirt,
        np.random.default_rng(seed),
        iterations=34,
        bin_s=0.001,
        then=then,
        change_at=20,
    )


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("seed", range(3))
def test_a_change_is_noticed_within_three_iterations(name: str, seed: int) -> None:
    sample = changing(CHANGES[name], seed, Dirt(jitter=0.01))
    watch, noticed_s = w.begin(MS), None
    for at in range(0, len(sample.series), 5):
        watch = w.update(watch, part(sample.series, at, at + 5))
        if watch.changes and noticed_s is None:
            noticed_s = (at + 5) * sample.series.bin_s
            assert not watch.found.periodic
    assert noticed_s is not None
    assert sample.starts_s[20] < noticed_s <= sample.starts_s[23]
    assert watch.changes == 1
    assert watch.before is not None
    assert watch.before.period_s == pytest.approx(0.1, rel=0.02)
    # And the new pattern has been learned by the end.
    new = float(np.median(np.diff(sample.starts_s[20:])))
    assert watch.found.period_s == pytest.approx(new, rel=0.02)
    assert watch.found.bytes_per_iteration == pytest.approx(CHANGES[name].bytes, rel=0.02)


@pytest.mark.parametrize("dirt", [Dirt(), Dirt(jitter=0.02, straggler_share=0.1)], ids=repr)
def test_what_stays_the_same_is_no_change(dirt: Dirt) -> None:
    changes = sum(fed(changing(BEFORE, seed, dirt).series, 11).changes for seed in range(10))
    assert changes <= (1 if dirt.straggler_share else 0)


def test_a_thread_that_late_iterations_broke_is_found_again() -> None:
    """Six bursts: after a late iteration the next is taken to begin at one of them."""
    rng = np.random.default_rng([4000, 0])
    dirt = Dirt(jitter=0.005, straggler_share=0.1)
    sample = synthetic.job(any_shape(rng), dirt, rng, iterations=30, bin_s=0.001)
    intervals = np.diff(sample.starts_s)
    assert (intervals > 1.5 * float(np.median(intervals))).sum() == 4
    watch, learned_s = w.begin(MS), float(sample.starts_s[8])
    for at in range(0, len(sample.series), 5):
        watch = w.update(watch, part(sample.series, at, at + 5))
        if at * sample.series.bin_s > learned_s:
            assert watch.found.period_s == pytest.approx(0.1, rel=0.01)
    assert watch.changes == 0


def test_a_job_that_falls_silent_has_no_pattern() -> None:
    watch = fed(regular(60, 30), 20)
    assert watch.found.periodic
    quiet = series(np.zeros(600, dtype=np.int64), None, MS, start_ns=30 * 60 * MS)
    watch = fed(quiet, 20, watch)
    assert not watch.found.periodic
    assert watch.changes == 1


def test_the_rhythm_of_bursts_is_corrected() -> None:
    """Six bursts, then a long silence: learned as bursts at first."""
    burst = np.tile([0] * 9 + [900] * 9, 6)
    piece = np.concatenate((burst, np.zeros(192, dtype=np.int64)))
    watch = fed(series(np.tile(piece, 16), None, MS), 10)
    assert watch.found.period_s == pytest.approx(0.3, rel=0.01)


def test_a_gap_that_is_longer_than_the_memory() -> None:
    watch = fed(regular(60, 30), 20)
    later = regular(80, 20, start_ns=10**15)
    again = fed(later, 20, watch)
    assert again.found.period_s == pytest.approx(0.08, rel=0.01)
    assert again.levels[0].start_ns == 10**15


def test_bins_that_do_not_fit_are_refused() -> None:
    watch = fed(regular(60, 3), 20)
    with pytest.raises(ValueError, match="expected bins"):
        w.update(watch, series([1], None, MS, start_ns=0))
    assert w.update(watch, series((), None, MS)) is watch


def test_no_period_no_number() -> None:
    sample = synthetic.APERIODIC["random transfers"](np.random.default_rng(1))
    watch = fed(sample.series, 50)
    assert not watch.found.periodic
    assert watch.found.period_s is None
    assert watch.found.reason


def test_a_job_that_goes_on_is_analysed_as_a_whole_ever_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = regular(240, 400)
    whole: list[int] = []
    again: list[float] = []

    def counted(of: ByteSeries) -> Period:
        whole.append(of.end_ns)
        return detect(of)

    def tracked(values: Floats, lag: float) -> Track | None:
        again.append(lag)
        return track(values, lag)

    monkeypatch.setattr(w, "detect", counted)
    monkeypatch.setattr(w, "track", tracked)
    watch = fed(made, 1000)
    assert watch.found.period_s == pytest.approx(0.24, rel=0.005)
    assert len({end for end in whole if end > 20 * NS}) <= 3
    # A few times at first, then once in twenty seconds.
    assert 5 <= len(again) <= 10


@dataclass(frozen=True, eq=False)
class Unpacked:
    """What History does, with nothing packed."""

    bin_ns: int
    start_ns: int
    of: ByteSeries | None = None

    def __len__(self) -> int:
        return len(self.whole())

    @property
    def end_ns(self) -> int:
        return self.whole().end_ns

    def whole(self) -> ByteSeries:
        return empty(self.bin_ns, self.start_ns) if self.of is None else self.of

    def part(self, begin: int, end: int | None = None) -> ByteSeries:
        return self.whole().part(begin, end)

    def since(self, begin: int) -> Unpacked:
        left = self.part(begin)
        return Unpacked(self.bin_ns, left.start_ns, left)

    def longer(self, new: ByteSeries) -> Unpacked:
        both = joined(self.whole(), new)
        return Unpacked(both.bin_ns, both.start_ns, both)


def said(watch: w.Watch) -> tuple[object, ...]:
    """All that can be told from a watch, to the last bit."""
    found = {**vars(watch.found), "starts": None}
    starts = watch.found.starts
    known = None if watch.known is None else watch.known.pattern.tobytes()
    return (
        found, None if starts is None else starts.tobytes(), known, watch.level, watch.next_ns,
        watch.recent, watch.seen, watch.changes, watch.changed_ns,
        watch.series and watch.series.whole().tx.tobytes(),
        [(level.start_ns, level.end_ns) for level in watch.levels],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "step"), [("more workers", 5), ("another model", 130), ("slow", 997), ("none", 333)]
)
def test_packed_or_not_the_same_is_found(
    name: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "slow":
        made = regular(9000, 14, share=0.2)
    elif name == "none":
        made = synthetic.APERIODIC["random transfers"](np.random.default_rng(3)).series
    else:
        made = changing(CHANGES[name], 4, Dirt(jitter=0.02, straggler_share=0.1)).series
    packed = w.begin(MS)
    with monkeypatch.context() as patch:
        patch.setattr(w, "History", Unpacked)
        plain = w.begin(MS)
    for at in range(0, len(made), step):
        new = part(made, at, at + step)
        packed = w.update(packed, new)
        with monkeypatch.context() as patch:
            patch.setattr(w, "History", Unpacked)
            plain = w.update(plain, new)
        assert said(packed) == said(plain)


def test_what_is_not_thorough_only_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = regular(60, 60)
    half = len(made) // 2
    watch = fed(part(made, 0, half), 60)
    assert watch.found.periodic
    with monkeypatch.context() as patch:
        patch.setattr(w, "detect", None)
        patch.setattr(w, "track", None)
        for at in range(half, len(made), 60):
            watch = w.update(watch, part(made, at, at + 60), thorough=False)
        fresh = w.update(w.begin(MS), made, thorough=False)
    assert watch.seen > 50
    assert watch.changes == 0
    assert not fresh.found.periodic
    # What was left is made up for.
    later = series(made.tx[:60], made.rx[:60], MS, made.end_ns)
    assert w.update(watch, later).tried_ns > watch.tried_ns
    assert w.update(fresh, later).found.periodic


@pytest.mark.parametrize("before", [14, 16, 25])
def test_a_change_is_noticed_when_much_came_after_it_at_once(before: int) -> None:
    rng = np.random.default_rng(3)
    usual = np.tile(np.where(np.arange(100) >= 60, 1000, 0), before)
    lengths = 80 + rng.integers(-30, 30, 40)
    other = np.concatenate(
        [np.where(np.arange(length) >= length - 40, 700, 0) for length in lengths]
    )
    watch = w.begin(MS)
    for at in range(0, len(usual), 100):
        watch = w.update(watch, series(usual[at : at + 100], None, MS, at * MS))
    assert watch.known is not None
    watch = w.update(watch, series(other, None, MS, len(usual) * MS))
    assert watch.changes == 1


def test_more_may_come_at_once_than_is_kept() -> None:
    made = regular(240, 260, share=0.05)
    watch = fed(part(made, 0, 12_000), 400)
    seen = watch.seen
    watch = w.update(watch, part(made, 12_000))
    assert watch.found.periodic
    assert watch.changes == 0
    assert watch.seen - seen == pytest.approx((len(made) - 12_000) / 240, abs=2)
    assert len(watch.levels[0]) == w.MAX_BINS


@pytest.mark.parametrize(("after", "asks"), [(3, 0), (1, 1)])
def test_what_is_over_is_not_asked_about(
    monkeypatch: pytest.MonkeyPatch, after: int, asks: int
) -> None:
    made = regular(240, 40, share=0.05)
    watch = fed(made, 400)
    more = regular(240, 4 + after, share=0.05, start_ns=made.end_ns)
    sent = more.tx.copy()
    sent[2 * 240 : 3 * 240] *= 2  # one iteration sends more
    asked: list[float] = []

    def changed(*given: object) -> bool:
        asked.append(1)
        return False

    monkeypatch.setattr(w, "changed_from", changed)
    watch = w.update(watch, ByteSeries(MS, more.start_ns, sent, more.rx))
    assert any(one.deviates for one in watch.recent)
    assert len(asked) == asks


@pytest.mark.parametrize("more", [1, 30])
def test_what_is_known_to_go_on_is_not_compared(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    made = regular(240, 40 + more, share=0.05)
    watch, rest = fed(part(made, 0, 40 * 240), 400), part(made, 40 * 240)
    assert watch.known is not None
    period_ns = watch.known.period * MS
    regular_until_ns = watch.next_ns + more * period_ns
    with monkeypatch.context() as patch:
        patch.setattr(w, "completed", lambda _of, _start, _known, *, doubtful: [])
        passed = w.update(w.skipped_to(watch, regular_until_ns), rest, thorough=False)
    compared = w.update(watch, rest, thorough=False)
    assert passed.seen == watch.seen + more == compared.seen
    assert passed.next_ns == pytest.approx(compared.next_ns, abs=0.02 * period_ns)
    assert said(passed)[:2] == said(compared)[:2]


@pytest.mark.parametrize("later_ns", [-5_000_000_000, 0, 100 * MS])
def test_less_than_an_iteration_is_not_passed(later_ns: int) -> None:
    watch = fed(regular(240, 40, share=0.05), 400)
    assert w.skipped_to(watch, watch.next_ns + later_ns) is watch
    fresh = w.begin(MS)
    assert w.skipped_to(fresh, 1e12) is fresh


def test_what_comes_after_it_is_compared() -> None:
    made = regular(240, 60, share=0.05)
    watch, sent = fed(part(made, 0, 40 * 240), 400), made.tx.copy()
    sent[50 * 240 :] *= 2
    assert watch.known is not None
    regular_until_ns = watch.next_ns + 10 * watch.known.period * MS
    rest = ByteSeries(MS, 40 * 240 * MS, sent[40 * 240 :], made.rx[40 * 240 :])
    after = w.update(w.skipped_to(watch, regular_until_ns), rest)
    assert after.changes == 1
    assert after.changed_ns == pytest.approx(50 * 240 * MS, abs=240 * MS)
