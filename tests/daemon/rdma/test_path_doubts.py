"""What makes paths doubtful."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.daemon.rdma.pairs import Pair, Sender
from hostcc.daemon.rdma.path_doubts import (
    AGAIN,
    FAILED,
    LEAST_STILL_S,
    STANDS,
    STILL_S,
    USUAL_TIMES,
    PathDoubts,
    still_s,
)
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute

pytestmark = pytest.mark.unit
HERE, OTHER, THERE = "198.18.1.1", "198.18.1.2", "198.18.2.1"


def sender(*errors: int, open_at: float = 0.0) -> Sender:
    ends = ((7, "mlx5_0", HERE), (8, "mlx5_1", OTHER))
    return Sender("a", 1, 0, 0, tuple(
        Pair(qpn, device, 1, source, THERE, 0, 0, 0, 0, 0, errors=count,
             open_at=open_at if qpn == 7 else 0.0)
        for (qpn, device, source), count in zip(ends, errors, strict=True)
    ))  # fmt: skip


def test_only_news_counts() -> None:
    doubts = PathDoubts()
    assert doubts.take([sender(3, 0)], {"mlx5_0": 100, "mlx5_1": None}, 1.0).ends == {}
    assert doubts.take([sender(3, 0)], {"mlx5_0": 100, "mlx5_1": None}, 2.0).ends == {}
    assert doubts.take([sender(4, 0)], {"mlx5_0": 100}, 3.0).ends == {(HERE, THERE): FAILED}
    assert doubts.take([sender(4, 0)], {"mlx5_0": 101}, 4.0).ends == {(HERE, THERE): AGAIN}
    assert doubts.take([sender(4, 1)], {"mlx5_0": 102}, 5.0).ends == {
        (HERE, THERE): AGAIN, (OTHER, THERE): FAILED
    }  # fmt: skip


def test_queue_pairs_of_two_devices_with_one_number() -> None:
    """Each device numbers its own."""
    doubts, both = PathDoubts(), sender(3, 0)
    one, other = both.pairs
    both = replace(both, pairs=(one, replace(other, qpn=one.qpn)))
    doubts.take([both], {}, 1.0)
    assert doubts.take([both], {}, 2.0).ends == {}


def test_counters_that_begin_anew() -> None:
    """A NIC was reset, a process ended and its number came again."""
    doubts = PathDoubts()
    doubts.take([sender(5, 5)], {"mlx5_0": 100}, 1.0)
    assert doubts.take([sender(0, 0)], {"mlx5_0": 3}, 2.0).ends == {}
    assert doubts.take([], {}, 3.0).ends == {}
    assert doubts.take([sender(9, 9)], {"mlx5_0": 9}, 4.0).ends == {}


def test_what_stands_still_is_doubtful_and_stalled_where_the_device_sends_again() -> None:
    """A program that polls late seems to stand still, too."""
    doubts, route = PathDoubts(), QueuePairRoute("a", "mlx5_0", HERE, THERE)
    doubts.take([sender(0, 0, open_at=9.9)], {"mlx5_0": 100}, 10.0)
    found = doubts.take([sender(0, 0, open_at=9.9)], {"mlx5_0": 100}, 9.9 + STILL_S)
    assert (found.ends, found.stalled) == ({(HERE, THERE): STANDS}, frozenset())
    assert found.standing == {route}
    found = doubts.take([sender(0, 0, open_at=9.9)], {"mlx5_0": 101}, 11.0)
    assert (found.ends, found.stalled) == ({(HERE, THERE): AGAIN}, frozenset({route}))
    found = doubts.take([sender(0, 0, open_at=9.9)], {"mlx5_0": 101}, 12.0)
    assert (found.ends, found.stalled) == ({(HERE, THERE): STANDS}, frozenset({route}))
    found = doubts.take([sender(0, 0, open_at=12.1)], {"mlx5_0": 101}, 13.0)  # it went on
    assert (found.ends, found.stalled) == ({(HERE, THERE): STANDS}, frozenset())
    assert doubts.take([sender(0, 0)], {"mlx5_0": 101}, 14.0).ends == {}


@pytest.mark.parametrize(
    ("messages", "each_s", "expected"),
    [
        (0, 0.0, STILL_S),
        (1000, 1e-4, LEAST_STILL_S),
        (10, 0.03, USUAL_TIMES * 0.03),
        (10, 2.0, STILL_S),
    ],
)
def test_what_counts_as_standing_still_follows_the_usual_message(
    messages: int, each_s: float, expected: float
) -> None:
    (one, _) = sender(0, 0).pairs
    pair = replace(one, completed=messages, busy_s=messages * each_s)
    assert still_s(pair) == pytest.approx(expected)
