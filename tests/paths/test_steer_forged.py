"""Moved flows while a stranger sends resets and SYNs for their ports on the wire."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from hostcc.lab import netns
from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_plan import LeafSpineSpec
from hostcc.paths.steering_messages import Broken, FlowKey
from tests.paths.steer_stage import PORT, Pair, counters, until

pytestmark = pytest.mark.kernel

FLOWS = 4
WIRE = range(20000, 20000 + FLOWS)
"""Below the ephemeral ports, so that no stream begins with one of them."""
FORGED = int(os.environ.get("HOSTCC_TEST_FORGED", "50000"))
"""Of each kind, before the flows are looked at once more."""
AT_LEAST_S = float(os.environ.get("HOSTCC_TEST_FORGED_S", "0"))
"""The same in seconds: a minute by hand, no time where other tests wait."""


@pytest.fixture(scope="module")
def fabric() -> Iterator[LeafSpine]:
    """The stranger is a neighbour of the sender."""
    with LeafSpine(LeafSpineSpec(spines=2, hosts_per_leaf=2)) as built:
        yield built


def test_forged_resets_and_syns_leave_flows_where_they_are(fabric: LeafSpine) -> None:
    stranger = fabric.namespace(fabric.host(2).name)
    with Pair(fabric, receiver=3) as pair:
        streams = [pair.stream(PORT + n) for n in range(FLOWS)]
        ports = dict(zip((stream.flow for stream in streams), WIRE, strict=True))
        for flow, port in ports.items():
            pair.move(flow, port)
        until(lambda: all(one.packets > 100 for one in pair.kernels["h1"].leaving()), "packets")
        forger = _forger(pair, stranger, ports)
        began = time.monotonic()
        until(
            lambda: _beaten(pair) > FORGED and time.monotonic() - began >= AT_LEAST_S,
            "forged packets", 300 + AT_LEAST_S,
        )  # fmt: skip
        kernel, agent = pair.kernels["h1"], pair.agents["h1"]
        assert {one.flow: one.wire_port for one in kernel.leaving()} == ports
        assert {one.broken for one in kernel.leaving()} == {Broken.OK}
        assert not agent.sender.refusals
        assert len(pair.kernels["h3"].arriving()) == FLOWS
        sent = int(forger.communicate()[0])
        strays = kernel.strays() | {"syns": pair.kernels["h3"].strays()["syns"]}
        print(f"{sent} forged packets sent, {strays} counted, {len(ports)} flows stayed")
        before = counters(fabric, "h1", "Tcp")["EstabResets"]
        assert all(stream.finish() > 0 for stream in streams)
        assert counters(fabric, "h1", "Tcp")["EstabResets"] == before


def _beaten(pair: Pair) -> int:
    """A tick of both agents; how many forged packets of the rarer kind have arrived."""
    pair.tick()
    return min(pair.kernels["h1"].strays()["resets"], pair.kernels["h3"].strays()["syns"])


def _forger(pair: Pair, stranger: str, ports: dict[FlowKey, int]) -> subprocess.Popen[bytes]:
    flows = [f"{wire}:{flow.dport}" for flow, wire in ports.items()]
    return netns.spawn(
        [sys.executable, "-m", "tests.paths.tcp_forger", *pair.addresses.values(), *flows],
        namespace=stranger, cgroup=None, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
