"""The thread that looks at GPUs, with a driver that the test holds in its hands."""

from __future__ import annotations

import threading

import pytest

from hostcc.measure.gpu import poller as module
from hostcc.measure.gpu.poller import Poller
from hostcc.measure.gpu.readings import Gpu, Reading, Sample

pytestmark = [pytest.mark.unit, pytest.mark.slow]


class Scripted:
    """Gives one sample per permit."""

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.looks = 0
        self.seen = threading.Semaphore(0)
        self.closed = threading.Event()
        self.fail = False

    def sample(self) -> Sample:
        self.seen.release()
        self.permits.acquire()
        self.looks += 1
        if self.fail:
            raise RuntimeError("broken")
        return Sample((Reading(Gpu("x"), self.looks, self.looks + 1),))

    def close(self) -> None:
        self.closed.set()


def test_samples_come_in_order_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP", 3)
    driver = Scripted()
    poller = Poller(lambda: driver, 0.0)
    assert poller.take() == []
    poller.start()
    poller.start()  # once is enough
    for _ in range(5):
        driver.permits.release()
    for _ in range(6):
        assert driver.seen.acquire(timeout=30)
    taken = poller.take()
    assert [sample.readings[0].start_s for sample in taken] == [3, 4, 5]
    assert poller.why == ""
    assert poller.take() == []
    driver.permits.release(10)
    poller.stop(30)
    assert driver.closed.is_set()
    assert poller.why == "not started"


def test_a_hanging_driver_is_seen_and_left_alone() -> None:
    driver, now = Scripted(), [0.0]
    poller = Poller(lambda: driver, 0.0, clock=lambda: now[0])
    poller.start()
    assert driver.seen.acquire(timeout=30)
    seen = [poller.stalled]
    now[0] = 10.0
    assert [*seen, poller.stalled] == [False, True]
    assert not poller.stop(0.0)
    driver.permits.release()  # it answers at last
    assert driver.closed.wait(30)
    assert poller.take() == []


def test_a_defect_does_not_end_the_thread() -> None:
    driver = Scripted()
    driver.fail = True
    poller = Poller(lambda: driver, 0.0)
    poller.start()
    driver.permits.release()
    assert driver.seen.acquire(timeout=30)
    assert driver.seen.acquire(timeout=30)
    assert poller.why == "looking failed; see the log"
    driver.fail = False
    driver.permits.release()
    assert driver.seen.acquire(timeout=30)
    assert len(poller.take()) == 1
    driver.permits.release(10)
    assert poller.stop(30)
