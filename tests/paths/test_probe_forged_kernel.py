"""Probing while a stranger answers, too, as fast as it can."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from hostcc.lab import netns
from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_plan import LeafSpineSpec
from hostcc.paths import source_ports
from hostcc.paths.packets import TCP, UDP, Target
from hostcc.paths.prober import search
from hostcc.paths.search import SILENT, SearchSettings
from tests.paths.steer_stage import counters
from tests.paths.test_probe_fabric import MISSED_RISK
from tests.patience import until

pytestmark = pytest.mark.kernel

SPINES = 2
PROBES = 100
FORGED = 10 * PROBES


@pytest.fixture(scope="module")
def fabric() -> Iterator[LeafSpine]:
    """The second leaf says nothing to the first host; the stranger is that one's neighbour."""
    with LeafSpine(LeafSpineSpec(spines=SPINES, hosts_per_leaf=2)) as built:
        silent = f"rule add iif lo to {built.host(1).address} blackhole"
        netns.batch("ip", [silent], built.namespace("leaf2"))
        yield built


@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_forged_answers_invent_no_hop(fabric: LeafSpine, protocol: int) -> None:
    prober, stranger, aim = fabric.host(1), fabric.host(2), fabric.host(3)
    where = Target(prober.address, aim.address, protocol, 5201 if protocol == TCP else 4791)
    spines = {link.address(of_spine=True) for link in fabric.links}
    words = [prober.address, aim.address, str(where.dst_port), str(protocol)]
    settings = SearchSettings(risk=MISSED_RISK)
    probes = 0

    def heard() -> int:
        """ICMP messages that have come to the prober, nearly all of them forged."""
        return counters(fabric, prober.name, "Icmp")["InMsgs"]

    def look() -> None:
        nonlocal probes
        found = netns.inside(
            fabric.namespace(prober.name),
            lambda: search(where, source_ports.candidate_ports(), settings),
        )
        probes += found.probes
        hops = {hop for path in found.paths for hop in path}
        assert stranger.address not in hops
        assert {hop for path in found.paths for hop in path[1:]} <= {SILENT, *spines}
        assert len(found.paths) == SPINES, found
        assert not found.sprayed

    before = heard()
    with netns.spawn(
        [sys.executable, "-m", "tests.paths.forger", *words],
        namespace=fabric.namespace(stranger.name), cgroup=None,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as forger:  # fmt: skip
        # The stranger may begin later than the first search ends.
        until(
            lambda: probes >= PROBES and heard() - before > probes + FORGED,
            lambda: f"forged answers: {heard() - before} beside {probes} probes",
            300.0,
            look,
        )
        out, _ = forger.communicate()
    print(f"{probes} probes beside {int(out)} forged answers")
