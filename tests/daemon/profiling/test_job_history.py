"""The history of an agent's jobs: what is sampled, in which mode, and what is answered."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hostcc.client import RefusedError
from hostcc.daemon import preflight
from hostcc.daemon.agent import Agent
from hostcc.daemon.profiling.job_history import HistoryKeeper
from tests.hosts import Ask, Host, play

pytestmark = pytest.mark.unit


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(preflight, "missing", lambda root: [])
    return Host(tmp_path)


def keeper_of(agent: Agent) -> tuple[HistoryKeeper, Clock]:
    """The agent's history, on a clock of the test's."""
    clock, keeper = Clock(), agent.roster.history
    keeper._clock = clock
    return keeper, clock


def test_rates_and_iteration_times(host: Host) -> None:
    agent = host.agent()
    keeper, clock = keeper_of(agent)

    async def body(request: Ask) -> None:
        await request("register", job="a")
        host.join("a")
        state = host.backends[0].states[1]
        for step in range(25):
            state["bytes_acked"] = step * 5_000_000
            await keeper.tick()
            clock.now_s += 1.0
        answer = await request("history", points=3)
        assert (answer["step_s"], answer["total"]) == (10.0, 1)
        (row,) = answer["jobs"]
        assert row["name"] == "a"
        assert row["sent"] == [None, 5e6, 5e6]
        assert row["iteration_s"] == [None, None, None]
        fine = await request("history", fine=True, points=4)
        assert fine["jobs"][0]["sent"] == pytest.approx([5e6] * 4)
        assert [one["mode"] for one in answer["modes"]] == ["mltcp"]
        await request("unfair", mode="off")
        await keeper.tick()
        assert [one["mode"] for one in (await request("history"))["modes"]] == ["mltcp", "off"]
        with pytest.raises(RefusedError, match="no job b in the last 3610 s here"):
            await request("history", job="b")

    play(agent, body)


def test_mode_off_is_measured_and_compared_with(host: Host) -> None:
    agent = host.agent()
    keeper, clock = keeper_of(agent)
    began, sent = clock.now_s, 400.0

    def known(name: str) -> Any:
        """Iterations of 0.4 s, begun before mode off, too."""
        begins_ns = 1e9 * np.arange(began - 20, clock.now_s, 0.4)
        measured = SimpleNamespace(
            fold=SimpleNamespace(begins_ns=begins_ns), confidence=0.9, irregular=False,
            communication_start_s=0.2, link_time_s=0.1, mean_period_s=0.4, period_s=0.4,
            tx_bytes=sent, background_bytes_per_s=0.0,
        )  # fmt: skip
        return SimpleNamespace(measured=measured, track=SimpleNamespace(alone_s=0.0))

    async def body(request: Ask) -> None:
        nonlocal sent
        await request("register", job="a")
        host.join("a")
        traffic = agent.roster.measurement.traffic
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(traffic, "sent", lambda: {"a": (round(clock.now_s) * 1000, clock.now_s)})
            patch.setattr(traffic, "known", known)
            patch.setattr(traffic, "iteration", lambda _: None)
            await request("unfair", mode="off")
            for _ in range(30):
                await keeper.tick()
                clock.now_s += 1.0
            (row,) = (await request("status"))["jobs"]
            assert row["off_s"] == pytest.approx(0.4)
            assert row["alone_s"] == pytest.approx(0.3)
            assert row["alone_how"] == "200 ms of silence and t = 100 ms on this host's links"
            (told,) = (await request("history", points=2))["jobs"]
            assert told["sent"] == pytest.approx([1000.0, 1000.0])
            assert told["iteration_s"] == [None, pytest.approx(0.4)]  # ten seconds are looked at
            await request("unfair", mode="mltcp")
            await keeper.tick()
            clock.now_s += 1000.0
            await keeper.tick()
            (row,) = (await request("status"))["jobs"]
            assert row["off_s"] == pytest.approx(0.4)  # still what was then
            sent = 1200.0
            (row,) = (await request("status"))["jobs"]
            assert row["off_s"] is None  # these are other iterations

    play(agent, body)


def test_bytes_that_come_late_are_no_peak(host: Host) -> None:
    agent = host.agent()
    keeper, clock = keeper_of(agent)
    sent = {"a": (0, 0.0)}

    async def body(request: Ask) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(agent.roster.measurement.traffic, "sent", lambda: dict(sent))
            for second in range(31):
                begin = clock.now_s - second % 5
                sent["a"] = (second // 5 * 5000, begin)  # handed over every five seconds
                await keeper.tick()
                clock.now_s += 1.0
            (row,) = (await request("history", fine=True, points=30))["jobs"]
            rates = {rate for rate in row["sent"] if rate is not None}
            assert rates == {1000.0}
            (row,) = (await request("history", points=2))["jobs"]
            assert row["sent"] == pytest.approx([1000.0, 1000.0])

    play(agent, body)
