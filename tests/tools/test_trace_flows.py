"""tools/trace-flows: the process, the job and the way of connections as they open and close."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from hostcc.lab import netns
from tests.real import RealHost
from tests.tools.tracer import Pair, Tracer

pytestmark = pytest.mark.kernel


def test_a_job_opens_connections_while_the_agent_runs(host: RealHost) -> None:
    host.start()
    with Tracer("flows", "--socket", str(host.socket), "--json", "--job", "train") as tracer:
        other = host.talker("other", 7002)
        talker = host.talker("train", 7001)
        flows = host.json("flows", "--job", "train")["flows"]
        opened, accepted = tracer.found(event="opened"), tracer.found(event="accepted")
        talker.ask("send 50000")
        other.exit(0)
        assert talker.exit(0) == 0
        closed = tracer.matching(2, event="closed")
        assert tracer.interrupt() == 0
        events = tracer.events
    assert {event["job"] for event in events} == {"train"}
    for event in (opened, accepted):
        assert event["pid"] == talker.process.pid
        assert event["command"].startswith("python")
        assert (event["netns"], event["device"], event["gateway"]) == (host.name, "lo", None)
    assert opened["remote"] == accepted["local"] == "127.0.0.1:7001"
    assert opened["local"] == accepted["remote"]
    assert {opened["local"], accepted["local"]} == {flow["local"] for flow in flows}
    assert opened["local"] == f"127.0.0.1:{opened['source_port']}"
    (sent,) = [event for event in closed if event["local"] == opened["local"]]
    assert 50_000 <= sent["bytes_sent"] <= 50_002  # SYN and FIN count as a byte each
    assert sent["lasted_s"] > 0


@pytest.mark.parametrize(
    ("address", "gateway"),
    [
        ("198.18.77.2", None),
        ("198.18.78.2", "198.18.77.2"),
        ("fd00:77::2", None),
        ("fd00:78::2", "fd00:77::2"),
    ],
)
def test_the_way_of_a_connection(pair: Pair, address: str, gateway: str | None) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = netns.inside(
        pair.names[1], lambda: socket.create_server((address, 0), family=family)
    )
    port = listener.getsockname()[1]
    with listener, Tracer("flows", "--port", f"svc={port}", "--json", "--no-close") as tracer:
        code = f"import socket; socket.create_connection(({address!r}, {port})).close()"
        child = subprocess.Popen(
            ["ip", "netns", "exec", pair.names[0], sys.executable, "-I", "-c", code]
        )
        assert child.wait(60) == 0
        opened = tracer.found(event="opened", job="svc")
    assert (opened["pid"], opened["netns"]) == (child.pid, pair.names[0])
    assert (opened["device"], opened["gateway"]) == ("v0", gateway)
    assert opened["remote"] == (f"[{address}]:{port}" if ":" in address else f"{address}:{port}")


def test_who_is_refused(pair: Pair) -> None:
    with Tracer("flows", "--port", "svc=9", "--job", "svc", "--no-accept") as tracer:
        code = "import socket; socket.socket().connect_ex(('198.18.77.2', 9))"
        child = subprocess.Popen(
            ["ip", "netns", "exec", pair.names[0], sys.executable, "-I", "-c", code]
        )
        assert child.wait(60) == 0
        tracer.wait(lambda: bool(tracer.lines))
        (line,) = tracer.lines
    assert " failed   svc " in line
    assert f"[{child.pid}] " in line
    assert " 198.18.77.1:" in line
    assert "-> 198.18.77.2:9  dev v0  netns " in line


def test_accepted_without_looking_who(pair: Pair) -> None:
    listener = netns.inside(pair.names[1], lambda: socket.create_server(("198.18.77.2", 0)))
    port = listener.getsockname()[1]
    options = ("--port", f"svc={port}", "--json", "--no-accept", "--count", "2")
    with listener, Tracer("flows", *options) as tracer:
        made = netns.inside(
            pair.names[0], lambda: socket.create_connection(("198.18.77.2", port), timeout=30)
        )
        made.close()
        accepted = tracer.found(event="accepted", job="svc")
    assert (accepted["pid"], accepted["command"], accepted["netns"]) == (None, None, pair.names[1])
    assert accepted["local"] == f"198.18.77.2:{port}"
