"""Which jobs are looked at when, as far as how they go on decides it."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.daemon.profiling import analysis_schedule as l
from hostcc.daemon.profiling.analysis_budget import (
    MAX_SAVED_S,
    Account,
    AnalysisBudget,
    AnalysisRequest,
)
from hostcc.daemon.profiling.analysis_schedule import (
    COALESCE_UNCHANGED_AT,
    CONFIDENT_INTERVAL_S,
    MAX_UNCHANGED_DENSE_WAIT_S,
    MAX_UNCHANGED_WAIT_S,
    AnalysisSchedule,
)
from hostcc.daemon.profiling.tracks import MAX_WAIT_S, MIN_BATCH_S, Track
from hostcc.measure import pattern_watch as watching
from hostcc.measure.cells import cells
from hostcc.measure.destinations import DESTINATION
from hostcc.measure.expectation import ExpectationTracker
from hostcc.measure.meter import Window
from hostcc.measure.series import series

pytestmark = pytest.mark.unit

MS, SECOND = 1_000_000, 1_000_000_000
STEP_MS = 500
PERIOD_S = 1.0


def nothing(start_ns: int) -> Window:
    """A reading without traffic."""
    none = np.zeros(0, np.int64)
    who, words = np.zeros(0, DESTINATION), np.zeros((0, 2), np.uint64)
    return Window(MS, start_ns, STEP_MS, who, none, none, words)


class World:
    """Jobs of known pattern; which of them do something else a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: str, each: int = 10) -> None:
        self.other = ""
        self.each = each
        """Of so many bins one is not empty."""
        self.now_ms = 0
        self.looks = AnalysisSchedule(AnalysisBudget(allowance_s=0.0))
        self.tracks = [Track(name, watching.begin(MS)) for name in names]
        monkeypatch.setattr(
            ExpectationTracker, "is_regular", lambda _, name: name not in self.other
        )
        for what, value in (("known", True), ("confident", True), ("settled", True)):
            monkeypatch.setattr(Track, what, value)
        monkeypatch.setattr(Track, "period_s", PERIOD_S)

    def run(self, seconds: float, cost_s: float = 0.001) -> list[tuple[float, AnalysisRequest]]:
        """When jobs were looked at, half a second after the other, and these looks."""
        found = []
        for _ in range(round(1000 * seconds / STEP_MS)):
            sent = np.arange(STEP_MS) % self.each == 0
            new = cells(series(sent, None, MS, self.now_ms * MS))
            self.now_ms += STEP_MS
            self.looks.add_reading(nothing(new.start_ns), {})
            for track in self.tracks:
                track.take(new)
            for look in self.looks.batch(self.tracks, self.now_ms * MS):
                self.looks.cost(look, cost_s)
                found.append((self.now_ms / 1000, look))
        return found


def test_who_goes_on_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    found = World(monkeypatch, "a").run(3 * MAX_UNCHANGED_WAIT_S)
    assert [at_s for at_s, _ in found] == [
        MAX_UNCHANGED_WAIT_S,
        2 * MAX_UNCHANGED_WAIT_S,
        3 * MAX_UNCHANGED_WAIT_S,
    ]
    assert all(look.thorough for _, look in found)
    found = World(monkeypatch, "a", each=1).run(2 * MAX_UNCHANGED_DENSE_WAIT_S)
    assert [at_s for at_s, _ in found] == [
        MAX_UNCHANGED_DENSE_WAIT_S,
        2 * MAX_UNCHANGED_DENSE_WAIT_S,
    ]
    assert all(look.thorough for _, look in found)


def test_who_does_not_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, "ab")
    world.run(5)
    world.other = "b"
    ((first, look),) = world.run(2)
    assert (first, look.track.name) == (5 + STEP_MS / 1000, "b")


def test_those_of_little_doubt_are_looked_at_thoroughly_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, "abc")
    world.other = "abc"
    found = world.run(100, 0.0)
    times_s = [at_s for at_s, look in found if look.thorough]
    assert len(times_s) >= 100 / (CONFIDENT_INTERVAL_S + MAX_WAIT_S)
    assert np.diff(times_s).min() >= CONFIDENT_INTERVAL_S
    assert any(not look.thorough for _, look in found)


def test_such_looks_have_a_share_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    world, cost_s = World(monkeypatch, "abc"), 0.02
    world.other = "abc"
    seconds = 600
    found = world.run(seconds, cost_s)
    early = [at_s for at_s, look in found if look.account is Account.EARLY]
    spent_s, owed_s = cost_s * len(early), MAX_SAVED_S + Account.EARLY.value * seconds
    assert owed_s / 2 < spent_s <= owed_s + 3 * cost_s
    assert not any(look.thorough for _, look in found if look.account is Account.EARLY)
    # When it is used up none waits for longer than it may.
    for name in "abc":
        times_s = [at_s for at_s, look in found if look.track.name == name]
        assert MAX_WAIT_S - 0.5 <= np.diff(times_s).max() <= MAX_WAIT_S


@pytest.mark.parametrize("others", [1, 30])
def test_the_more_there_are_the_longer_each_waits(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    world = World(monkeypatch, "".join(chr(65 + n) for n in range(others)))
    world.other = "".join(track.name for track in world.tracks)
    first, _ = world.run(MAX_WAIT_S, 0.0)[0]
    assert first == max(2 * PERIOD_S, MIN_BATCH_S, l.WAIT_PER_CHANGED_JOB_S * others)


def test_with_one_that_has_to_be_looked_at_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, "ab")
    world.tracks, later = world.tracks[:1], world.tracks[1]
    world.run((1 - COALESCE_UNCHANGED_AT) * MAX_UNCHANGED_WAIT_S)
    world.tracks.append(later)
    found = world.run(MAX_UNCHANGED_WAIT_S)
    assert {look.track.name for at_s, look in found if at_s == MAX_UNCHANGED_WAIT_S} == {"a", "b"}


def test_who_would_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, "ab")
    world.run(4)
    now_ns = world.now_ms * MS
    assert not world.looks.due(world.tracks, now_ns + int(MAX_UNCHANGED_WAIT_S - 4.5) * SECOND)
    assert len(world.looks.due(world.tracks, now_ns + int(MAX_UNCHANGED_WAIT_S - 4) * SECOND)) == 2
    world.other = "b"
    assert world.looks.due(world.tracks, now_ns) == world.tracks[1:]


def test_who_goes_on_passes_and_only_the_end_of_others_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, "ab")
    monkeypatch.setattr(
        ExpectationTracker, "regular_until_ns", lambda _, name: {"a": 7.0, "b": 8.0}[name]
    )
    told: list[str] = []
    monkeypatch.setattr(ExpectationTracker, "expect", lambda _, name, watch: told.append(name))
    found = [look for _, look in world.run(MAX_UNCHANGED_WAIT_S, 0.0)]
    assert [(look.track.name, look.thorough, look.skips) for look in found] == [
        ("a", True, False),
        ("b", False, True),
    ]
    assert [look.unchanged_until_ns for look in found] == [None, 8.0]
    assert told == ["a"]
    world.other = "b"
    (look,) = [look for _, look in world.run(2, 0.0)]
    assert (look.track.name, look.thorough, look.skips) == ("b", False, False)
    assert look.unchanged_until_ns == 8.0
    assert told == ["a", "b"]
