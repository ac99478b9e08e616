"""The built-in job's random sizes."""

import socket
from contextlib import closing
from itertools import islice

import msgspec
import pytest

from hostcc.lab.launch import Options, worker_orders
from hostcc.lab.scenario import JobSpec
from hostcc.lab.worker import Work, bursts, from_environment, varying_bytes

pytestmark = pytest.mark.unit


def work(
    monkeypatch: pytest.MonkeyPatch, rank: int, percent: float, bursts: int = 1, **keys: float
) -> Work:
    settings = {"bytes_jitter_percent": percent, "bursts": bursts, **keys}
    job = msgspec.convert({"name": "a", "comm_ms": 1, "flows": 3, **settings}, JobSpec)
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


def test_sizes_change_from_an_iteration_on(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = work(monkeypatch, 0, 0, change_at_iteration=3, change_bytes_factor=2.5)
    assert list(islice(varying_bytes(orders), 4)) == [1000, 1000, 2500, 2500]
    assert [orders.bytes_in(at) for at in (1, 2, 3)] == [1000, 1000, 2500]
    assert orders.change_pause_s == 0


def test_bursts_carry_all_bytes_over_every_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = work(monkeypatch, 0, 0, bursts=4)
    with closing(socket.socket()) as link:
        parts = bursts(orders, [link] * 3, 1000)
    assert [len(burst) for burst in parts] == [3] * 4
    amounts = [count for burst in parts for _, count in burst]
    assert sum(amounts) == 1000
    assert max(amounts) - min(amounts) <= 2
