"""Queues there and back, told apart by the peer's time stamps."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import meter_stage, one_way
from benchmarks.context import Context
from benchmarks.one_way_delay import MIN_TICKS, Segments, queues, round_trips, true_delays
from benchmarks.one_way_stage import Burst, Stage
from hostcc.errors import HostccError
from hostcc.lab import cgroup, netns
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.errors import LabError
from tests.mltcp.stage import attempts

Column = np.ndarray | int


def segments(at_s: np.ndarray, end: Column, ack: Column = 0, tsval: Column = 0) -> Segments:
    """Segments, numbered one by one; data of 10 bytes each unless they acknowledge something."""
    whole = np.zeros(len(at_s), np.int64)
    size = 10 if isinstance(ack, int) else 0
    return Segments(
        at_s, whole + end, whole + size, whole + ack, whole + tsval, np.arange(len(at_s))
    )


def exchange(there_s: np.ndarray, back_s: np.ndarray) -> tuple[Segments, Segments]:
    """A segment each 0.2 ms, and its acknowledgement, which waits so long on either way.

    The peer's clock is an hour ahead.
    """
    count = len(there_s)
    sent_s = 10 + 0.0002 * np.arange(count)
    ends = 1000 * np.arange(1, count + 1)
    acked_s = sent_s + 0.0005 + there_s
    ticks = np.floor((acked_s + 3600) * 1000).astype(np.int64)
    return (
        segments(sent_s, ends),
        segments(acked_s + 0.0005 + back_s, 0, ends, ticks),
    )


@pytest.mark.unit
@pytest.mark.parametrize("way", ["there", "back", "both"])
def test_each_queue_is_seen_where_it_is(way: str) -> None:
    grows = np.concatenate([np.zeros(500), 0.01 * np.linspace(0, 1, 1500)])
    there_s = grows if way != "back" else 0 * grows
    back_s = grows if way != "there" else 0 * grows
    sent, acks = exchange(there_s, back_s)
    told, data = queues(sent, acks)
    assert len(told.at_s) > 300
    assert told.round_trip_s == pytest.approx((there_s + back_s)[data], abs=1e-9)
    assert told.there_s == pytest.approx(there_s[data], abs=0.0003), "a packet's spacing"


@pytest.mark.unit
def test_what_was_sent_twice_gives_no_round_trip() -> None:
    sent = segments(np.array([1.0, 1.1, 1.2, 1.3]), np.array([10, 20, 30, 20]))
    acks = segments(np.array([1.05, 1.4, 1.5]), 0, np.array([10, 20, 30]))
    which, data = round_trips(sent, acks)
    assert which.tolist() == [0, 2]
    assert data.tolist() == [0, 2]


@pytest.mark.unit
def test_sequence_numbers_begin_anew() -> None:
    most = 1 << 32
    sent = segments(np.array([1.0, 1.1, 1.2]), np.array([most - 10, most, 10]))
    acks = segments(np.array([1.05, 1.15, 1.25]), 0, np.array([most - 10, 0, 10]))
    which, data = round_trips(sent, acks)
    assert which.tolist() == data.tolist() == [0, 1, 2]


@pytest.mark.unit
def test_who_has_seen_nothing_tells_nothing() -> None:
    nothing = segments(np.empty(0), np.empty(0, int))
    told, _ = queues(nothing, nothing)
    assert len(told.at_s) == 0
    sent = segments(np.array([1.0]), np.array([10]))
    assert true_delays(sent, nothing) == pytest.approx([np.nan], nan_ok=True)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("since_s", "silent_s"),
    [(0.0, 1.0), (1.0, 0.0), (1.5, 0.0), (3.0, 2.0), (4.5, 0.5), (5.5, 0.0)],
)
def test_a_burst_is_silent_between_its_periods(since_s: float, silent_s: float) -> None:
    assert Burst(1.0, 3.0, first_s=1.0).silent_s(since_s) == silent_s
    assert Burst().silent_s(since_s) == 0.0


@pytest.mark.unit
def test_a_repeated_acknowledgement_counts_once() -> None:
    sent = segments(np.array([1.0, 1.1]), np.array([10, 20]))
    acks = segments(np.array([1.05, 1.06, 1.2]), 0, np.array([10, 10, 20]))
    assert round_trips(sent, acks)[0].tolist() == [0, 2]


@pytest.mark.unit
def test_a_few_ticks_say_nothing() -> None:
    quiet = np.zeros(5 * MIN_TICKS - 5)
    told, data = queues(*exchange(quiet, quiet))
    assert len(told.at_s) == len(data) == 0


@pytest.mark.unit
def test_what_never_arrived_has_no_delay() -> None:
    sent = segments(np.array([1.0, 2.0, 3.0]), np.array([10, 20, 30]))
    some = [0, 2]
    seen = Segments(*(getattr(sent, name)[some] for name in Segments.__dataclass_fields__))
    seen = replace(seen, at_s=seen.at_s + 0.5)
    assert true_delays(sent, seen) == pytest.approx([0.5, np.nan, 0.5], nan_ok=True)


@pytest.mark.kernel
def test_a_full_queue_on_the_way_back_is_not_taken_for_ones_own() -> None:
    with Stage() as stage:

        def scene() -> None:
            found = one_way.measure(stage, "back", 1.5)
            assert found.round_trip_s > 0.004, "the other connection fills 14 ms"
            assert found.told_s < found.round_trip_s / 2
            assert found.true_s < found.round_trip_s / 2

        attempts(scene)  # what stands still with its packets makes them wait on every way


@pytest.mark.unit
def test_a_case_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    good = one_way.Figures(100, 0.01, 0.002, 0.002, 0.0001, 0.0002, 0.008)

    def measure(_stage: object, name: str, _seconds: float) -> one_way.Figures:
        if name == "back":
            raise HostccError("too few acknowledgements were seen")
        return good

    monkeypatch.setattr(one_way, "Stage", nullcontext)
    monkeypatch.setattr(one_way, "measure", measure)
    args = argparse.Namespace(cases=("back", "there"), seconds=1.0)
    record = one_way.run(args, Context(2, None))
    assert [row["case"] for row in record.rows] == ["there"]
    assert [goal.passing for goal in record.goals] == [2]
    assert record.failures == [
        f"back, run {number}: too few acknowledgements were seen" for number in (1, 2)
    ]


@pytest.mark.unit
def test_stages_that_cannot_begin_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise LabError("no such control")

    closed: list[Dumbbell] = []

    def close(self: Dumbbell) -> None:
        closed.append(self)

    monkeypatch.setattr(Dumbbell, "__enter__", lambda self: self)
    monkeypatch.setattr(Dumbbell, "close", close)
    monkeypatch.setattr(Dumbbell, "set_congestion_control", refuse)
    with pytest.raises(LabError, match="no such control"), Stage():
        pass
    assert len(closed) == 1

    make = cgroup.create
    monkeypatch.setattr(meter_stage, "find_mount", lambda: tmp_path)
    monkeypatch.setattr(netns, "exists", lambda _: False)
    monkeypatch.setattr(
        cgroup, "create", lambda path: (refuse if "job" in path.name else make)(path)
    )
    with pytest.raises(LabError, match="no such control"), meter_stage.Stage(1):
        pass
    assert not [*tmp_path.iterdir()]
