"""Traffic that is no job's: a bulk TCP transfer, or a constant stream of UDP datagrams.

`python -m hostcc.lab.background RANK`, orders as JSON in HOSTCC_LAB_BACKGROUND; rank 0 sends,
rank 1 receives.  Standard input and output as for hostcc.lab.worker.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import Any

from hostcc.lab.exchange import PIECE_BYTES, Exchange, PeerGoneError
from hostcc.lab.worker import CONNECT_PATIENCE_S, Orders, configure, say

TICK_S = 0.001
UDP_OVERHEAD_BYTES = 42
"""Ethernet, IPv4 and UDP headers."""


def send_bulk(orders: dict[str, Any], runner: Orders) -> None:
    """Send as much as the network takes, on every flow."""
    links: list[socket.socket] = []
    deadline = time.monotonic() + CONNECT_PATIENCE_S
    while len(links) < orders["flows"]:
        link = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        configure(link, orders["congestion_control"])
        try:
            link.connect((orders["peer"], orders["port"]))
            links.append(link)
        except OSError:
            link.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    say("ready")
    end = _wait(orders, runner)
    exchange = Exchange(links)
    while time.monotonic() < end and not runner.check():
        exchange.transfer([(link, PIECE_BYTES) for link in links], ())
    exchange.close()


def receive_bulk(orders: dict[str, Any]) -> None:
    """Take what comes."""
    listener = socket.create_server(("0.0.0.0", orders["port"]))
    listener.settimeout(CONNECT_PATIENCE_S)
    say("ready")
    links = [listener.accept()[0] for _ in range(orders["flows"])]
    exchange = Exchange(links)
    try:
        while True:
            exchange.transfer((), [(link, PIECE_BYTES) for link in links])
    except PeerGoneError:
        exchange.close()


def send_udp(orders: dict[str, Any], runner: Orders) -> None:
    """Send full datagrams at a constant rate, every millisecond what is due."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.connect((orders["peer"], orders["port"]))
    payload = bytes(orders["mtu"] - 28)
    interval = (len(payload) + UDP_OVERHEAD_BYTES) * 8 / (orders["rate_mbit"] * 1e6)
    say("ready")
    end = _wait(orders, runner)
    due = time.monotonic()
    while (now := time.monotonic()) < end and not runner.check():
        while due <= now:
            try:
                link.send(payload)
            except OSError:
                break
            due += interval
        time.sleep(max(due, now + TICK_S) - now)


def receive_udp(orders: dict[str, Any]) -> None:
    """Hold the port open; the switch's counters tell what arrived."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(("0.0.0.0", orders["port"]))
    say("ready")
    while sys.stdin.buffer.readline().startswith(b"start"):
        continue


def _wait(orders: dict[str, Any], runner: Orders) -> float:
    """Wait for the runner and the start time; returns when to end."""
    release = runner.wait_start()
    runner.sleep_until(release + orders["start_s"])
    return release + orders["stop_s"] if orders["stop_s"] else float("inf")


def main() -> None:
    """Run one end."""
    orders = json.loads(os.environ["HOSTCC_LAB_BACKGROUND"])
    if sys.argv[1] == "1":
        receive_bulk(orders) if orders["kind"] == "bulk" else receive_udp(orders)
    elif orders["kind"] == "bulk":
        send_bulk(orders, Orders())
    else:
        send_udp(orders, Orders())


if __name__ == "__main__":
    main()
