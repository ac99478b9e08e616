"""Rates out of counters: what is told of them changes with the traffic, not with each reading."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from hostcc.coord.core.payloads import Flows
from hostcc.daemon.gossip.hysteresis import CONFIRM_S, GUESS_FACTOR
from hostcc.daemon.gossip.rdma_profiles import merged
from hostcc.daemon.rdma import queue_pair_records
from hostcc.daemon.rdma.pairs import Pair, Sender
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute, view
from hostcc.daemon.rdma.rates import WINDOW_S, Rates
from hostcc.daemon.steering import rdma_flows
from tests.daemon.rdma.test_queue_pair_flows import DST, SRC, TABLE, way

pytestmark = pytest.mark.unit
GB = 10**9


def sender(job: str, sent: int, pid: int = 1, qpn: int = 7) -> Sender:
    return Sender(job, pid, 0, 0, (Pair(qpn, "mlx5_0", 1, SRC, DST, 0, 0, sent, 0, 0),))


class Job:
    """Looked at once a second."""

    def __init__(self, job: str = "a") -> None:
        self.job, self.rates = job, Rates()
        self.sent, self.at = 5 * GB, 0

    def look(self, size: float = 0.0) -> float:
        """What is told after another second in which so many bytes were sent."""
        self.sent += int(size)
        self.at += 1
        return self.rates.take([sender(self.job, self.sent)], float(self.at))[way(self.job)]


def test_what_was_sent_before_the_first_look_says_nothing() -> None:
    job = Job()
    assert job.look() == 0.0
    assert job.look(GB) == GB


def test_counters_that_begin_anew_and_ways_that_end() -> None:
    job = Job()
    told = [job.look(GB) for _ in range(3)]
    job.sent = 0
    assert job.look(5.0) == told[-1]
    assert job.rates.take([], 5.0) == {}


def test_another_queue_pair_of_a_way_is_counted_from_then_on() -> None:
    rates = Rates()
    rates.take([sender("a", 0)], 0.0)
    both = [sender("a", GB), sender("a", 90 * GB, qpn=8)]
    assert rates.take(both, 1.0) == {way("a"): GB}


def told_to_others(
    rates: dict[QueuePairRoute, float], before: dict[str, Flows]
) -> dict[str, Flows]:
    more = queue_pair_records.shared_flows(rates, {(SRC, DST): TABLE}, {}, {}, {}, {})
    ends = dict.fromkeys(more.tables, "far")
    return rdma_flows.flows({}, more, ends, before, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_readings_that_jitter_are_one_view(seed: int) -> None:
    rng = random.Random(seed)
    rates, sent = Rates(), dict.fromkeys("ab", 0)
    views, told, last = [], [], dict[str, Flows]()
    for at in range(102):
        for job, size in (("a", GB), ("b", GB // 3)):
            sent[job] += int(size * rng.uniform(0.9, 1.1))
        now = rates.take([sender("a", sent["a"]), sender("b", sent["b"], pid=2)], float(at))
        last = told_to_others(now, last)
        seen = view(now, {(SRC, DST): TABLE}, {}, {}, {}, {}, {})
        if at > 1:
            views.append(seen)
            told.append((last, merged((), queue_pair_records.rates_by_job(now), {})))
    assert len(views) == 100
    assert all(one == views[0] for one in views)
    assert all(one == told[0] for one in told)
    assert {flow.job for flow in views[0].flows} == {"a", "b"}


def bursts(period: int, length: int) -> Callable[[int], float]:
    """A job that sends for `length` of every `period` seconds, a gigabyte a second on average."""
    return lambda at: GB * period / length if at % period < length else 0.0


@pytest.mark.parametrize(("period", "length"), [(2, 1), (5, 2), (7, 1), (10, 3)])
def test_iterations_of_seconds_are_one_rate(period: int, length: int) -> None:
    """Once the mean is over some of them."""
    job, sends = Job(), bursts(period, length)
    told = [job.look(sends(at)) for at in range(200)][int(WINDOW_S) :]
    assert len(set(told)) == 1
    assert GB / GUESS_FACTOR < told[0] < GB * GUESS_FACTOR


@pytest.mark.parametrize("factor", [0.1, 0.5, 1.6, 2.0, 10.0])
def test_a_real_change_is_told_within_its_bound(factor: float) -> None:
    job = Job()
    for _ in range(40):
        job.look(GB)
    told = [job.look(factor * GB) for _ in range(int(WINDOW_S + CONFIRM_S) + 60)]
    late = told[int(WINDOW_S + CONFIRM_S) + 1 :]
    assert len(set(late)) == 1  # and stays
    assert factor * GB / GUESS_FACTOR < late[0] < factor * GB * GUESS_FACTOR
    assert len(set(told)) <= 6


def test_ten_times_the_traffic_is_seen_soon() -> None:
    job = Job()
    before = [job.look(GB) for _ in range(40)]
    after = [job.look(10 * GB) for _ in range(6)]
    assert after[-1] > GUESS_FACTOR * before[-1]


def test_what_is_sent_lately_is_not_held() -> None:
    job = Job()
    for _ in range(40):
        job.look(GB)
    told = [job.look(3 * GB) for _ in range(4)]
    assert told[-1] == GB
    assert job.rates.lately == {way("a"): 3 * GB}


def test_who_stops_is_forgotten_and_who_begins_is_told_at_once() -> None:
    job = Job()
    assert not any(job.look(0.0) for _ in range(10))
    assert job.look(GB) > 0.0
    told = [job.look(0.0) for _ in range(int(WINDOW_S + CONFIRM_S) + 2)]
    assert told[-1] == 0.0
