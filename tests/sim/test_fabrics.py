"""Named fabrics: sizes, paths, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.errors import InputError
from hostcc.sim.fabrics import CLASSES, NAMED, Topology, released, two_layer

pytestmark = pytest.mark.unit


def counts(topology: Topology) -> dict[str, int]:
    return {
        name: int(np.count_nonzero(topology.link_class == index))
        for index, name in enumerate(CLASSES)
        if (topology.link_class == index).any()
    }


@pytest.mark.parametrize(
    ("name", "links", "far", "hops"),
    [
        ("crux-clos", {"nic": 2 * 847 * 4, "agg": 2 * 173 * 16}, 16, 4),
        ("crux-double", {"nic": 2 * 847 * 8, "agg": 2 * 72, "core": 2 * 384}, 4 * 12, 4),
        ("crux-testbed", {"pcie": 2 * 48, "nic": 2 * 48, "agg": 2 * 48}, 8, 6),
        ("routing", {"nic": 2 * 2048, "agg": 2 * 64 * 32}, 32, 4),
        ("thesis-link", {"nic": 4, "agg": 4}, 1, 4),
        ("thesis-cluster", {"nic": 2 * 24, "agg": 2 * 12, "core": 2 * 12}, 2 * 2 * 3, 6),
    ],
)
def test_named(name: str, links: dict[str, int], far: int, hops: int) -> None:
    topology = NAMED[name]()
    assert counts(topology) == links
    assert len(topology.fabric.capacity) == sum(links.values())
    last = len(topology.host_tors) - 1
    paths = topology.paths((0, 0), (last, topology.nics - 1))
    assert len(paths) == far
    assert {len(path) for path in paths} == {hops}
    assert all(len(set(path)) == hops for path in paths)
    assert topology.paths((0, 0), (0, topology.nics - 1)) == [()]


def test_crux_clos_has_at_most_five_hosts_a_tor() -> None:
    below = np.bincount([tor for (tor,) in NAMED["crux-clos"]().host_tors])
    assert len(below) == 173
    assert below.max() == 5


def test_the_thesis_cluster_has_the_published_counts() -> None:
    cluster = NAMED["thesis-cluster"]()
    assert len(cluster.host_tors) == 24
    assert len(cluster.tor_aggs) + len(cluster.agg_cores) + len({*sum(cluster.agg_cores, ())}) == 13
    assert len(cluster.link_rates) == 2 * 48
    below = np.bincount([tor for (tor,) in cluster.host_tors])
    assert {int(down) / len(up) for down, up in zip(below, cluster.tor_aggs, strict=True)} == {2}


def test_hosts_of_a_pair_stay_below_a_tor() -> None:
    double = NAMED["crux-double"]()
    paths = double.paths((0, 0), (1, 0))
    assert len(paths) == 2
    assert {len(path) for path in paths} == {2}


def test_released() -> None:
    pods, tors = ["P1", "P1", "P1", "P2"], ["P1/S1", "P1/S1", "P1/S2", "P2/S1"]
    topology = released(pods, tors)
    assert counts(topology) == {"nic": 32, "agg": 6, "core": 4}
    lengths = [len(topology.paths((0, 0), (host, 0))[0]) for host in (1, 2, 3)]
    assert lengths == [2, 4, 6]
    with pytest.raises(InputError, match="in one pod"):
        released(["P1", "P2"], ["S", "S"])
    with pytest.raises(InputError, match="1 to 100000 hosts"):
        released([], [])


def test_a_fabric_that_is_cut() -> None:
    cut = Topology("cut", 1, ((0,), (1,)), ((0,), (1,)), ((), ()), {"nic": 1.0, "agg": 1.0})
    with pytest.raises(InputError, match="cut: expected a path between hosts 0 and 1"):
        cut.paths((0, 0), (1, 0))


@pytest.mark.parametrize("sizes", [(0, 1, 1, 1), (2, 3, 1, 1), (2, 1, 0, 1), (2, 1, 1, 0)])
def test_impossible_sizes(sizes: tuple[int, int, int, int]) -> None:
    with pytest.raises(InputError, match="x: expected"):
        two_layer("x", *sizes, {"nic": 1.0, "agg": 1.0})
