"""tools/trace-windows: what it says of a job's sockets is what the agent and the kernel say."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.patience import Patience
from tests.real import RealHost
from tests.tools.tracer import Tracer

pytestmark = pytest.mark.kernel

ITERATION = 1_000_000
SILENCE = '[mltcp]\nvariant = "cubic"\nsilence_us = 200000\n'
"""Over loopback, where the variant hostcc is plain."""


def newest(host: RealHost, tracer: Tracer) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job's flow to port 7001 as the agent has it, and what is traced of it from now on."""
    flows = host.json("flows", "--job", "train")["flows"]
    (sender,) = [flow for flow in flows if flow["remote"].endswith(":7001")]
    seen = len(tracer.events)
    tracer.wait(lambda: len(tracer.events) > seen + 4)
    return sender, tracer.matching(1, local=sender["local"])[-1]


def test_ratio_and_f_of_a_job(host: RealHost) -> None:
    host.start(SILENCE)
    talker = host.talker("train", 7001)
    host.talker("other", 7002)
    options = ("--socket", str(host.socket), "--json", "--idle", "--interval", "0.05")
    with Tracer("windows", *options, "--job", "train") as tracer:
        patience = Patience(60)
        while True:  # on a busy machine a send may pause, and the job learns for longer
            for size in (*[ITERATION] * 4, ITERATION * 3 // 5):
                assert talker.ask(f"send {size}") == "sent"
                time.sleep(0.5)
            sender, sample = newest(host, tracer)
            if sample["bytes_ratio"] == 0.6 and sample["stance"] == "scaled":
                break
            assert patience.lasts(), sample
        events = tracer.events
    assert {event["job"] for event in events} == {"train"}
    assert {event["netns"] for event in events} == {host.name}
    for key in ("remote", "congestion_control", "mss_bytes"):
        assert sample[key] == sender[key]
    assert sample["bytes_acked"] <= sender["bytes_acked"]
    assert sample["cwnd_packets"] >= 1
    assert sample["mode"] == "mltcp"
    assert sample["f"] == pytest.approx(1.75 * 0.6 + 0.25, abs=1e-3)
    assert all(0 <= event["bytes_ratio"] <= 1 for event in events)


def test_ratio_of_each_flow(host: RealHost) -> None:
    """With ratio_scope "flow" a socket's own bytes count, whatever its job has sent besides."""
    host.start(SILENCE + 'ratio_scope = "flow"\n')
    first, second = (host.talker("train", port) for port in (7001, 7002))
    options = ("--socket", str(host.socket), "--json", "--idle", "--interval", "0.05")
    with Tracer("windows", *options, "--job", "train") as tracer:
        patience = Patience(60)
        while True:  # on a busy machine a send may pause, and the job learns for longer
            for _ in range(4):
                assert first.ask(f"send {ITERATION}") == "sent"
                assert second.ask(f"send {3 * ITERATION}") == "sent"
                time.sleep(0.5)
            assert first.ask(f"send {ITERATION * 9 // 10}") == "sent"
            time.sleep(0.5)
            _, sample = newest(host, tracer)
            # Of its own iteration 0.9, less what the last ACK was about; of the job's it is 0.225.
            if 0.75 <= sample["bytes_ratio"] <= 0.9 and sample["stance"] == "scaled":
                break
            assert patience.lasts(), sample
    assert sample["f"] == pytest.approx(1.75 * sample["bytes_ratio"] + 0.25, abs=2e-3)


def test_f_follows_the_toggle(host: RealHost) -> None:
    host.start(SILENCE)
    talker = host.talker("train", 7001)
    assert host.client("unfair", "static", "train=3").returncode == 0
    options = ("--socket", str(host.socket), "--json", "--idle")
    with Tracer("windows", *options) as tracer:
        talker.ask("send 100000")
        assert tracer.found(mode="static")["f"] == 3.0
        assert host.client("unfair", "off").returncode == 0
        talker.ask("send 100000")
        assert tracer.found(mode="off")["f"] == 1.0
        assert tracer.interrupt() == 0


def test_windows_without_an_agent(host: RealHost) -> None:
    talker = host.talker("", 7001)
    assert talker.ask("set reno") == "done"
    with Tracer("windows", "--port", "svc=7001") as tracer:
        talker.ask("send 500000")
        tracer.wait(lambda: len(tracer.lines) >= 3 and any(" reno " in x for x in tracer.lines))
        heading, *lines = tracer.lines
    assert heading.split()[:4] == ["TIME", "JOB", "LOCAL", "REMOTE"]
    (sender,) = {line.split()[2] for line in lines if " reno " in line}
    assert sender.startswith("127.0.0.1:")
    assert all(line.split()[-3:] == ["-", "-", "-"] for line in lines)
