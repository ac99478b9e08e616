"""tools/trace-iterations on real traffic, beside a running agent and without one."""

from __future__ import annotations

import itertools
import time

import pytest

from tests.real import RealHost
from tests.tools.tracer import Tracer

pytestmark = pytest.mark.kernel

SIZES = (400_000, 300_000, 200_000)
PAUSE_S = 2.2
"""Half of it ends an iteration: longer than a busy machine keeps a sender from sending."""


def test_iterations_of_a_job(host: RealHost) -> None:
    host.start()
    train, other = host.talker("train", 7001), host.talker("other", 7002)
    with Tracer(
        "iterations", "--socket", str(host.socket), "--json", "--job", "train",
        "--silence", str(PAUSE_S / 2), "--count", str(len(SIZES)),
    ) as tracer:  # fmt: skip
        for size in SIZES:
            assert train.ask(f"send {size}") == "sent"
            other.ask("send 100000")
            time.sleep(PAUSE_S)
        assert tracer.end() == 0
        events = tracer.events
    assert [(event["job"], event["iteration"]) for event in events] == [
        ("train", 1),
        ("train", 2),
        ("train", 3),
    ]
    # The last bytes before a pause count when they are acknowledged.
    assert [event["bytes"] for event in events] == list(SIZES)
    assert events[0]["period_s"] is None
    for before, event in itertools.pairwise(events):
        assert event["period_s"] == pytest.approx(event["start_s"] - before["start_s"], abs=1e-4)
        assert event["period_s"] - before["communication_s"] >= PAUSE_S * 0.9


def test_lanes_without_an_agent_until_ctrl_c(host: RealHost) -> None:
    talker = host.talker("", 7001)
    options = ("--port", "stream=7001", "--window", "0.5", "--min-bytes", "1000")
    with Tracer("iterations", *options, "--silence", "0.1") as tracer:
        for _ in range(3):
            talker.ask("send 200000")
            time.sleep(0.3)
        tracer.wait(lambda: any("|" in line for line in tracer.lines))
        tracer.wait(lambda: any("#1 " in line for line in tracer.lines))
        assert tracer.interrupt() == 0
        lane = next(line for line in tracer.lines if "|" in line)
        said = "\n".join(tracer.said)
    assert lane.split()[0] == "stream"
    assert lane.count("|") == 2
    assert "Traceback" not in said
