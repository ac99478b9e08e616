"""The built-in job's random sizes."""

import socket
from contextlib import closing
from itertools import islice

import pytest

from hostcc.lab.launch import Options, worker_orders
from hostcc.lab.scenario import JobSpec
from hostcc.lab.worker import Work, bursts, from_environment, varying_bytes

pytestmark = pytest.mark.unit


def work(monkeypatch: pytest.MonkeyPatch, rank: int, percent: float, bursts: int = 1) -> Work:
    job = JobSpec(name="a", comm_ms=1, bytes_jitter_percent=percent, flows=3, bursts=bursts)
    values = {
        "HOSTCC_JOB": "a",
        "HOSTCC_RANK": str(rank),
        "HOSTCC_PEERS": "198.18.1.2,198.18.2.2",
        "HOSTCC_PORT": "5000",
        "HOSTCC_LAB_WORKER": worker_orders(job, 1000, Options(1, "", 3)),
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return from_environment()


def test_both_ranks_draw_the_same_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, received = (
        list(islice(varying_bytes(work(monkeypatch, rank, 95)), 200)) for rank in (0, 1)
    )
    assert sent == received
    assert 50 <= min(sent) < 200
    assert 1800 < max(sent) <= 1950


def test_sizes_are_exact_without_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(islice(varying_bytes(work(monkeypatch, 0, 0)), 3)) == [1000] * 3


def test_bursts_carry_all_bytes_over_every_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = work(monkeypatch, 0, 0, bursts=4)
    with closing(socket.socket()) as link:
        parts = bursts(orders, [link] * 3, 1000)
    assert [len(burst) for burst in parts] == [3] * 4
    amounts = [count for burst in parts for _, count in burst]
    assert sum(amounts) == 1000
    assert max(amounts) - min(amounts) <= 2
