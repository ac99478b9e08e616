"""What makes paths doubtful."""

from __future__ import annotations

import pytest

from hostcc.daemon.rdma.pairs import Pair, Sender
from hostcc.daemon.rdma.path_doubts import AGAIN, FAILED, PathDoubts

pytestmark = pytest.mark.unit
HERE, OTHER, THERE = "198.18.1.1", "198.18.1.2", "198.18.2.1"


def sender(*errors: int) -> Sender:
    ends = ((7, "mlx5_0", HERE), (8, "mlx5_1", OTHER))
    return Sender("a", 1, 0, 0, tuple(
        Pair(qpn, device, 1, source, THERE, 0, 0, 0, 0, 0, errors=count)
        for (qpn, device, source), count in zip(ends, errors, strict=True)
    ))  # fmt: skip


def test_only_news_counts() -> None:
    doubts = PathDoubts()
    assert doubts.take([sender(3, 0)], {"mlx5_0": 100, "mlx5_1": None}) == {}
    assert doubts.take([sender(3, 0)], {"mlx5_0": 100, "mlx5_1": None}) == {}
    assert doubts.take([sender(4, 0)], {"mlx5_0": 100}) == {(HERE, THERE): FAILED}
    assert doubts.take([sender(4, 0)], {"mlx5_0": 101}) == {(HERE, THERE): AGAIN}
    assert doubts.take([sender(4, 1)], {"mlx5_0": 102}) == {
        (HERE, THERE): AGAIN, (OTHER, THERE): FAILED
    }  # fmt: skip


def test_counters_that_begin_anew() -> None:
    """A NIC was reset, a process ended and its number came again."""
    doubts = PathDoubts()
    doubts.take([sender(5, 5)], {"mlx5_0": 100})
    assert doubts.take([sender(0, 0)], {"mlx5_0": 3}) == {}
    assert doubts.take([], {}) == {}
    assert doubts.take([sender(9, 9)], {"mlx5_0": 9}) == {}
