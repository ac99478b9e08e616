"""Clos networks are recognised by the order of hops, and what is none is not taken for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from hostcc.model import ClusterView, Path
from hostcc.schedule.paths.clos import Clos
from hostcc.schedule.paths.recognition import Layered, recognise, sections
from hostcc.schedule.paths.route_groups import hops_of, route_groups
from hostcc.schedule.paths.three_layer import Clos3
from hostcc.schedule.problem import build
from tests.schedule.paths.clos_views import Sent, three_layers, two_layers

pytestmark = pytest.mark.unit


def to(*pairs: tuple[int, int]) -> list[Sent]:
    return [(f"j{n}", f"h{src}", f"h{dst}", 1.0, "") for n, (src, dst) in enumerate(pairs)]


def found(view: ClusterView) -> list[Layered | None]:
    hops = hops_of(build(view))
    where = sections(hops)
    return [recognise(hops, where, group.tables) for group in route_groups(hops)]


def one(view: ClusterView) -> Layered:
    (only,) = found(view)
    assert only is not None
    return only


def test_tors_are_joined_by_what_their_hosts_share() -> None:
    # Two hosts of ToR 0 send to three of ToR 1 and one of ToR 2, which sends to ToR 1.
    made = one(two_layers(to((0, 4), (1, 5), (1, 6), (0, 8), (9, 5))))
    assert isinstance(made.clos, Clos)
    assert made.clos.spines == 3
    assert len({*made.src.tolist()}) == len({*made.dst.tolist()}) == 2
    assert np.all(made.clos.up[made.src] == 1.0)
    assert np.all(made.clos.down[made.dst] == 1.0)


def test_traffic_that_shares_no_link_makes_groups() -> None:
    view = two_layers(to((0, 4), (8, 12), (1, 4), (2, 3)))
    assert [len(group.tables) for group in route_groups(hops_of(build(view)))] == [2, 1]
    assert all(layered is not None for layered in found(two_layers(to((0, 4), (8, 12)))))


def test_a_failed_link_leaves_a_clos() -> None:
    made = one(two_layers(to((0, 4), (1, 8), (9, 5)), dead=["t0s1"]))
    assert isinstance(made.clos, Clos)
    assert sorted((made.clos.up[made.src] > 0).sum(axis=1).tolist()) == [2, 2, 3]
    # A single path is one, too, if others of its switches are known.
    made = one(two_layers(to((0, 4), (8, 4), (8, 12)), dead=["t0s1", "t0s2"]))
    assert sorted((made.candidate >= 0).sum(axis=1).tolist()) == [1, 3, 3]


def test_pods_planes_and_cores() -> None:
    pairs = [(0, 4), (1, 6), (4, 8), (9, 0), (0, 2), (3, 1), (8, 4), (4, 0)]
    made = one(three_layers(to(*pairs), cores=3))
    assert isinstance(made.clos, Clos3)
    # What a pod sends and receives is told apart where no path joins the two.
    pods, _, planes, cores = made.clos.shape
    assert pods >= 3
    assert (planes, cores) == (2, 3)
    far = np.array([src // 4 != dst // 4 for src, dst in sorted(pairs)])
    count = (made.candidate >= 0).sum(axis=1)
    assert np.array_equal(count, np.where(far, 6, 2))


@pytest.mark.parametrize("dead", [["t0a0"], ["a0.0c1"], ["a1t2", "c1a1.1"], ["t0a0", "a0t0"]])
def test_three_layers_with_failed_links(dead: Sequence[str]) -> None:
    pairs = to((0, 4), (1, 6), (4, 8), (9, 0), (0, 2), (3, 1), (6, 2), (8, 4), (4, 0))
    for made in found(three_layers(pairs, dead=dead)):
        assert made is not None
        assert isinstance(made.clos, Clos3)


def test_a_path_that_a_search_has_missed_makes_it_no_clos() -> None:
    pairs = to((0, 4), (1, 5), (9, 5))
    assert found(two_layers(pairs, missed=[("h0", "h4", "p1")])) == [None]
    pairs = to((0, 4), (1, 6))
    assert found(three_layers(pairs, missed=[("h0", "h4", "p0.1")])) == [None]


def test_parallel_links_and_silent_routers_make_it_no_clos() -> None:
    view = two_layers(to((0, 4), (1, 5)))
    first, *rest = view.tables
    (way, *ways) = first.paths
    twice = Path("twice", (way.links[0], "other", *way.links[2:]))
    parallel = replace(first, paths=(way, *ways, twice))
    links = (*view.links, ("other", 1.0))
    assert None in found(replace(view, tables=(parallel, *rest), links=links))
    silent = replace(way, links=(way.links[0], "h0>h4@2", way.links[2], way.links[3]))
    tables = (replace(first, paths=(silent, *ways)), *rest)
    assert None in found(replace(view, tables=tables, links=(*view.links, ("h0>h4@2", 1.0))))


def test_without_the_order_of_hops_nothing_is_recognised() -> None:
    problem = replace(build(two_layers(to((0, 4)))), ways=())
    hops = hops_of(problem)
    groups = list(route_groups(hops))
    assert [recognise(hops, sections(hops), one.tables) for one in groups] == [None]
    # Neither where a path crosses a link twice.
    view = two_layers(to((0, 4)))
    (table,) = view.tables
    loop = replace(table.paths[0], links=(*table.paths[0].links, table.paths[0].links[1]))
    assert found(replace(view, tables=(replace(table, paths=(loop, *table.paths[1:])),))) == [None]
