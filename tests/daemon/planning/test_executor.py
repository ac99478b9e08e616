"""Plans in a thread of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from hostcc.daemon.planning.executor import THREAD_NICE, PlanThread, _give_way
from hostcc.errors import InputError
from hostcc.model import Plan


class Times:
    """A clock, and a processor of which every plan takes `cost` seconds."""

    def __init__(self) -> None:
        self.at, self.used, self.cost = 1000.0, 0.0, 0.0

    def clock(self) -> float:
        return self.at

    def processor(self) -> float:
        # Asked before and after each plan.
        self.used += self.cost
        return self.used


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def thread(times: Times) -> Iterator[PlanThread]:
    made = PlanThread(times.clock, times.processor)
    yield made
    made.close()


def test_another_thread_makes_the_plan(thread: PlanThread) -> None:
    where: list[int] = []

    def work() -> Plan:
        where.append(threading.get_ident())
        return Plan("a")

    pending = thread.submit(work)
    assert pending is not None
    assert pending.result(timeout=10).digest == "a"
    assert where != [threading.get_ident()]


def test_an_agent_that_gives_way_more_still_plans() -> None:
    """Nobody without CAP_SYS_NICE goes back, and the unit leaves the agent none."""
    found: list[int] = []

    def look() -> None:
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, 19)
        _give_way()
        found.append(os.getpriority(os.PRIO_PROCESS, thread))

    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert found == [19]


def test_after_a_long_plan_the_next_has_to_wait(thread: PlanThread, times: Times) -> None:
    times.cost = 6.04
    pending = thread.submit(lambda: Plan("a"))
    assert pending is not None
    pending.result(timeout=10)
    assert thread.submit(lambda: Plan("b")) is None
    times.at += 3.9
    assert thread.submit(lambda: Plan("b")) is None
    times.at += 0.2
    assert thread.submit(lambda: Plan("b")) is not None


def test_a_plan_that_fails_costs_as_well(thread: PlanThread, times: Times) -> None:
    def work() -> Plan:
        raise InputError("view: expected something else")

    times.cost = 7.0
    pending = thread.submit(work)
    assert pending is not None
    with pytest.raises(InputError):
        pending.result(timeout=10)
    assert thread.submit(work) is None


def test_jobs_come_first_where_processors_are_scarce(thread: PlanThread) -> None:
    found: list[int] = []

    def nice() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def work() -> Plan:
        found.append(nice())
        return Plan("a")

    before = nice()
    pending = thread.submit(work)
    assert pending is not None
    pending.result(timeout=10)
    assert found == [max(THREAD_NICE, os.getpriority(os.PRIO_PROCESS, 0))]
    assert nice() == before


def test_by_itself_it_measures_what_the_work_takes() -> None:
    thread = PlanThread()
    pending = thread.submit(lambda: Plan("a"))
    assert pending is not None
    assert pending.result(timeout=10).digest == "a"
    assert thread.submit(lambda: Plan("b")) is not None
    thread.close()
