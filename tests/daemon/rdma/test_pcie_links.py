"""Which PCIe links jobs share, on the trees of published servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hostcc.coord.core.payloads import LinkName
from hostcc.daemon.rdma import pcie_links, shim_plan
from hostcc.daemon.rdma.pairs import Pair, Sender
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute, view
from hostcc.daemon.rdma.shim_plan import ShimInputs
from hostcc.pcie import sysfs
from hostcc.pcie.tree import Tree
from hostcc.schedule.plan import plan
from tests.pcie import servers

pytestmark = pytest.mark.unit
PATTERN = LinkName.__metadata__[0].pattern  # type: ignore[attr-defined]
GPU, OTHER_GPU, NIC = "0000:10:1c.0", "0000:10:1d.0", "0000:10:1b.0"
FAR_NIC = "0000:20:1b.0"


def sender(job: str, pid: int, device: str) -> Sender:
    pair = Pair(pid, device, 1, "198.18.1.1", "198.18.2.1", 0, 0, 0, 0, 0)
    return Sender(job, pid, 0, 0, (pair,))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return sysfs.read(servers.sysfs("p4d", tmp_path))


def test_two_gpus_at_one_nic_take_turns_there(tree: Tree) -> None:
    senders = [sender("a", 1, NIC), sender("b", 2, NIC)]
    pairs = pcie_links.pairs_of(tree, senders, {1: [GPU], 2: [OTHER_GPU]})
    assert pairs == {"a": {NIC: [(GPU, NIC)]}, "b": {NIC: [(OTHER_GPU, NIC)]}}
    found = pcie_links.turns(tree, pairs)
    assert found.links == {NIC: ("a", "b")}
    assert found.gates == {"a": ((NIC, NIC),), "b": ((NIC, NIC),)}


def test_who_shares_nothing_takes_no_turns(tree: Tree) -> None:
    senders = [sender("a", 1, NIC), sender("b", 2, FAR_NIC)]
    found = pcie_links.turns(
        tree, pcie_links.pairs_of(tree, senders, {1: [GPU], 2: ["0000:20:1c.0"]})
    )
    assert (found.links, found.gates) == ({}, {})


def test_a_job_does_not_wait_for_itself(tree: Tree) -> None:
    senders = [sender("a", 1, NIC), sender("a", 2, NIC)]
    found = pcie_links.turns(tree, pcie_links.pairs_of(tree, senders, {1: [GPU], 2: [OTHER_GPU]}))
    assert found.gates == {}


def test_without_gpus_nics_read_the_memory(tree: Tree) -> None:
    pairs = pcie_links.pairs_of(tree, [sender("a", 1, NIC)], {})
    assert pairs == {"a": {NIC: [(NIC, "")]}}
    assert pcie_links.pairs_of(tree, [sender("a", 1, "nowhere0")], {}) == {"a": {}}


def test_names_that_gossip_takes(tree: Tree) -> None:
    for host in ("host-1", "h" * 64, "odd host/\u00e4"):
        for node in (*tree.nodes, "Switch #1 / x"):
            for up in (True, False):
                assert re.match(PATTERN, pcie_links.link_name(host, node, up=up))
    assert pcie_links.link_name("h", NIC, up=True) == "h/pci/0000:10:1b.0/up"


def test_directions(tree: Tree) -> None:
    assert pcie_links.crossed(tree, "h", GPU, NIC) == (
        f"h/pci/{GPU}/up", f"h/pci/{NIC}/down",
    )  # fmt: skip
    memory = pcie_links.crossed(tree, "h", NIC, "")
    assert all(link.endswith("/down") for link in memory)
    assert memory[-1] == f"h/pci/{NIC}/down"
    across = pcie_links.crossed(tree, "h", GPU, "0000:a0:1b.0")
    ways = [link.rpartition("/")[2] for link in across]
    assert ways == sorted(ways, reverse=True)  # up on this socket, then down on the other


def test_plan_and_semaphores_agree_on_a_published_server(tree: Tree) -> None:
    """p4d: jobs on two GPUs of one switch meet at the NIC's link, and only there.  The scheduler
    sees that link in both their ways, and who is above in its plan goes first at the semaphore."""
    senders = [sender("a", 1, NIC), sender("b", 2, NIC), sender("far", 3, FAR_NIC)]
    pairs = pcie_links.pairs_of(tree, senders, {1: [GPU], 2: [OTHER_GPU], 3: ["0000:20:1c.0"]})
    (gated,) = pcie_links.turns(tree, pairs).links
    ways = {one.job: QueuePairRoute(one.job, one.pairs[0].device, "198.18.1.1", "198.18.2.1")
            for one in senders}  # fmt: skip
    inside = {
        way: pcie_links.crossed(tree, "h", *pairs[job][way.device][0]) for job, way in ways.items()
    }  # fmt: skip
    rates = {
        pcie_links.link_name("h", node.id, up=up): node.rate
        for node in tree.nodes.values()
        if node.rate
        for up in (True, False)
    }
    shared = pcie_links.link_name("h", gated, up=False)
    assert [job for job, way in ways.items() if shared in inside[way]] == ["a", "b"]
    sending = dict.fromkeys(ways.values(), 0.8 * rates[shared])
    fabric = {"198.18.1.1>": 1e12, ">198.18.2.1": 1e12}
    for weights in ({"a": 4.0}, {"b": 4.0}):
        now = view(sending, {}, inside, {**rates, **fabric}, {}, {}, weights)
        levels = {one.job: one.level for one in plan(now).jobs}
        (heavy,) = weights
        (light,) = {"a", "b"} - {heavy}
        assert levels[heavy] < levels[light]
        found = shim_plan.jobs(ways, ShimInputs(local=plan(now), ways=tuple(ways.values())), {})
        assert {job.name: job.level for job in found} == levels
