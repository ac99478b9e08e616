"""tools/trace-qdisc: its delays and drops are those that the queue must have had."""

from __future__ import annotations

import socket
import time

import pytest

from hostcc.lab import netns
from tests.patience import Patience
from tests.tools.tracer import PATIENCE_S, Pair, Tracer

pytestmark = pytest.mark.kernel

SO_SNDBUFFORCE = 32  # asm-generic/socket.h
PACKET = 1000
SENT = 200
LIMIT = 40_000
RATE_MBIT = 8


def burst(pair: Pair, count: int = SENT) -> None:
    """So many datagrams at once, from the first namespace to the second."""

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            # More than the queue holds must not wait in the socket.
            sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 22)
            for _ in range(count):
                sender.sendto(bytes(PACKET), ("198.18.77.2", 9))

    netns.inside(pair.names[0], send)


def drained(pair: Pair) -> None:
    """Wait until the queue is empty."""
    patience = Patience(PATIENCE_S)
    while any(row.get("backlog") for row in pair.counters()):
        assert patience.lasts()
        time.sleep(0.02)


def test_drops_and_delay_of_a_classful_queue(pair: Pair) -> None:
    pair.shape(f"{RATE_MBIT}mbit", LIMIT)
    burst(pair)  # drops that nobody traced
    drained(pair)
    (before,) = (row["drops"] for row in pair.counters() if row["kind"] == "bfifo")
    assert before > 0
    options = ("--json", "--netns", pair.names[0], "--interval", "0.2")
    with Tracer("qdisc", *options) as tracer:
        burst(pair)
        tracer.wait(
            lambda: (
                sum(e["packets"] + e["drops"] for e in tracer.events) >= SENT
                and sum((e["delay_us"] or {"packets": 0})["packets"] for e in tracer.events)
                >= sum(e["packets"] for e in tracer.events)
            )
        )
        assert tracer.interrupt() == 0
        events = tracer.events
    assert {(e["device"], e["kind"], e["handle"], e["parent"]) for e in events} == {
        ("v0", "htb", "1:", "root")
    }
    leaf = next(row for row in pair.counters() if row["kind"] == "bfifo")
    drops = leaf["drops"] - before
    assert drops > 0
    assert sum(event["drops"] for event in events) == drops
    below = [row for event in events for row in event["below"]]
    assert {(row["kind"], row["handle"], row["parent"]) for row in below} == {
        ("bfifo", "10:", "1:1")
    }
    assert sum(row["drops"] for row in below) == drops
    # Whatever else the machine does, a full queue takes its time to drain.
    longest = max(event["delay_us"]["max"] for event in events if event["delay_us"])
    drain_us = (LIMIT - 2 * PACKET - 2000) * 8 / RATE_MBIT
    assert longest >= 0.8 * drain_us
    for event in events:
        if delay := event["delay_us"]:
            assert delay["p50"] <= delay["p99"] <= delay["max"]
            assert 0 < delay["mean"] <= delay["max"] * 1.07


def test_a_person_reads_it(pair: Pair) -> None:
    pair.shape(f"{RATE_MBIT}mbit", LIMIT)
    with Tracer("qdisc", "--netns", pair.names[0], "--count", "1") as tracer:
        burst(pair, 10)
        assert tracer.end() == 0
        text = "\n".join(tracer.lines)
    assert f"{pair.names[0]} v0: htb 1: parent root" in text
    assert "bfifo 10: parent 1:1  dropped 0" in text


def test_other_devices_are_left_out(pair: Pair) -> None:
    pair.shape(f"{RATE_MBIT}mbit", LIMIT)
    with Tracer("qdisc", "--json", "--device", "v1", "--interval", "0.1") as tracer:
        burst(pair, 10)
        assert tracer.interrupt() == 0
        assert tracer.events == []
