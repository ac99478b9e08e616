"""Live flows change their path and lose nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_plan import Ipv6Hash, LeafSpineSpec
from hostcc.paths.hooks import Way
from tests.paths.steer_stage import Pair, counters, until

pytestmark = pytest.mark.kernel

WIRE = range(50000, 50032)


@pytest.fixture(scope="module")
def fabric() -> Iterator[LeafSpine]:
    with LeafSpine(LeafSpineSpec(spines=4, ipv6_hash=Ipv6Hash.PORTS)) as built:
        yield built


@pytest.mark.parametrize("v6", [False, True])
@pytest.mark.parametrize("way", list(Way))
def test_many_moves_of_a_checksummed_stream(fabric: LeafSpine, v6: bool, way: Way) -> None:
    with Pair(fabric, v6=v6, way=way) as pair:
        before = counters(fabric, "h1", "Tcp")
        stream = pair.stream()
        agent = pair.agents["h1"]
        moves = refused = 0
        while moves < 250:
            port = WIRE[(moves * 7 + refused) % len(WIRE)]
            if not agent.sender.free(stream.flow, port) or agent.sender.active(stream.flow) == port:
                refused += 1
                pair.tick()
                continue
            pair.move(stream.flow, port)
            moves += 1
            if not moves % 10:
                pair.tick()
        (row,) = pair.kernels["h1"].leaving()
        until(lambda: pair.kernels["h1"].leaving()[0].packets > row.packets, "packets")
        agent.revert(stream.flow)
        assert stream.finish() > 0
        assert pair.kernels["h1"].leaving() == []
        assert sum(one.packets for one in pair.kernels["h2"].arriving()) > 0
        after = counters(fabric, "h1", "Tcp")
        assert after["EstabResets"] == before["EstabResets"]
        for name in ("h1", "h2"):
            assert counters(fabric, name, "Tcp")["InCsumErrors"] == 0
        until(lambda: _settled(pair), "releases")


def _settled(pair: Pair) -> bool:
    pair.tick()
    return not pair.kernels["h1"].guards() and not pair.kernels["h2"].arriving()
