"""Parts run by themselves and fail by themselves."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.answers.parts import GpuPart
from hostcc.answers.parts import Part as PartRow
from hostcc.bpf.loader.errors import BpfError
from hostcc.daemon import supervisor as parts_
from hostcc.daemon.supervisor import (
    RECHECK_S,
    RETRY_MAX_S,
    RETRY_MIN_S,
    WAKE_STEP_S,
    WAKE_TOLERANCE,
    Part,
    Supervisor,
    _PartRunner,
    in_thread,
    until_tick,
)
from hostcc.model import Difference
from tests.patience import eventually

pytestmark = pytest.mark.unit


class Toy:
    """A part that does as it is told."""

    every_s = 0.01

    def __init__(self, name: str) -> None:
        self.name = name
        self.why_off = ""
        self.fail: Exception | None = None
        self.calls: list[str] = []
        self.shown = PartRow()

    def disabled_reason(self) -> str:
        return self.why_off

    def start(self) -> None:
        self.calls.append("start")

    async def tick(self) -> None:
        self.calls.append("tick")
        if self.fail is not None:
            raise self.fail

    def stop(self) -> None:
        self.calls.append("stop")

    def verify(self) -> list[Difference]:
        if self.fail is not None:
            raise self.fail
        return [Difference(self.name, self.name, "a", "b")]

    def view(self) -> PartRow:
        return self.shown


@pytest.fixture
def toy() -> Toy:
    return Toy("toy")


def run_of(part: Part) -> _PartRunner:
    return _PartRunner(part, lambda: 0.0)


def row_of(run: _PartRunner) -> PartRow:
    row, block = run.status()
    assert block is None
    return row


def turn(run: _PartRunner) -> float:
    return asyncio.run(run.turn())


def test_a_failure_is_logged_once_shown_and_tried_again(
    toy: Toy, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("hostcc"), "propagate", True)
    run = run_of(toy)
    assert turn(run) == toy.every_s
    toy.fail = BpfError("no BTF here")
    waits = [turn(run) for _ in range(12)]
    assert waits[:3] == [RETRY_MIN_S, 2 * RETRY_MIN_S, 4 * RETRY_MIN_S]
    assert waits[-1] == RETRY_MAX_S
    assert row_of(run) == PartRow(name="toy", state="failed", reason="no BTF here")
    records = {id(record): record.getMessage() for record in caplog.records}
    assert list(records.values()) == ["part failed"]
    assert toy.calls.count("start") == toy.calls.count("stop") == 12
    toy.fail = None
    assert turn(run) == toy.every_s
    assert row_of(run).state == "running"


def test_what_is_off_is_stopped_and_says_why(toy: Toy) -> None:
    run = run_of(toy)
    turn(run)
    toy.why_off = "toy.enabled is false"
    assert turn(run) == RECHECK_S
    assert row_of(run) == PartRow(name="toy", state="off", reason="toy.enabled is false")
    assert turn(run) == RECHECK_S
    toy.why_off = ""
    turn(run)
    assert toy.calls == ["start", "tick", "stop", "start", "tick"]


def test_figures_and_a_reason_of_its_own(toy: Toy) -> None:
    run = run_of(toy)
    turn(run)
    toy.shown = GpuPart(gpus=3, reason="no driver")
    row = row_of(run)
    assert row == GpuPart(name="toy", state="running", gpus=3, reason="no driver")


def test_one_failing_leaves_the_others_alone() -> None:
    good, bad = Toy("good"), Toy("bad")
    bad.fail = ValueError("a defect")
    parts = Supervisor([bad, good])

    async def scene() -> None:
        parts.start()
        await eventually(lambda: good.calls.count("tick") >= 3)
        assert [d.id for d in await parts.verify()] == ["good"]
        assert [row.state for row, _ in parts.status()] == ["failed", "running"]
        await parts.stop()

    logging.getLogger("hostcc").addHandler(logging.NullHandler())
    asyncio.run(scene())
    assert good.calls[-1] == "stop"
    assert asyncio.run(parts.verify()) == []


def test_a_failing_check_is_a_difference(toy: Toy) -> None:
    run = run_of(toy)
    turn(run)
    toy.fail = OSError(5, "broken")
    assert "broken" in asyncio.run(run.verify())[0].found


def test_something_it_waits_for_that_is_given_up_does_not_end_it(toy: Toy) -> None:
    class Waiting(Toy):
        async def tick(self) -> None:
            await super().tick()
            if self.calls.count("tick") == 1:
                given_up = asyncio.get_running_loop().create_future()
                given_up.cancel()
                await given_up

    part = Waiting("waiting")
    run = run_of(part)
    assert turn(run) == RETRY_MIN_S
    assert row_of(run).state == "failed"
    turn(run)
    assert part.calls == ["start", "tick", "stop", "start", "tick"]


def test_a_wait_that_cannot_be_had_is_a_failure(toy: Toy) -> None:
    class Odd(Toy):
        @property
        def every_s(self) -> float:  # type: ignore[override]
            raise ZeroDivisionError

    assert turn(run_of(Odd("odd"))) == RETRY_MIN_S


def test_a_turn_that_takes_long_is_broken_off_before_the_part_is_stopped() -> None:
    class Slow(Toy):
        async def start(self) -> None:  # type: ignore[override]
            super().start()
            await asyncio.sleep(0)

        async def tick(self) -> None:
            self.calls.append("tick")
            try:
                await in_thread(held.wait)
            finally:
                self.calls.append("ticked")

        async def stop(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            super().stop()

    held, part = threading.Event(), Slow("slow")
    parts = Supervisor([part])

    async def scene() -> None:
        parts.start()
        await eventually(lambda: "tick" in part.calls)
        part.why_off = "rolled back"
        settled = asyncio.create_task(parts.stop_disabled())
        await asyncio.sleep(0.05)
        assert not settled.done()  # what the thread uses must not be gone
        held.set()
        await settled
        assert part.calls == ["start", "tick", "ticked", "stop"]
        part.why_off = ""
        parts.recheck()
        await eventually(lambda: part.calls[-1] == "ticked")
        await parts.stop()

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert part.calls[-1] == "stop"


def test_a_stop_that_was_broken_off_is_made_once_more() -> None:
    class Slow(Toy):
        async def stop(self) -> None:  # type: ignore[override]
            self.calls.append("stopping")
            await held.wait()
            super().stop()

    part, held = Slow("slow"), asyncio.Event()
    parts = Supervisor([part])

    async def scene() -> None:
        parts.start()
        await eventually(lambda: part.calls.count("tick"))
        part.why_off = "rolled back"
        parts.wake()
        await eventually(lambda: part.calls[-1] == "stopping")
        held.set()
        await parts.stop()

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert part.calls == ["start", "tick", "stopping", "stopping", "stop"]


def test_a_part_that_fails_wherever_keeps_no_other_from_being_stopped(toy: Toy) -> None:
    class Odd(Toy):
        @property
        def every_s(self) -> float:  # type: ignore[override]
            raise ZeroDivisionError

    parts = Supervisor([toy, Odd("odd")])

    async def scene() -> None:
        parts.start()
        await eventually(lambda: toy.calls.count("tick"))
        await parts.stop()

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert toy.calls[-1] == "stop"


def test_what_is_to_be_off_stops_at_once(toy: Toy) -> None:
    run = run_of(toy)
    turn(run)
    asyncio.run(run.stop_disabled())
    assert run.running
    toy.why_off = "rolled back"
    asyncio.run(run.stop_disabled())
    assert (run.running, toy.calls[-1], row_of(run).reason) == (False, "stop", "rolled back")


def test_what_may_run_again_begins_when_it_is_asked(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_, "RECHECK_S", 3600.0)
    toy.why_off = "rolled back"
    parts = Supervisor([toy])

    async def scene() -> None:
        parts.recheck()
        parts.start()
        await asyncio.sleep(0.01)
        assert parts.status()[0][0].reason == "rolled back"
        parts.recheck()
        toy.why_off = ""
        await asyncio.sleep(0.01)
        parts.recheck()
        for _ in range(100):
            await asyncio.sleep(0)
        await parts.stop()

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert toy.calls[0] == "start"
    assert toy.calls[-1] == "stop"


def test_all_have_their_turn_when_they_are_woken() -> None:
    toys = [Toy("first"), Toy("second")]
    for toy in toys:
        toy.every_s = 3600.0
    parts = Supervisor(toys)

    async def ticks() -> list[int]:
        for _ in range(100):  # until all wait for their next turn
            await asyncio.sleep(0)
        return [toy.calls.count("tick") for toy in toys]

    async def scene() -> None:
        parts.wake()  # nothing runs yet
        parts.start()
        for number in range(1, 4):
            assert await ticks() == [number] * 2
            parts.wake()
        assert await ticks() == [4, 4]
        parts.wake("second", "none")
        assert await ticks() == [4, 5]
        await parts.stop()

    asyncio.run(asyncio.wait_for(scene(), 60))


@pytest.mark.parametrize(
    ("wait_s", "step_s"), [(0.25, WAKE_STEP_S / 2), *((s, WAKE_STEP_S) for s in (0.5, 1.0, 10.0))]
)
def test_turns_fall_together(wait_s: float, step_s: float) -> None:
    # Whenever they began, and although each turn takes a while.
    at_s = [100.0, 100.04, 100.3]
    for _ in range(200):
        at_s = [now_s + until_tick(wait_s, now_s + took_s) + took_s
                for now_s, took_s in zip(at_s, (0.001, 0.004, 0.002), strict=True)]  # fmt: skip
    phases = [(now_s / step_s) % 1 for now_s in at_s]
    assert max(phases) - min(phases) < 1e-6


@given(st.floats(0.001, 300), st.floats(0, 1e6))
def test_nobody_waits_much_longer_or_shorter_than_asked(wait_s: float, now_s: float) -> None:
    assert until_tick(wait_s, now_s) == pytest.approx(wait_s, rel=WAKE_TOLERANCE + 1e-3, abs=1e-6)
